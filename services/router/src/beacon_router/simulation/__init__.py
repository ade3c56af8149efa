"""Runs a load through the scheduler in virtual time: `beacon simulate`."""
