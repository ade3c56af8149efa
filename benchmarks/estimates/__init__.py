"""The waits that the API reports, compared with the actual ones."""
