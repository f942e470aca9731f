"""Trained models in use: which model, and where its results go."""
