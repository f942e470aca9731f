"""Runs git without the programs that a repository configures, because a stranger may have written the repository."""

import os
import re
import subprocess

# Even when git only reads, it runs configured programs: a file watcher, hooks, and a fetch of objects that a partial
# clone lacks. Without optional locks, it does not write the index, which would run another hook.
_QUIET = ("--no-optional-locks", "-c", "core.fsmonitor=false", "-c", f"core.hooksPath={os.devnull}")
_ENVIRONMENT = {"GIT_ALLOW_PROTOCOL": "none", "GIT_NO_LAZY_FETCH": "1", "GIT_TERMINAL_PROMPT": "0"}
_FILTERS = r"^filter\..*\.(clean|smudge|process|required)$"
_SECONDS = 10.0


def git(*arguments: str) -> str | None:
    """Run git in the working directory, and return its output.

    Return None if git is not installed, cannot run safely, or reports an error, for example because there is no
    repository. Git runs twice: before the actual run, a first run reads the repository's configuration. If one of these
    runs takes more than ten seconds, return None.
    """
    try:
        # Reading the configuration runs no program.
        named = _run(("config", "--show-scope", "--null", "--name-only", "--get-regexp", _FILTERS))
        *fields, _ = named.split("\0")
        # Disable only the repository's filters; those of the user (scopes `global` and `system`) stay.
        keys = {key for scope, key in zip(fields[::2], fields[1::2], strict=True) if scope in ("local", "worktree")}
        if any(re.search(r"[=\n]", key) for key in keys):
            return None  # A key with such a character cannot be overridden on the command line.
        empty = [
            part for key in sorted(keys) for part in ("-c", f"{key}={'false' if key.endswith('.required') else ''}")
        ]
        return _run((*_QUIET, *empty, *arguments))
    except (OSError, subprocess.SubprocessError, ValueError):
        return None


def _run(arguments: tuple[str, ...]) -> str:
    # Accept exit code 1, which means that nothing was found.
    done = subprocess.run(
        ["git", *arguments],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=_SECONDS,
        check=False,
        env=os.environ | _ENVIRONMENT,
    )
    if done.returncode not in (0, 1):
        raise subprocess.SubprocessError(done.stderr)
    return done.stdout.decode(errors="surrogateescape")
