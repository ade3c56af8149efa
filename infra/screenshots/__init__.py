"""The pictures of the README, taken from a running system."""
