"""A comparison while somebody watches: its run, its progress, its tables."""
