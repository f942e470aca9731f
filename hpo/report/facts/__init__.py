"""The sections of report.json, one file each: what is said of a study, JSON-able."""
