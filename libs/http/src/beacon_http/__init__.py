"""The HTTP edge that the services share: replies, problem documents, bounded bodies, the fast lane."""
