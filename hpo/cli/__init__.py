"""The command `hpo`: makes a parser from a command's function, calls the function, and prints its result."""
