"""Deployment files and their checks."""
