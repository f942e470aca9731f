"""The folders of the toolkit, for modules that must not import `hpo` itself."""

from pathlib import Path

PACKAGE = Path(__file__).parent
"""The folder of the package `hpo`."""

ROOT = PACKAGE.parent
"""The folder with `hpo` and `model`."""
