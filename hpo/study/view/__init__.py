"""A study as those see it who only look on."""
