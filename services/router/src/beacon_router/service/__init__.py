"""Accepts inferences, performs the scheduler's decisions and reports their results to it."""
