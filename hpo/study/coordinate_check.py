"""The coordinate check: tests whether the magnitude of layers' outputs changes with the model's width or depth."""

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
from hpo.formatting import format_count
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
"""The largest absolute slope that passes; finite widths and few seeds cause slopes up to this size."""


@dataclass(frozen=True)
class CoordinateCheck:
    """The size of each layer's output at several scales of a model, after a few training steps.

    An output's size is the magnitude of its values, such as the mean absolute value. With a good parametrization, the
    output size is the same at every scale.

    Attributes:
        key: the configuration key whose value grows from scale to scale.
        values: the key's value at each scale.
        scales: for each scale, the keys that it changes, with their values.
        sizes: for each number of training steps, a dict from a layer to a list with the layer's output size at each
            scale. The output sizes are means over the seeds. Layers that do not occur at every scale are left out.
        known: by layer, a text that says at which scales the output size is expected to change, such as "below
            model.d_model=128".
    """

    key: str
    values: Sequence[float]
    scales: Sequence[Mapping[str, Any]]
    sizes: Mapping[int, Mapping[str, Sequence[float]]]
    known: Mapping[str, str] = field(default_factory=dict)

    @cached_property
    def slopes(self) -> Mapping[int, Mapping[str, float]]:
        """The slope of log(output size) over log(value of `key`), by step and layer; 0 = the size does not change.

        If the output size of a layer is 0 at every scale, the slope is 0. Otherwise, if the output size is 0, infinite
        or NaN at any scale, the slope is infinite.
        """
        return {
            step: {layer: _slope(self.values, sizes) for layer, sizes in of.items()} for step, of in self.sizes.items()
        }

    @cached_property
    def steepest(self) -> Mapping[str, tuple[int, float]]:
        """The steepest slope of each layer over all steps, as a pair (step, slope); see `slopes`.

        The layer with the steepest slope is first.
        """
        layers = next(iter(self.slopes.values()))
        steepest = {
            layer: max(((step, of[layer]) for step, of in self.slopes.items()), key=lambda at: abs(at[1]))
            for layer in layers
        }
        return dict(sorted(steepest.items(), key=lambda item: -abs(item[1][1])))

    @property
    def outside(self) -> list[str]:
        """The layers not in `known` whose slope in `steepest` is not within ±`BOUND`, the steepest slope first."""
        return [layer for layer in self._changing if layer not in self.known]

    @property
    def expected(self) -> list[str]:
        """The layers in `known` whose slope in `steepest` is not within ±`BOUND`, the steepest slope first."""
        return [layer for layer in self._changing if layer in self.known]

    @property
    def _changing(self) -> list[str]:
        return [layer for layer, (_, slope) in self.steepest.items() if abs(slope) > BOUND]

    @property
    def is_within(self) -> bool:
        """Whether the check passes: no layer is in `outside`."""
        return not self.outside

    @property
    def verdict(self) -> str:
        """A sentence that says whether output sizes change with the value of `key`, and which of them change most."""
        known = "".join(f"; {self._describe(layer)} is known to change {self.known[layer]}" for layer in self.expected)
        if not self.outside:
            steepest = next((layer for layer in self.steepest if layer not in self.expected), None)
            sizes = "no other output size" if known else "no output size"
            text = f"; the steepest slope: {self._describe(steepest)}" if steepest else ""
            return f"slopes within {BOUND}: {sizes} changes with {self.key}{text}{known}"
        worst = [self._describe(layer) for layer in self.outside]
        more = f" and {len(worst) - 3} more" if len(worst) > 3 else ""
        return (
            f"slopes not within {BOUND}: {len(worst)} of {len(self.steepest)} output sizes change with {self.key}; the "
            f"steepest slopes: {', '.join(worst[:3])}{more}{known}"
        )

    def _describe(self, layer: str) -> str:
        step, slope = self.steepest[layer]
        return f"{layer} ({slope:+.2f} after {format_count(step, 'step*')})"

    def to_dict(self) -> dict[str, Any]:
        """Return the check as a dict for JSON; an infinite slope is None."""
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


def _slope(values: Sequence[float], sizes: Sequence[float]) -> float:
    if not any(sizes):
        return 0.0
    if not all(0 < size < math.inf for size in sizes):
        return math.inf
    return linear_regression([*map(math.log, values)], [*map(math.log, sizes)]).slope


def check_coordinates(tree: Mapping[str, Any], over: str, show: Callable[[str], None]) -> CoordinateCheck:
    """Train a few steps at each scale of a configuration, and return the coordinate check.

    Args:
        tree: a whole configuration from `compose_search`. If it has no scales, the objective describes the scales.
        over: what grows from scale to scale: "width" or "depth".
        show: a function that is called with a line about each scale.

    Raises:
        HpoError: the objective has no function `output_sizes`, or `output_sizes` returns invalid sizes.
        HpoError: there are no scales, a scale is invalid, or no key has a number that grows from scale to scale.
        HpoError: the data cannot be read.

    Source: Yang et al. 2021, "Tensor programs V", appendix D.1.
    """
    tree, objective, known = with_scales_given(tree, over)
    if objective.output_sizes is None:
        raise ConfigError(
            f"objective: {objective.owner} must have a function 'output_sizes', which returns the size of each layer's "
            f"output; see docs/extending/write_an_objective.md"
        )
    config = config_from_dict(tree)
    scales, own = config.study.scales or [], config.objective_config
    refuse_unknown_keys(config, scales)
    key = _growing_key(scales)
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
            by_seed = []
            for seed in range(config.study.seed, config.study.seed + SEEDS):
                task = replace(payload, seed=seed).task(payload.config) | {"steps": list(STEPS), "over": over}
                with isolated_state(seed, payload.threads):
                    by_seed.append(_check_sizes(objective, objective.output_sizes(task)))
            for step in STEPS:
                for layer in by_seed[0][step]:
                    sizes[step][layer].append(math.fsum(one[step].get(layer, math.nan) for one in by_seed) / SEEDS)
    common = {layer for layer in sizes[STEPS[0]] if all(len(of.get(layer, ())) == len(scales) for of in sizes.values())}
    if not common:
        raise ConfigError(
            f"objective: {objective.owner}.output_sizes must use the same layer names at every scale; no layer name "
            f"occurs at every scale"
        )
    compared = {step: {layer: of[layer] for layer in of if layer in common} for step, of in sizes.items()}
    below = _known_changes(known.holds_from if known else {}, scales, compared[STEPS[0]])
    return CoordinateCheck(key, [changes[key] for changes in scales], scales, compared, below)


def _known_changes(
    holds_from: Mapping[str, tuple[str, float]], scales: Sequence[Mapping[str, Any]], layers: Collection[str]
) -> dict[str, str]:
    """Return the layers whose outputs are expected to change in magnitude from scale to scale.

    The dict maps each layer to a text that says at which scales, such as "below width=128".
    """
    return {
        name: f"below {key}={least:g}"
        for layer, (key, least) in holds_from.items()
        for name in layers
        if name.partition(", ")[0] == layer and any(changes.get(key, least) < least for changes in scales)
    }


def _growing_key(scales: Sequence[Mapping[str, Any]]) -> str:
    """Return the first key whose value is a positive number that grows from scale to scale.

    Raise ConfigError if there is no such key.
    """
    for key in scales[0]:
        values = [changes.get(key) for changes in scales]
        numbers = [value for value in map(reported_values.number, values) if value is not None and value > 0]
        if len(numbers) == len(scales) and numbers == sorted(set(numbers)):
            return key
    raise ConfigError(
        "study.scales: must set a key to a number that grows from scale to scale, such as model.d_model; set the same "
        "key at every scale, with the smallest number first"
    )


def _check_sizes(objective: Objective, returned: Any) -> Mapping[int, Mapping[str, float]]:
    """Return the result of `output_sizes` as sizes by step and layer. Raise ConfigError if it is malformed."""
    try:
        return {step: {str(layer): float(size) for layer, size in returned[step].items()} for step in STEPS}
    except (TypeError, ValueError, LookupError, AttributeError) as error:
        steps = ", ".join(map(str, STEPS))
        raise ConfigError(
            f"objective: {objective.owner}.output_sizes must return {{step: {{layer: number}}}} with steps {steps}; it "
            f"returned {returned!r:.100}"
        ) from error
