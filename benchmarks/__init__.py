"""Measurements: `python -m benchmarks.<part>` runs one part."""
