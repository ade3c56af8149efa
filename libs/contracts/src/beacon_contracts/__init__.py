"""Shapes that cross a boundary: jobs, inferences, events, problems."""
