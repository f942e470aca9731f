"""What every figure is drawn on: axes, colours, the time of a search, a sample of many trials."""
