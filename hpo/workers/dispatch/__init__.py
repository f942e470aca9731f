"""Dispatchers that run tasks in this process, on Ray or simulated, and the transfer of files between machines."""
