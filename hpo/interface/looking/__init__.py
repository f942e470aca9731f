"""What is looked at without a trace: all studies, one, and one of its trials."""
