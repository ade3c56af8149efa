"""Endpoints, deliveries, permitted addresses."""
