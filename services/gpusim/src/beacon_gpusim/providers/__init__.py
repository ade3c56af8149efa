"""Providers that accept a run first and are asked for its result later."""
