"""Everything that happens to a study: preparing, running, resuming, reproducing and viewing it; testing its winner."""
