"""The commands: one module per group, loaded when the command is called."""
