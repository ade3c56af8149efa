"""Structured logs, metrics, request ids."""
