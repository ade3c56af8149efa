"""Jobs: admission, states, commands, schedules, bulk operations."""
