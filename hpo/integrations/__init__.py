"""Our strategies in other people's loops: an Optuna sampler and a Ray Tune searcher. Importing it loads neither."""
