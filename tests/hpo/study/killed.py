"""Kills work on files between two of its steps: what would follow, in `finally` too, is not done."""

import contextlib
import shutil
from pathlib import Path


class Killed(BaseException):
    """The process is dead."""


@contextlib.contextmanager
def killed_at(monkeypatch, step):
    """Let the process die before this step, from 0, of renaming, copying and removing; yield whether it has."""
    done, state = [], {"is_dead": False}

    def dying(real):
        def act(*arguments, **options):
            state["is_dead"] |= len(done) == step
            if state["is_dead"]:
                raise Killed
            done.append(real.__name__)
            return real(*arguments, **options)

        return act

    with monkeypatch.context() as patched:
        patched.setattr(Path, "rename", dying(Path.rename))
        for name in ("copy2", "rmtree"):
            patched.setattr(shutil, name, dying(getattr(shutil, name)))
        with contextlib.suppress(Killed):
            yield state


def tree(folder):
    """Return the content of every file below a folder, by name."""
    files = (path for path in sorted(Path(folder).rglob("*")) if path.is_file())
    return {str(path.relative_to(folder)): path.read_bytes() for path in files}
