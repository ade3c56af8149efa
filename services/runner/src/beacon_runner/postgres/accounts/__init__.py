"""Users, credit, usage, audit."""
