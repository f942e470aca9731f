"""Dispatchers and the transfer of files between machines.

A dispatcher runs tasks on this machine, on a Ray cluster, or on a simulated cluster.
"""
