"""Connects other libraries: strategies for their searches, objectives from their trainers, and jobs on clusters.

Importing this package does not load these libraries.
"""
