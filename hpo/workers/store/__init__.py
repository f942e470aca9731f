"""Stores for files and folders: on a node's disk, at a URL, and in Ray's object store."""
