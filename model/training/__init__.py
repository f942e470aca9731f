"""The trainer: the loop, its optimizers and schedules, and how a stopped training continues."""
