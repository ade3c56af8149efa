"""The source of record: every statement against Postgres, and the transactions around them."""
