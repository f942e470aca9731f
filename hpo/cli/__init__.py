"""The command `hpo`: parsers are made from the functions of commands, which are called, and their results printed."""
