"""The wire formats of backends, one file each; `backends/registry.py` builds them from the configuration."""
