-- The system's own database, separate from the server's `postgres`.
CREATE DATABASE beacon
