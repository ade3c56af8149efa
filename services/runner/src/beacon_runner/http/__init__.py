"""The HTTP edge: who asks, what is refused, and how answers look."""
