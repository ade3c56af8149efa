"""Compares chat completions through Beacon's API with the backend alone and LiteLLM's proxy."""
