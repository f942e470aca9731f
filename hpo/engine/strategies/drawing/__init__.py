"""How points are drawn: untried, spread evenly, near the best, and chosen among candidates."""
