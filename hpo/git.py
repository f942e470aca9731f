"""Runs git in a folder, without the programs that the folder's own repository configures: it may be a stranger's."""

import os
import re
import subprocess

# git runs configured programs even when it only reads: a file watcher, hooks, and a fetch of what a partial clone
# lacks. Without optional locks it writes no index, which has a hook of its own.
_QUIET = ("--no-optional-locks", "-c", "core.fsmonitor=false", "-c", f"core.hooksPath={os.devnull}")
_ENVIRONMENT = {"GIT_ALLOW_PROTOCOL": "none", "GIT_NO_LAZY_FETCH": "1", "GIT_TERMINAL_PROMPT": "0"}
_FILTERS = r"^filter\..*\.(clean|smudge|process|required)$"
_SECONDS = 10.0


def git(*arguments: str) -> str | None:
    """Return the output of git in the working directory.

    None = there is no repository, git is not installed, or it cannot run safely.
    """
    try:
        # Reading the configuration runs no program.
        named = _run(("config", "--show-scope", "--null", "--name-only", "--get-regexp", _FILTERS))
        *fields, _ = named.split("\0")
        # The user's own filters (`global`, `system`) stay.
        keys = {key for scope, key in zip(fields[::2], fields[1::2], strict=True) if scope in ("local", "worktree")}
        if any(re.search(r"[=\n]", key) for key in keys):
            return None  # Such a key cannot be overridden.
        empty = [
            part for key in sorted(keys) for part in ("-c", f"{key}={'false' if key.endswith('.required') else ''}")
        ]
        return _run((*_QUIET, *empty, *arguments))
    except (OSError, subprocess.SubprocessError, ValueError):
        return None


def _run(arguments: tuple[str, ...]) -> str:
    # Exit code 1 means that nothing was found.
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
