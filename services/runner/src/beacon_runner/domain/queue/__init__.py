"""Messages, lanes and classes of the queue; waits and demand."""
