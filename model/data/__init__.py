"""Reading data, keeping just the examples that a worker may see, and turning them into batches."""
