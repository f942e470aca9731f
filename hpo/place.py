"""Reads and writes files below a URL, on any file system that fsspec supports, such as file://, s3:// or gs://."""

import contextlib
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from hpo.errors import ConfigError, StudyError, first_line


class Place:
    """Reads and writes the files below a URL. A file's name is its path relative to the URL.

    Every public method raises StudyError if the file system library fails. Error messages begin with `what`, the
    configuration key whose value is the URL.

    Raises:
        ConfigError: the URL is not valid, or its protocol is unknown or not installed.
    """

    def __init__(self, url: str, what: str) -> None:
        # Keep the slashes of a bare `file:///`.
        self.url, self._what = re.sub(r"(?<![:/])/+$", "", url), what
        refuse_unknown(url, what)
        with _usable(url, what):
            from fsspec.core import url_to_fs

            self._files, self._root = url_to_fs(self.url)

    def read(self, name: str) -> bytes | None:
        """Return the content of a file; None if the file does not exist."""
        with self._faults("read"):
            try:
                content: bytes = self._files.cat_file(self._path(name))
            except FileNotFoundError:
                return None
            return content

    def write(self, name: str, pieces: Iterable[bytes]) -> None:
        """Write a file, completely or not at all."""
        path = self._path(name)
        # An object store publishes a file when it is committed. On a disk, readers would see an incomplete file, so
        # write it under another name first.
        is_disk = "file" in self._files.protocol
        with self._faults("written"):
            self._files.makedirs(path.rpartition("/")[0], exist_ok=True)
            file = self._files.open(f"{path}.part" if is_disk else path, "wb", autocommit=is_disk)
            try:
                with file:
                    for piece in pieces:
                        file.write(piece)
            except BaseException:  # also an interrupt, after which the library would publish what was written
                if not is_disk:
                    file.discard()
                raise
            if is_disk:
                self._files.mv(f"{path}.part", path)
            else:
                file.commit()

    def get(self, name: str, path: Path) -> None:
        """Download a file to a path on this machine."""
        with self._faults("read"):
            self._files.get_file(self._path(name), str(path))

    def names(self, folder: str) -> list[str]:
        """Return the names of the files and folders in a folder; an empty list if the folder does not exist."""
        with self._faults("read"):
            self._files.invalidate_cache()
            try:
                listed: list[Any] = self._files.ls(self._path(folder), detail=False)
            except FileNotFoundError:
                return []
            return [str(path).rpartition("/")[2] for path in listed]

    def remove(self, name: str) -> None:
        """Delete a file if it exists."""
        with self._faults("written"), contextlib.suppress(FileNotFoundError):
            self._files.rm_file(self._path(name))

    def _path(self, name: str) -> str:
        return f"{self._root}/{name}"

    @contextlib.contextmanager
    def _faults(self, done: str) -> Iterator[None]:
        """Inside the context, turn any error of a file system library into StudyError."""
        try:
            yield
        except (Exception, SystemExit) as error:
            raise StudyError(f"{self._what}: {self.url} cannot be {done}: {first_line(error)}") from error


def refuse_unknown(url: str, what: str) -> None:
    """Raise ConfigError if a URL is not valid or its protocol is unknown; the check makes no connection."""
    if "://" not in url:
        raise ConfigError(f"{what}: must be a URL, such as s3://bucket/folder or file:///folder, given {url!r}")
    with _usable(url, what):
        from fsspec import get_filesystem_class
        from fsspec.utils import get_protocol

        # Check each part, because a chained URL has several protocols: `zip://a::s3://b/c.zip`.
        for each in url.split("::"):
            get_filesystem_class(get_protocol(each))


@contextlib.contextmanager
def _usable(url: str, what: str) -> Iterator[None]:
    """Inside the context, turn any error into ConfigError; file system plug-ins may raise errors of any type."""
    try:
        yield
    except (Exception, SystemExit) as error:
        raise ConfigError(
            f"{what}: {url!r} cannot be used: {first_line(error)}; for s3:// run `pip install 'hpo-transformer[s3]'`, "
            "for gs:// `pip install 'hpo-transformer[gs]'`"
        ) from error
