"""Prepares a study: builds it from its configuration, and checks it before anything is created."""
