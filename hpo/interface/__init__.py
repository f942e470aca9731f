"""The toolkit from Python: what `import hpo` offers, over the same code as the commands."""
