"""From a network's probabilities to sequences: beam search and sampling."""
