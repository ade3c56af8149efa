"""What runs by itself: each loop is a small class with `run_once`, and a ticker that only calls it."""
