"""One function per command, with its result. A shell, `hpo` and the methods of `Study` call the same function.

`str()` of a result is its text for people; a result with `show()` prints it at the width of the terminal. `--json`
prints `to_dict()`, or each of `views()` for a result that changes. A result without `exit_code` exits with 0. A server
has `wait()`, which returns its exit code, and `close()`.

Functions import slow libraries (pandas, SQLAlchemy, Hydra, plotly, trainers) themselves, so that `--help`, `hpo list`
and error messages appear at once.
"""
