"""Prepares, creates, continues, reads and reproduces studies, makes their views, and tests their winners."""
