"""The toolkit from Python: what `import hpo` offers, which the commands call."""
