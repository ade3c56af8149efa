"""What the state says to people: snapshots, wait reasons, demand."""
