"""The runner owns jobs: API, outbox, queues, workers."""
