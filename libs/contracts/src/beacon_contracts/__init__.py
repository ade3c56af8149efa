"""Shapes that cross a boundary: jobs, inferences, events, problems. Shapes only: no behaviour, no I/O."""
