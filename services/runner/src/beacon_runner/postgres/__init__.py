"""The truth: every statement against Postgres, and the transactions around them."""
