"""The router's scheduling core in virtual time, against simpler policies."""
