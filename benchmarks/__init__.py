"""Measurements: each part runs by itself with `python -m benchmarks.<part>`."""
