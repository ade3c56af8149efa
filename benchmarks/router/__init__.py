"""Measures the router beside its limits and LiteLLM: requests a second, CPU a request, added latency."""
