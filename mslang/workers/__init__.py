"""Worker processes: tasks that may crash, hang or exhaust memory, each ending in one outcome value."""
