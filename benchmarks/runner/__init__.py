"""The runner beside its peers and the physical limits."""
