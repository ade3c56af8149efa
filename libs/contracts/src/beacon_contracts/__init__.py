"""Data types that cross a process boundary: jobs, inferences, events, problems. No I/O."""
