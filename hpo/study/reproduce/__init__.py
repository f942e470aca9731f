"""Trainings that were recorded are run again, from a study's folder, a publication or a report alone."""
