"""Convolutional networks: Gehring et al. 2017, "Convolutional sequence to sequence learning"."""
