"""A study as Python users have it: looked at, steered, continued, kept and removed."""
