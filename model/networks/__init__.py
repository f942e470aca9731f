"""Networks: bodies by family, and their shared heads."""
