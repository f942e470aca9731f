"""The trainer: the loop, optimizers, schedules, and the state of a training on disk."""
