"""Trainings on machines that do not see the driver's disk: what they need goes there, what they leave comes back."""
