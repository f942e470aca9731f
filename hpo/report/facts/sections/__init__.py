"""The sections of report.json: what is said of a study, JSON-able."""
