"""Dispatchers: this process, Ray, and without waiting; what goes to other machines and comes back from them."""
