"""Users, credit, prices, usage, audit."""
