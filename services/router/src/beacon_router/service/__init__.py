"""The shell around the pure scheduler: it performs what the core decides, and tells it what happened."""
