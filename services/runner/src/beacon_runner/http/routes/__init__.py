"""Routes for users."""
