"""The functions of the commands, and the classes of their results.

The command line and the methods of `Study` call the same functions.

`str()` of a result is its text for people. If a result has `show()`, the command calls `show()` instead, which prints
at the width of the terminal. With `--json`, the command prints `to_dict()`. A result that changes over time has
`views()` instead of `to_dict()`, and the command prints each view. The exit code is the result's `exit_code`, or 0
without this attribute. The result of a server command has two methods: `wait()` returns the exit code, and `close()`
ends the server.

Functions import slow libraries (pandas, SQLAlchemy, Hydra, plotly, trainers) themselves, so that `--help`, `hpo list`
and error messages appear at once.
"""
