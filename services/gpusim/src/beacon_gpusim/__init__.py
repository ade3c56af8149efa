"""A simulated GPU endpoint: a real HTTP server with load times, run times, caps and faults."""
