"""What a study rests on: configuration, data, code and machine, and what of it has changed."""
