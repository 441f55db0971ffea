"""A task scheduler and a callback for mslang."""
