"""Background loops: each is a small class with `run_once`, called by a `Loop`."""
