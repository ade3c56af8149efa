"""Large outputs: from a backend through the router into the file store."""
