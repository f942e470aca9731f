"""Ray as the dispatcher: a cluster, a pool of workers in it, and a watchdog that ends them."""
