"""The simulated GPU: pure and seeded, with time as an argument."""
