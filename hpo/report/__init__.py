"""The report of a study: its sections, its figures, and the pages that contain both."""
