"""What the simulated GPU does: pure, seeded, with time as an argument."""
