"""What the operations of schedules are called and take: signatures only."""
