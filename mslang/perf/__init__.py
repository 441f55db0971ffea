"""Where the time of one kernel goes: its parts timed as it runs, machine code next to the statements it comes from."""
