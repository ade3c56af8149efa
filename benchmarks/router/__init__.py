"""Compares the router with its limits and LiteLLM: requests per second, CPU per request, added latency."""
