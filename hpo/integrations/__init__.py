"""Connects other libraries: our strategies in their searches, their trainers in our searches, and jobs on clusters.

Importing this package loads none of these libraries.
"""
