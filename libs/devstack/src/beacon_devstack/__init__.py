"""Embedded Postgres and Redis, and the whole system in one terminal."""
