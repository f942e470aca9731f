"""The steps after a search: full trainings, finalists, the winner's model, and the test evaluation."""
