"""One module a peer; each runs in its own process, in the environment of the peers."""
