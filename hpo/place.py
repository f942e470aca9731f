"""A place at a URL that takes and gives files: any file system of fsspec, such as file://, s3:// or gs://."""

import contextlib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from hpo.errors import ConfigError, StudyError, first_line


class Place:
    """Files by name below a URL; `what` is the key that holds it, for messages.

    ConfigError where it is no URL, or where its protocol is unknown or not installed.
    """

    def __init__(self, url: str, what: str) -> None:
        self.url, self._what = url.rstrip("/"), what
        refuse_unknown(url, what)
        with _usable(url, what):
            from fsspec.core import url_to_fs

            self._files, self._root = url_to_fs(self.url)

    def read(self, name: str) -> bytes | None:
        """Return a file's content; None where it is not there."""
        with self._faults("read"):
            try:
                content: bytes = self._files.cat_file(self._path(name))
            except FileNotFoundError:
                return None
            return content

    def write(self, name: str, pieces: Iterable[bytes]) -> None:
        """Write a file, as a whole or not at all."""
        path = self._path(name)
        # Object stores show a file when it is closed; a disk shows every part of it.
        aside = f"{path}.part" if "file" in self._files.protocol else path
        with self._faults("written"):
            self._files.makedirs(path.rpartition("/")[0], exist_ok=True)
            with self._files.open(aside, "wb") as file:
                for piece in pieces:
                    file.write(piece)
            if aside != path:
                self._files.mv(aside, path)

    def get(self, name: str, path: Path) -> None:
        """Write a file to this machine's disk."""
        with self._faults("read"):
            self._files.get_file(self._path(name), str(path))

    def names(self, folder: str) -> list[str]:
        """Return the names of the files in a folder, which may not be there."""
        with self._faults("read"):
            self._files.invalidate_cache()
            try:
                listed: list[Any] = self._files.ls(self._path(folder), detail=False)
            except FileNotFoundError:
                return []
            return [str(path).rpartition("/")[2] for path in listed]

    def remove(self, name: str) -> None:
        """Delete a file, if it is there."""
        with self._faults("written"), contextlib.suppress(FileNotFoundError):
            self._files.rm_file(self._path(name))

    def _path(self, name: str) -> str:
        return f"{self._root}/{name}"

    @contextlib.contextmanager
    def _faults(self, done: str) -> Iterator[None]:
        """Raise StudyError instead of whatever a library of a remote file system raises."""
        try:
            yield
        except (Exception, SystemExit) as error:
            raise StudyError(f"{self._what}: {self.url} cannot be {done}: {first_line(error)}") from error


def refuse_unknown(url: str, what: str) -> None:
    """Raise ConfigError, as a `Place` does, where this is no URL, or of an unknown protocol; nobody is asked."""
    if "://" not in url:
        raise ConfigError(f"{what}: must be a URL, such as s3://bucket/folder or file:///folder, given {url!r}")
    with _usable(url, what):
        from fsspec import get_filesystem_class
        from fsspec.utils import get_protocol

        # Of several, each lies within the next: `zip://a::s3://b/c.zip`.
        for each in url.split("::"):
            get_filesystem_class(get_protocol(each))


@contextlib.contextmanager
def _usable(url: str, what: str) -> Iterator[None]:
    """Raise ConfigError instead of whatever is raised: file systems are plug-ins, and raise what they like."""
    try:
        yield
    except (Exception, SystemExit) as error:
        raise ConfigError(
            f"{what}: {url!r} cannot be used: {first_line(error)}; s3:// needs `pip install 'hpo-transformer[s3]'`"
            ", gs:// [gs]"
        ) from error
