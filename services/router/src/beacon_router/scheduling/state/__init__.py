"""The state that the policy decides on."""
