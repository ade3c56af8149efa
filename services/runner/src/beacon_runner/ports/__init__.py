"""What the runner needs from the outside, as small protocols; adapters implement them."""
