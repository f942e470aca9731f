"""References of searches and trainings, which hold the numbers `REVISION` of what decides trials."""
