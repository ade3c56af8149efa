"""HTTP serving: server, limits, problem documents, OpenAPI."""
