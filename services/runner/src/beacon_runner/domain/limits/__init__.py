"""Limits of tiers: jobs of a user, requests of a user, one request."""
