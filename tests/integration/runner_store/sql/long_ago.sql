UPDATE router_cancels SET created_at = created_at - interval '1 hour'
