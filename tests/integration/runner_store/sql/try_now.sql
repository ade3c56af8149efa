UPDATE router_cancels SET next_try_at = now()
