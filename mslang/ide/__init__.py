"""The editor's features, one module each: pure functions over texts and offsets."""
