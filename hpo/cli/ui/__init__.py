"""The other pages that `hpo ui` can open besides MLflow's, and its password."""
