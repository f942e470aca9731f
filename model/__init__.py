"""Neural networks, and the code that trains, stores and applies them. The package imports nothing from hpo."""
