"""The objective: its import, its optional functions, and the conversion of plain functions to objectives."""
