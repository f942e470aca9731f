"""The paths of the toolkit's folders."""

from pathlib import Path

PACKAGE = Path(__file__).parent
"""The folder of the package `hpo`."""

ROOT = PACKAGE.parent
"""The folder that contains the packages `hpo` and `model`."""
