"""Measures how soon a receiver of webhooks has the request after the end of a job."""
