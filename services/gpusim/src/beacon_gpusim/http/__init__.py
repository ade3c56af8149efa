"""The HTTP side: the doors of the three dialects, streaming, faults on the wire, and control."""
