"""Beacon and the bare limits, each in its own process."""
