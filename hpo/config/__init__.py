"""The configuration: its rules, its documents, and its secrets."""
