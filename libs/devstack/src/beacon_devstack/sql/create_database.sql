-- The system's own database, beside the server's `postgres`.
CREATE DATABASE beacon
