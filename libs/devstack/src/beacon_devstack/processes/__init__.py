"""Child processes: start, readiness, logs, stop."""
