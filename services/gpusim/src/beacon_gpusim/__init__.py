"""A simulated GPU endpoint: a real HTTP server with load times, caps and faults."""
