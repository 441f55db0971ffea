"""What `mslang tune` shows: a live table on a terminal, lines in a pipe, JSON lines, nothing; then a summary."""
