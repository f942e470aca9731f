"""Who decides: the loop over the trials, the clock and its schedule, the strategies, ask and tell."""
