"""Tests: they mirror the packages; `contracts/` holds what every strategy, dispatcher and tracker promises."""

import sys
from pathlib import Path

# `objectives` has the modules that tests search, and `guard` declares them as objectives; see tests/conftest.py.
sys.path += [str(Path(__file__).with_name(name)) for name in ("guard", "objectives")]
