"""The effect of one user's bulk submission on other users, under each lane strategy."""
