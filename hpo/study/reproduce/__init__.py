"""Repeats recorded trainings and searches, from a study's folder, a published copy or a report."""
