"""The Transformer: attention, positions, layers."""
