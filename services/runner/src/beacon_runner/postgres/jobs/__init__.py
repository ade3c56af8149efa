"""Jobs and executions."""
