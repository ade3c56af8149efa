"""Other queues, each in its usual durable setting."""
