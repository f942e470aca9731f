"""Where benchmarks find the repository, its published configurations, and the data beside it."""

from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).parents[2]
CONF = ROOT / "conf"
DATA = ROOT.parent / "shared" / "data"


def strategy_settings(name: str) -> dict[str, Any]:
    """Return the settings of a strategy as they are published in conf/strategy."""
    settings: dict[str, Any] = yaml.safe_load((CONF / "strategy" / f"{name}.yaml").read_text())
    return settings
