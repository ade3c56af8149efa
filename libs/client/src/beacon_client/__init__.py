"""Typed clients of runner and router, and the beacon command line."""
