"""What a search came to, as its record has it: its trials, what was trained after it, its winner."""
