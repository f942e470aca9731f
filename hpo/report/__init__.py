"""The report of a study: sections, figures, and pages that hold both."""
