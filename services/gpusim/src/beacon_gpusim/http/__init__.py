"""The HTTP side: endpoints of the three dialects, streaming, connection faults, control routes."""
