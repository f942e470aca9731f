"""One function a command, with its result: a shell, `hpo` and the methods of `Study` call the same.

`str()` of a result is what people read, or its `show()` prints that as wide as the terminal. `to_dict()` is what
`--json` prints. `exit_code` is 0 where a result has none. A server has `wait()`, which returns its exit code, and
`close()`. What changes has `views()`, each of which `--json` prints, in place of `to_dict()`.

What takes long to load (pandas, SQLAlchemy, Hydra, plotly, trainers) is imported inside of the functions that need it,
so that `--help`, a list and every refusal come at once.
"""
