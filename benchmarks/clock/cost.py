"""How well the cost of a training, counted from its configuration, predicts the seconds that it takes.

Random configurations of our networks are trained on real data (../shared/data), one at a time and with early stopping,
as a search would. Per data set: the correlation of the logarithms of cost and seconds per trial, the standard deviation
of what is left of the logarithm of seconds (sigma 0.3: two predictions of three are off by less than a third).

With --shapes single steps are timed instead: of random networks of all families and shapes, over lengths, batches and
vocabularies, on generated texts and one thread, in CPU seconds of this process (the median of some steps). Per family:
Spearman's rank correlation of cost and seconds, and by which factor the worst shape is off from the median one.
"""

import argparse
import math
import random
import statistics
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from scipy.stats import spearmanr

from benchmarks.shared.places import DATA
from benchmarks.shared.printing import conditions, markdown
from benchmarks.shared.steps import DATA as DATA_OF
from benchmarks.shared.steps import Size, Step, processor_seconds, published, step_of
from hpo.config.composing.compose import compose_config
from hpo.config.study_config import config_from_dict
from hpo.engine.loop import search
from hpo.report.sections.cost import predict_seconds
from hpo.study.preparing.preparation import prepare_study
from hpo.trials.record.record import memory_record
from hpo.trials.trial import Trial
from hpo.workers.dispatch.local import LocalDispatcher
from model.config.whole import parse
from model.objective import describe_cost

SPACE = (
    "space.first=[]",
    "space.training.batch_size=[16,32,64,128,256]",
    "space.model.num_layers=[1,2,3,4]",
    "space.model.d_model=[32,64,128,256]",
    "+space.model.feed_forward_width=[64,128,256,512,1024]",
)
SETS = {
    "digits": ("training.epochs=12", "training.patience=3"),
    "sst2": (
        "data=text_classification",
        *(f"data.{part}={DATA / 'sst2' / name}.tsv.gz" for part, name in (("train", "train"), ("validation", "dev"))),
        f"data.test={DATA / 'sst2' / 'test.tsv.gz'}",
        "training.epochs=2",
        "training.patience=1",
    ),
    "g2p": (
        "model=encoder_decoder",
        "data=translation",
        "data.tokens=characters",
        "data.target_tokens=blanks",
        *(
            f"data.{part}={DATA / 'g2p' / name}.tsv"
            for part, name in (("train", "hun_train"), ("validation", "hun_dev"))
        ),
        f"data.test={DATA / 'g2p' / 'hun_test.tsv'}",
        "study.metric=token_error_rate",
        "study.direction=minimize",
        "training.epochs=3",
        "training.patience=2",
    ),
}


def measured(name: str, trials: int) -> list[Trial]:
    """Train random configurations on a data set and return their trials."""
    tree = compose_config(
        "search",
        [
            *SETS[name],
            *SPACE,
            "split.folds=1",
            f"study.trials={trials}",
            "strategy=random",
            "track=none",
            "study.lanes=1",
        ],
    )
    study = prepare_study(config_from_dict(tree))
    with tempfile.TemporaryDirectory() as folder:
        data_dir = Path(folder) / "data"
        assert study.plan is not None
        study.objective.write_development_data(study.config.objective_config, study.plan.development, data_dir)
        builder = replace(study.task_builder(), data_dir=data_dir, states_dir=None, checkpoints_dir=None)
        rules = replace(study.rules(), tasks_of=builder.tasks_of)
        record = memory_record(study.goal, study.layout)
        history = search(rules, record, LocalDispatcher(), trials)
    return [trial for trial in history if trial.state == "complete"]


def draw_shape(draw: random.Random) -> tuple[str, str, Size, dict[str, Any]]:
    """Return a family, a shape, sizes (`symbols` = the vocabulary), and the configuration of such a training."""
    family, shape = draw.choice(("transformer", "recurrent", "convolutional")), draw.choice(list(DATA_OF))
    width, layers, heads = draw.choice((32, 64, 128, 256)), draw.choice((1, 2, 4)), draw.choice((1, 2, 4, 8))
    symbols = draw.choice((100, 1000, 4000, 10_000))
    size = Size(width, layers, heads, draw.choice((16, 64)), draw.choice((12, 24, 48)), symbols)
    inner = width * draw.choice((1, 2, 4))
    model: dict[str, Any] = {"d_model": width, "num_layers": layers}
    if family == "transformer":
        model |= {"num_heads": heads, "feed_forward_width": inner}
    elif family == "convolutional":
        model |= {"filters": min(inner, 2 * width), "filter_width": draw.choice((3, 5))}
    else:
        model |= {"hidden_width": min(inner, 2 * width), "cell": draw.choice(("lstm", "gru"))}
        if shape == "encoder_decoder":
            attend, is_fed = draw.choice((("before", False), ("after", False), ("after", True)))
            attention = draw.choice(("mlp", "mlp", "dot", "bilinear"))
            model |= {"attention": attention, "attend": attend, "input_feeding": is_fed, "bridge": "copy"}
    name = shape if family == "transformer" else f"{family}_{shape}"
    values = published(name, DATA_OF[shape])
    values["model"] |= model
    values["data"] |= {"min_count": 1, "tokens": "words", "max_size": symbols}
    if shape == "decoder":
        values["data"]["context"] = size.time
    values["training"] |= {"batch_size": size.batch, "device": "cpu", "evaluate_every_steps": 1}
    values["training"] |= {"cost_length": size.time, "cost_spread": 0.0}
    return family, shape, size, values


def seconds_of(step: Step) -> float:
    """Return the median CPU seconds of a step, of three or of as many as take half a second."""
    step()
    taken: list[float] = []
    while len(taken) < 3 or (sum(taken) < 0.5 and len(taken) < 30):
        taken.append(processor_seconds(step))
    return statistics.median(taken)


def compare_shapes(count: int, seed: int) -> list[list[str]]:
    """Time a step of `count` random shapes, and return the rows of the table."""
    torch.set_num_threads(1)
    draw, measured = random.Random(seed), []
    for _ in range(count):
        family, shape, size, values = draw_shape(draw)
        seconds = seconds_of(step_of(shape, size, parse(values)))
        measured.append((family, seconds, describe_cost(values)))
    rows = []
    for family in ("transformer", "recurrent", "convolutional", "all"):
        _, seconds, costs = zip(*(row for row in measured if family in (row[0], "all")), strict=True)
        span = f"{1000 * min(seconds):.0f} to {1000 * max(seconds):.0f}"
        rank = f"{spearmanr(costs, seconds).statistic:.3f}"
        rows.append([family, str(len(seconds)), span, rank, f"{largest_factor(costs, seconds):.2f}"])
    return rows


def largest_factor(costs: Sequence[float], seconds: Sequence[float]) -> float:
    """Return by which factor the seconds of the worst shape are off, where cost predicts the median one's exactly."""
    logs = [math.log(taken / cost) for taken, cost in zip(seconds, costs, strict=True)]
    return math.exp(max(abs(value - statistics.median(logs)) for value in logs))


def main() -> None:
    """Measure and print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--trials", type=int, default=24, help="configurations per data set; default 24")
    parser.add_argument("--sets", nargs="+", default=list(SETS), choices=SETS)
    parser.add_argument(
        "--shapes", type=int, metavar="N", help="time a step of N random networks instead; 150: minutes"
    )
    parser.add_argument("--seed", type=int, default=0, help="of the random networks; default 0")
    arguments = parser.parse_args()
    print(conditions() + "\n")
    if arguments.shapes:
        head = ["family", "shapes", "ms a step", "rank correlation", "largest factor"]
        print(markdown(head, compare_shapes(arguments.shapes, arguments.seed)))
        return
    rows = []
    for name in arguments.sets:
        trials = measured(name, arguments.trials)
        seconds = sorted(trial.seconds for trial in trials)
        fit = predict_seconds(trials)
        assert fit is not None
        span = f"{seconds[0]:.1f} to {seconds[-1]:.1f}"
        rows.append([name, str(len(trials)), span, f"{fit['correlation']:.3f}", f"{fit['sigma']:.2f}"])
    head = ["data", "trials", "seconds", "correlation", "sigma"]
    print(markdown(head, rows))


if __name__ == "__main__":
    main()
