"""The schedule of a search: the clock and its lanes, the proposals of the strategy, the rules that stop trials."""
