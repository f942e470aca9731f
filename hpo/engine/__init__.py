"""The search itself: spaces, trials, strategies, the record, trainings and their workers, and the loop over them."""
