"""Connects the toolkit to other libraries and to clusters.

Other libraries can search with the toolkit's strategies. Objectives can train with the trainers of other libraries. Job
files run a search on a cluster. Importing this package does not load the other libraries.
"""
