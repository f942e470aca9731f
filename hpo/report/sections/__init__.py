"""The sections of a report: each defines what it holds, works it out, and says how it reads."""
