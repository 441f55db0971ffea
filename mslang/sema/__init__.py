"""Names, types and meaning: from syntax trees to modules and IR programs."""
