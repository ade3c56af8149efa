"""The router owns the GPUs: it decides which inference runs on each free slot."""
