"""The dispatcher on Ray: a cluster, a pool of workers in the cluster, and a watchdog that ends Ray's processes."""
