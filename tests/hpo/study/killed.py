"""Kills a process between two of its steps on files, so that no later step happens, in `finally` either."""

import contextlib
import shutil
from pathlib import Path


class Killed(BaseException):
    """The process is dead."""


@contextlib.contextmanager
def killed_at(monkeypatch, step):
    """Let the process die before this step, from 0, of renaming, copying and removing."""
    done = []

    def dying(real):
        def act(*arguments, **options):
            if len(done) == step:
                raise Killed
            done.append(real.__name__)
            return real(*arguments, **options)

        return act

    with monkeypatch.context() as patched, contextlib.suppress(Killed):
        patched.setattr(Path, "rename", dying(Path.rename))
        for name in ("copy2", "rmtree"):
            patched.setattr(shutil, name, dying(getattr(shutil, name)))
        yield


def tree(folder):
    return {str(path.relative_to(folder)): path.read_bytes() for path in Path(folder).rglob("*") if path.is_file()}
