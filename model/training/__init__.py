"""The trainer: the loop, optimizers, schedules, and the saved state of a training."""
