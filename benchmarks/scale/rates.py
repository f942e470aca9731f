"""Which learning rate is best at which width and depth, with the maximal update parametrization and without.

    python -m benchmarks.scale.rates --data-dir DIR --results scale.csv         # every case: hours
    python -m benchmarks.scale.rates --data-dir DIR --results scale.csv --case characters --seeds 1
    python -m benchmarks.scale.rates --results scale.csv --only-print           # the tables of what is there

DIR has `tinyshakespeare/input.txt.gz`, `g2p/hun_train.tsv`, `g2p/hun_dev.tsv`, `sst2/train.tsv.gz` and
`sst2/dev.tsv.gz`; ../shared/data/README.md says where they are from. Every finished training is a row of `--results`,
so that a stopped run continues where it stopped. The loss is that of the validation part after the last step, in nats
per prediction.
"""

import argparse
import itertools
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from statistics import fmean
from typing import Any

import yaml

from benchmarks.shared.rows import read, run
from benchmarks.shared.steps import published
from model import objective

FIELDS = ("case", "parametrization", "width", "layers", "rate", "seed", "loss", "seconds")
PARAMETRIZATIONS = ("standard", "mup")
WIDTHS, DEPTHS = (32, 64, 128, 256), (2, 4, 8)
RATES = (0.001, 0.002, 0.004, 0.008, 0.016, 0.032)


@dataclass(frozen=True)
class Case:
    """Data and a network of which width or depth grows.

    Attributes:
        grows: `width` (at 3 layers) or `depth` (at width 64).
        widths: the keys that the width is written to, times so much.
    """

    model: str
    data: str
    grows: str
    settings: Mapping[str, Any] = field(default_factory=dict)
    widths: Mapping[str, int] = field(default_factory=lambda: {"model.d_model": 1, "model.feed_forward_width": 2})

    def sizes(self) -> list[tuple[int, int]]:
        """Return pairs of width and layers."""
        return [(width, 3) for width in WIDTHS] if self.grows == "width" else [(64, layers) for layers in DEPTHS]


_TEXT = {"data.path": "tinyshakespeare/input.txt.gz", "data.context": 64}
_CELLS, _FILTERS = {"model.d_model": 1, "model.hidden_width": 1}, {"model.d_model": 1, "model.filters": 2}
CASES = {
    "characters": Case("decoder", "language_modelling", "width", _TEXT),
    "depth": Case("decoder", "language_modelling", "depth", _TEXT),
    "longer": Case("decoder", "language_modelling", "width", _TEXT | {
        "training.batch_size": 64, "training.max_steps": 1000, "model.dropout": 0.1,
    }),
    "words": Case("decoder", "language_modelling", "width", _TEXT | {"data.tokens": "words", "data.max_size": 4000}),
    "subwords": Case("decoder", "language_modelling", "width", _TEXT | {
        "data.tokens": "subwords", "data.max_size": 4000, "data.min_count": 2,
    }),
    "muon": Case("decoder", "language_modelling", "width", _TEXT | {"training.optimizer": "muon"}),
    "recurrent": Case("recurrent_decoder", "language_modelling", "width", _TEXT, _CELLS),
    "convolutional": Case("convolutional_decoder", "language_modelling", "width", _TEXT, _FILTERS),
    "g2p": Case("encoder_decoder", "translation", "width", {
        "data.train": "g2p/hun_train.tsv", "data.validation": "g2p/hun_dev.tsv", "data.tokens": "characters",
        "data.target_tokens": "blanks", "data.max_length": 40, "data.min_count": 1,
    }),
    "sst2": Case("encoder", "text_classification", "width", {
        "data.train": "sst2/train.tsv.gz", "data.validation": "sst2/dev.tsv.gz",
    }),
}  # fmt: skip


def main() -> None:
    """Train what is missing, and print the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--results", type=Path, required=True)
    parser.add_argument("--data-dir", type=Path)
    parser.add_argument("--case", choices=CASES, nargs="+", default=list(CASES))
    parser.add_argument("--parametrization", choices=PARAMETRIZATIONS, nargs="+", default=PARAMETRIZATIONS)
    parser.add_argument("--widths", type=int, nargs="+", default=WIDTHS)
    parser.add_argument("--rates", type=float, nargs="+", default=RATES)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--first-seed", type=int, default=0)
    parser.add_argument(
        "--set", nargs="+", default=[], metavar="KEY=VALUE", help="of every training; into other results"
    )
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--only-print", action="store_true")
    given = parser.parse_args()
    if not given.only_print:
        if given.data_dir is None:
            parser.error("--data-dir: give the folder of the data")
        settings = {key: yaml.safe_load(value) for key, _, value in (each.partition("=") for each in given.set)}
        done = {tuple(row[name] for name in FIELDS[:6]) for row in read(given.results)}
        wanted = [
            (str(given.data_dir), case, parametrization, width, layers, rate, seed)
            for seed in range(given.first_seed, given.seeds)
            for case in given.case
            for width, layers in CASES[case].sizes()
            if width in given.widths
            for parametrization, rate in itertools.product(given.parametrization, given.rates)
        ]
        missing = [each for each in wanted if tuple(map(str, each[1:])) not in done]
        run(given.results, FIELDS, partial(train, settings), missing, given.jobs)
    print("\n".join(tables(read(given.results))))


def train(
    settings: Mapping[str, Any],
    data_dir: str,
    case: str,
    parametrization: str,
    width: int,
    layers: int,
    rate: float,
    seed: int,
) -> dict[str, Any]:
    """Train one configuration, with further settings, on one core and return its row of the results."""
    began, own = time.perf_counter(), replace(CASES[case], settings={**CASES[case].settings, **settings})
    config = configuration(data_dir, own, parametrization, width, layers, rate)
    parts = objective.describe_data(config)["parts"]
    cut = parts["train"]
    indices = list(range(cut + parts["validation"]))
    with tempfile.TemporaryDirectory() as folder:
        objective.prepare_data(config, indices, f"{folder}/data")
        steps = objective.run_fold({
            "config": config, "data_dir": f"{folder}/data", "checkpoint_dir": None, "seed": seed, "amount": None,
            "train": indices[:cut], "validation": indices[cut:], "metric": "loss", "direction": "minimize",
            "threads": 1,
        })  # fmt: skip
        for point in steps:
            loss = point["loss"]
    values = [case, parametrization, width, layers, rate, seed, round(loss, 4), round(time.perf_counter() - began, 1)]
    return dict(zip(FIELDS, values, strict=True))


def configuration(
    data_dir: str, case: Case, parametrization: str, width: int, layers: int, rate: float
) -> dict[str, dict[str, Any]]:
    """Return the published configuration with the settings of a case: 200 steps of 16 sequences, unless it says so."""
    settings: dict[str, Any] = {
        **{key: times * width for key, times in case.widths.items()}, "model.num_layers": layers,
        "model.dropout": 0.0, "model.parametrization": parametrization,
        "training.lr": rate, "training.batch_size": 16, "training.epochs": 1000, "training.max_steps": 200,
        "training.device": "cpu", "training.precision": "float32", **case.settings,
    }  # fmt: skip
    settings |= {"training.evaluate_every_steps": settings["training.max_steps"]}
    config = published(case.model, case.data)
    for key, value in settings.items():
        section, _, name = key.partition(".")
        is_file = name in ("path", "train", "validation")
        config[section][name] = str(Path(data_dir) / value) if is_file else value
    return config


def tables(rows: Iterable[Mapping[str, str]]) -> Iterator[str]:
    """Yield lines in Markdown: of each case the mean losses, how many seeds they are of, and what moves."""
    losses: dict[tuple[str, str], dict[tuple[int, int], dict[float, list[float]]]] = defaultdict(
        lambda: defaultdict(lambda: defaultdict(list))
    )
    for row in rows:
        size = int(row["width"]), int(row["layers"])
        losses[row["case"], row["parametrization"]][size][float(row["rate"])].append(float(row["loss"]))
    for case in dict.fromkeys(name for name, _ in losses):
        rates = sorted({rate for key in losses if key[0] == case for by in losses[key].values() for rate in by})
        yield f"\n### {case}\n"
        yield f"| parametrization | width | layers | {' | '.join(f'{rate:g}' for rate in rates)} |"
        yield f"|---|---|---|{'---|' * len(rates)}"
        for parametrization in PARAMETRIZATIONS:
            for (width, layers), by_rate in sorted(losses[case, parametrization].items()):
                best = min(by_rate, key=lambda rate: fmean(by_rate[rate]))
                cells = [cell(by_rate.get(rate, ()), is_best=rate == best) for rate in rates]
                yield f"| {parametrization} | {width} | {layers} | {' | '.join(cells)} |"
        yield ""
        yield from (verdict(name, losses[case, name]) for name in PARAMETRIZATIONS if losses[case, name])


def cell(losses: Iterable[float], *, is_best: bool) -> str:
    """Return a mean, bold where it is the row's lowest, and of how many seeds it is."""
    values = list(losses)
    if not values:
        return ""
    text = f"{fmean(values):.3f}"
    return f"{f'**{text}**' if is_best else text} ({len(values)})"


def verdict(name: str, losses: Mapping[tuple[int, int], Mapping[float, list[float]]]) -> str:
    """Return how far the best rate moves, and what the smallest network's best rate costs at the other sizes."""
    means = {size: {rate: fmean(values) for rate, values in by.items()} for size, by in sorted(losses.items())}
    best = {size: min(by, key=by.__getitem__) for size, by in means.items()}
    smallest = next(iter(best.values()))
    costs = [by[smallest] - by[best[size]] for size, by in means.items() if smallest in by]
    return (
        f"{name}: the best rate moves by {max(best.values()) / min(best.values()):g}; that of the smallest network "
        f"costs {max(costs):.3f} nats at most at the others.\n"
    )


if __name__ == "__main__":
    main()
