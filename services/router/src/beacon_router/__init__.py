"""Owns the GPUs: which inference runs on each free slot."""
