"""The objective: where it is found, what it offers besides training, and a plain function in its place."""
