"""Owns the job's life: API, outbox, queues, workers."""
