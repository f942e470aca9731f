"""The read-only view of a study: everything that commands and pages show."""
