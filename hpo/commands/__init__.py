"""One function per command, and its result. The command line and the methods of `Study` call the same function.

`str()` of a result is its text for people. If the result has `show()`, this prints the text at the width of the
terminal. With `--json` the command prints `to_dict()`; for a result that changes, it prints every item of `views()`.
The exit code is the result's `exit_code`, or 0 if it has none. The result of a command that serves has `wait()`, which
returns the exit code, and `close()`.

Functions import slow libraries (pandas, SQLAlchemy, Hydra, plotly, trainers) themselves, so that `--help`, `hpo list`
and error messages appear at once.
"""
