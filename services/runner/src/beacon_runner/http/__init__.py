"""HTTP: routes, authentication, problem documents, views."""
