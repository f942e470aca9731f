"""Stores for files and folders, by SHA-256 or name: on a node's disk, at a URL, and in Ray's object store."""
