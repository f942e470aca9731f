"""The schedule of a search: the clock and its lanes, the strategy's proposals, and the rules that stop trials."""
