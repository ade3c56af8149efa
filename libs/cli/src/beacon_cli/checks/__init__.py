"""The checks of `beacon doctor`."""
