"""Routes for administrators."""
