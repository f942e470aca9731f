"""Where the toolkit lies, for what must not import its face, `hpo`."""

from pathlib import Path

PACKAGE = Path(__file__).parent
"""The folder of `hpo` itself."""

ROOT = PACKAGE.parent
"""The folder that it and `model` lie in."""
