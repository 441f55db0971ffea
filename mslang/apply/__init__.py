"""Programs with the best schedules that are known for them, apart from any tuning."""
