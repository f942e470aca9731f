"""Runs recorded trainings again, from a study's folder, a publication or a report."""
