"""Events of a job over HTTP: pages, server-sent events, WebSockets."""
