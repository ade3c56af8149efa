"""The job runner: claims jobs, runs what is left of a stage through the router, records what became of it."""
