"""When waiting requests will start: a simulation of the policy on a copy of the state."""
