"""Every configuration value with its meaning; composed by Hydra through pkg://conf."""
