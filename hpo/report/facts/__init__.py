"""The facts of a report, from which figures and pages are made."""
