"""The report of a study: facts, figures drawn from them, and pages that hold both."""
