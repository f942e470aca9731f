"""Dispatchers and the transfer of files between machines. A dispatcher runs tasks here, on Ray, or simulated."""
