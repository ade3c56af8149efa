"""Files, references to them, names in archives."""
