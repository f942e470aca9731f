"""Trained models at a terminal: which model, and what it reads."""
