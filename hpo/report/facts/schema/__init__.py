"""The form of report.json and comparison.json, key by key, and the 25 fields."""
