"""The study whose page speed.py measures: six hyperparameters, curves of ten epochs, no training."""

import math
import random
import time
from pathlib import Path
from typing import Any

from hpo.config.composing.compose import compose_config
from hpo.config.study_config import config_from_dict
from hpo.study.opening import open_study
from hpo.study.preparing.preparation import prepare_study
from hpo.trials.trial import Outcome, Proposal

RANGES = {"lr": (1e-5, 1e-1), "decay": (1e-6, 1e-2), "dropout": (0.01, 0.5), "momentum": (0.5, 0.99)}
CHOICES = {"layers": [1, 2, 3, 4, 5, 6], "kind": ["relu", "gelu", "silu"]}
OBJECTIVE = """
import time
def run_fold(task):
    # Training, of which the processor is a part: as of a small network.
    begun = time.process_time()
    for epoch in range(1, 6):
        while time.process_time() < begun + 0.008 * epoch:
            pass
        yield {"epoch": epoch, "score": -task["config"]["x"]["lr"] / epoch}
    return {"score": -task["config"]["x"]["lr"]}
"""


def tree(trials: int, dispatch: str = "local") -> list[str]:
    """Return the overrides of a study, and write its objective into this folder."""
    Path("instant.py").write_text(OBJECTIVE)
    space = {key: f"{{low: {low}, high: {high}, log: true}}" for key, (low, high) in RANGES.items()}
    space |= {key: f"{{choices: {values}}}" for key, values in CHOICES.items()}
    return [
        *("objective=instant:run_fold", "model=none", "data=none", "training=none", "space=none"),
        *(f"+space.x.{key}={text}" for key, text in space.items()),
        *(f"+x.{key}={values[0]}" for key, values in (RANGES | CHOICES).items()),
        *("study.name=s", f"study.trials={trials}", "study.metric=score", "study.direction=maximize"),
        *("strategy=random", "track=none", f"dispatch={dispatch}"),
    ]


def made(trials: int, budget: int) -> tuple[Any, Any]:
    """Return a study of so many trials that did not run, and its record, open."""
    study = prepare_study(config_from_dict(compose_config("search", tree(budget))))
    record, rng, start = open_study(study), random.Random(0), time.time() - 4.0 * trials
    for number in range(trials):
        add(record, rng, number, start + 4.0 * number)
    return study, record


def add(record: Any, rng: random.Random, number: int, start: float) -> None:
    """Write a trial: its score is a bowl with noise; one in fifty fails; curves of ten epochs."""
    point = {f"x.{key}": 10 ** rng.uniform(math.log10(low), math.log10(high)) for key, (low, high) in RANGES.items()}
    point |= {f"x.{key}": rng.choice(values) for key, values in CHOICES.items()}
    best = 0.9 - 0.04 * abs(math.log10(point["x.lr"]) + 3) - 0.02 * abs(point["x.layers"] - 4) + 0.02 * rng.random()
    curve = [{"epoch": epoch, "score": best * (1 - math.exp(-epoch / 4))} for epoch in range(1, 11)]
    ran = {"seconds": 3 + rng.random(), "started": start, "worker": 1 + number % 4}
    outcome = Outcome({"score": best}, curve, **ran) if rng.random() > 0.02 else Outcome(error="out of memory", **ran)
    record.add_outcome(record.open_trial(number, Proposal(point), cost_of=lambda _: 1.0).number, 0, outcome)
