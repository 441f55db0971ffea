"""Where the time of one kernel goes: its parts timed as it runs, machine code beside the statements it is from."""
