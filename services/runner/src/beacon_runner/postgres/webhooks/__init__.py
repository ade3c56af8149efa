"""Endpoints and deliveries."""
