"""Objectives that come with the toolkit."""
