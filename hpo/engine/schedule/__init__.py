"""What happens in a search, and when: the clock, the lanes, the questions to the strategy, the races."""
