"""The coordinate check: how fast what each layer gives grows with the model's size, after some steps of training."""

import math
import tempfile
from collections import defaultdict
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from statistics import linear_regression
from typing import Any

from hpo.config.study_config import config_from_dict
from hpo.errors import ConfigError
from hpo.study.preparing.scales import refuse_unknown_keys, with_scales_given
from hpo.trials import reported_values
from hpo.trials.trial import TaskLayout, Trial
from hpo.workers.objective.objective import Objective
from hpo.workers.objective.process_state import isolated_state
from hpo.workers.training.splits import make_plan
from hpo.workers.training.tasks import TaskBuilder, Training

STEPS = (1, 2, 5, 10)
SEEDS = 3
BOUND = 0.2
"""How far from 0 a slope may be: so much comes of widths that are finite, and of few seeds."""


@dataclass(frozen=True)
class CoordinateCheck:
    """How large what each layer gives is at several sizes of a model, which should not depend on the size.

    Attributes:
        key: the key of the configuration that grows; `values`: what it is at each scale.
        sizes: by step of training and then by layer: the mean absolute number that the layer gives at each scale, over
            all seeds.
        known: by layer why its size is known to change at some of these scales, such as "below model.d_model=128".
    """

    key: str
    values: Sequence[float]
    scales: Sequence[Mapping[str, Any]]
    sizes: Mapping[int, Mapping[str, Sequence[float]]]
    known: Mapping[str, str] = field(default_factory=dict)

    @cached_property
    def slopes(self) -> Mapping[int, Mapping[str, float]]:
        """By step and layer the slope of the logarithm of its size over that of `values`: 0 = it does not change.

        A layer that gives 0, or what is not finite, at some scales has an infinite one; one that gives 0 at all, 0.
        """
        return {
            step: {layer: _slope(self.values, sizes) for layer, sizes in of.items()} for step, of in self.sizes.items()
        }

    @cached_property
    def steepest(self) -> Mapping[str, tuple[int, float]]:
        """Of each layer the step after which its slope is the furthest from 0, and that slope; the worst first."""
        layers = next(iter(self.slopes.values()))
        steepest = {
            layer: max(((step, of[layer]) for step, of in self.slopes.items()), key=lambda at: abs(at[1]))
            for layer in layers
        }
        return dict(sorted(steepest.items(), key=lambda item: -abs(item[1][1])))

    @property
    def outside(self) -> list[str]:
        """The layers whose slope is further from 0 than `BOUND` after some step, and not known to, the worst first."""
        return [layer for layer in self._changing if layer not in self.known]

    @property
    def expected(self) -> list[str]:
        """The layers whose slope is further from 0 than `BOUND`, as is known of them, the worst first."""
        return [layer for layer in self._changing if layer in self.known]

    @property
    def _changing(self) -> list[str]:
        return [layer for layer, (_, slope) in self.steepest.items() if abs(slope) > BOUND]

    @property
    def is_within(self) -> bool:
        """Whether no layer's is."""
        return not self.outside

    @property
    def verdict(self) -> str:
        """One sentence: whether what the layers give stays, and which are the worst."""
        known = "".join(f"; {self._named(layer)} is known to change {self.known[layer]}" for layer in self.expected)
        if not self.outside:
            steepest = next((layer for layer in self.steepest if layer not in self.expected), None)
            others = "no other layer" if known else "no layer"
            named = f"; the steepest is {self._named(steepest)}" if steepest else ""
            return f"within {BOUND}: {others} gives more or less with {self.key}{named}{known}"
        worst = [self._named(layer) for layer in self.outside]
        more = f" and {len(worst) - 3} more" if len(worst) > 3 else ""
        return (
            f"not within {BOUND}: {len(worst)} of {len(self.steepest)} sizes change with {self.key}, the worst "
            f"{', '.join(worst[:3])}{more}{known}"
        )

    def _named(self, layer: str) -> str:
        step, slope = self.steepest[layer]
        return f"{layer} ({slope:+.2f} after {_steps(step)})"

    def to_dict(self) -> dict[str, Any]:
        """Return it for programs; an infinite slope is null."""
        slopes = {step: {k: v if math.isfinite(v) else None for k, v in of.items()} for step, of in self.slopes.items()}
        return {
            "key": self.key,
            "scales": [dict(changes) for changes in self.scales],
            "sizes": self.sizes,
            "slopes": slopes,
            "bound": BOUND,
            "outside": self.outside,
            "expected": self.expected,
            "is_within": self.is_within,
            "verdict": self.verdict,
        }


def _steps(step: int) -> str:
    return f"{step} step{'s' * (step > 1)}"


def _slope(values: Sequence[float], sizes: Sequence[float]) -> float:
    if not any(sizes):
        return 0.0
    if not all(0 < size < math.inf for size in sizes):
        return math.inf
    return linear_regression([*map(math.log, values)], [*map(math.log, sizes)]).slope


def check_coordinates(tree: Mapping[str, Any], over: str, show: Callable[[str], None]) -> CoordinateCheck:
    """Train some steps at each scale of a whole configuration, of which nothing is kept, and return the sizes.

    Args:
        tree: a whole configuration, as `compose_search` returns it; without scales of its own it is compared at those
            of the objective.
        over: what grows from scale to scale, "width" or "depth".
        show: gets a line about each scale.

    Raises:
        HpoError: the objective cannot say the sizes, a scale cannot be, or the data cannot be read.

    Source: Yang et al. 2021, "Tensor programs V", appendix D.1.
    """
    tree, objective, known = with_scales_given(tree, over)
    if objective.output_sizes is None:
        raise ConfigError(
            f"objective: {objective.owner} has no function 'output_sizes', which says how large what each layer gives "
            f"is; see docs/extending/write_an_objective.md for what it must return"
        )
    config = config_from_dict(tree)
    scales, own = config.study.scales or [], config.objective_config
    refuse_unknown_keys(config, scales)
    key = _growing(scales)
    for changes in scales:
        objective.refuse_bad_config(config.trial_config(changes))
    examples = objective.examples(own)
    plan = make_plan(examples, config.split) if examples else None
    sizes: dict[int, dict[str, list[float]]] = {step: defaultdict(list) for step in STEPS}
    with tempfile.TemporaryDirectory() as folder:
        data_dir = Path(folder) / "data"
        is_copied = plan is not None and objective.write_development_data(own, plan.development, data_dir)
        builder = TaskBuilder(
            training=Training.of(config),
            plan=plan,
            layout=TaskLayout(len(plan.folds) if plan else 1),
            data_dir=data_dir if is_copied else None,
            checkpoints_dir=None,
        )
        for number, changes in enumerate(scales, start=1):
            show(f"{number} of {len(scales)}: {', '.join(f'{key}={value}' for key, value in changes.items())}")
            payload = builder.tasks_of(Trial(0, 0, changes))[0].payload
            drawn = []
            for seed in range(config.study.seed, config.study.seed + SEEDS):
                task = replace(payload, seed=seed).task(payload.config) | {"steps": list(STEPS), "over": over}
                with isolated_state(seed):
                    drawn.append(_checked(objective, objective.output_sizes(task)))
            for step in STEPS:
                for layer in drawn[0][step]:
                    sizes[step][layer].append(math.fsum(one[step].get(layer, math.nan) for one in drawn) / SEEDS)
    of_all = {layer for layer in sizes[STEPS[0]] if all(len(of.get(layer, ())) == len(scales) for of in sizes.values())}
    if not of_all:
        raise ConfigError(
            f"objective: {objective.owner}.output_sizes names no layer at every scale; a layer must have the same "
            f"name at all of them"
        )
    compared = {step: {layer: of[layer] for layer in of if layer in of_all} for step, of in sizes.items()}
    below = _known(known.holds_from if known else {}, scales, compared[STEPS[0]])
    return CoordinateCheck(key, [changes[key] for changes in scales], scales, compared, below)


def _known(
    holds_from: Mapping[str, tuple[str, float]], scales: Sequence[Mapping[str, Any]], layers: Collection[str]
) -> dict[str, str]:
    """Return the sizes that are known to change at some of the scales: of a layer, and of what of it has changed."""
    return {
        name: f"below {key}={least:g}"
        for layer, (key, least) in holds_from.items()
        for name in layers
        if name.partition(", ")[0] == layer and any(changes.get(key, least) < least for changes in scales)
    }


def _growing(scales: Sequence[Mapping[str, Any]]) -> str:
    """Return the first key with a number that grows from scale to scale."""
    for key in scales[0]:
        values = [changes.get(key) for changes in scales]
        numbers = [value for value in map(reported_values.number, values) if value is not None and value > 0]
        if len(numbers) == len(scales) and numbers == sorted(set(numbers)):
            return key
    raise ConfigError(
        "study.scales: no number grows from scale to scale, over which sizes could be compared; give one at each, the "
        "smallest first, such as model.d_model"
    )


def _checked(objective: Objective, returned: Any) -> Mapping[int, Mapping[str, float]]:
    """Return what `output_sizes` has returned; ConfigError where it is not sizes by step and layer."""
    try:
        return {step: {str(layer): float(size) for layer, size in returned[step].items()} for step in STEPS}
    except (TypeError, ValueError, LookupError, AttributeError) as error:
        steps = ", ".join(map(str, STEPS))
        raise ConfigError(
            f"objective: {objective.owner}.output_sizes must return a dict by step ({steps}) of dicts by layer with a "
            f"number each, it returned {returned!r:.100}"
        ) from error
