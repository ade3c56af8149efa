"""The runner's rules: plans, states, retry decisions. Pure: no I/O, no clock, no logging."""
