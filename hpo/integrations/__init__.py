"""Our strategies in other libraries: an Optuna sampler and a Ray Tune searcher. Importing it loads neither."""
