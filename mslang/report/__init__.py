"""What tuning found, as one HTML page."""
