"""Field 23: repeated searches, if `hpo compare` has run them for this study."""

import json
from typing import Any

from hpo.report.missing import Missing, missing
from hpo.report.sections.baselines import comparison_command
from hpo.study.study import Study


def describe_comparison(study: Study) -> dict[str, Any] | Missing:
    """Return the pairs and standings of `runs/compare-<study>`, or why there are none."""
    config = study.config.study
    name = f"compare-{config.name}"
    path = study.folder.path.parent / name / "comparison.json"
    absent = missing(f"one search does not tell which strategy is better; repeat it: {comparison_command(study)}")
    if not path.exists():
        return absent
    result = json.loads(path.read_text(encoding="utf-8"))
    is_of_this = result["kind"] == "strategies" and (result["metric"], result["direction"]) == (
        config.metric,
        config.direction,
    )
    if not is_of_this:
        return absent
    keys = ("name", "repeats", "standings", "pairs", "method")
    return {key: result[key] for key in keys}
