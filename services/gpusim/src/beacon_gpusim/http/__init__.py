"""The HTTP side: endpoints of the dialects, streaming, connection faults, control routes."""
