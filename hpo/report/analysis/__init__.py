"""What is computed from trials for figures and sections alike."""
