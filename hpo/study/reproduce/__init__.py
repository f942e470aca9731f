"""Runs recorded trainings again from a study's folder, a published copy or a report."""
