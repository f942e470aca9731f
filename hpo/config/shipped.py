"""Where the configuration files lie that come with the toolkit."""

from pathlib import Path

import hpo


def shipped_dir() -> Path:
    """Return the folder: `hpo/conf` where hpo is installed, `conf` beside hpo in the repository.

    By its path, since a package called `conf` could as well be a user's.
    """
    package = Path(hpo.__file__).parent
    installed = package / "conf"
    return installed if installed.is_dir() else package.parent / "conf"
