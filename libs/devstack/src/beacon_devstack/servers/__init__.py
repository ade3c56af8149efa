"""Embedded Postgres and Valkey."""
