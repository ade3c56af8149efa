"""Shared parts of all measurements: servers, systems in processes, shuffled rounds, statistics."""
