"""Dispatchers: in this process, on Ray, and simulated; and the transfer of code and files between machines."""
