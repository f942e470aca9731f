"""Our strategies in other libraries, trainers of other libraries in our searches, and jobs on clusters.

Importing this package loads none of these libraries.
"""
