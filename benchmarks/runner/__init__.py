"""The runner compared with its peers and the physical limits."""
