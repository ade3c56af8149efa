"""Clock, service contract, supervisor, signals."""
