"""What `hpo ui` opens beside MLflow's own pages, and its password."""
