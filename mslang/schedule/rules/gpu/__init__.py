"""Default schedules for GPUs, without search: what each nest does decides how threads share it."""
