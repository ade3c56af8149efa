"""What a request may contain."""
