"""What one user's bulk does to the others, under each lane strategy."""
