"""Networks: bodies by family, and the heads that they share."""
