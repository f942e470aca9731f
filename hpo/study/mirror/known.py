"""Which copies at its mirrors a study's folder has written, or was restored from: it writes over no others.

One line each in a file of the folder, which is part of neither mirrors nor copies: the manifest's id, and the URL.
"""

from collections.abc import Sequence

from hpo.config.files import write_atomically
from hpo.study.folder import StudyFolder


def known_copies(folder: StudyFolder) -> set[str]:
    """Return the ids of the manifests; empty for a folder that has never been copied by a version that writes them."""
    return {line.split()[0] for line in _lines(folder)}


def remember(folder: StudyFolder, url: str, ids: Sequence[str]) -> None:
    """Write that these are the folder's own at this URL, in place of those before."""
    others = [line for line in _lines(folder) if line.partition(" ")[2] != url]
    lines = [*others, *(f"{copy} {url}" for copy in ids)]
    write_atomically(folder.mirrored_path, "".join(f"{line}\n" for line in lines))


def _lines(folder: StudyFolder) -> list[str]:
    try:
        lines = folder.mirrored_path.read_text(errors="replace").splitlines()
    except FileNotFoundError:
        return []
    return [line for line in lines if line.strip()]
