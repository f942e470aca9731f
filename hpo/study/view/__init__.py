"""The read-only view of a study: everything that commands and web pages show of it."""
