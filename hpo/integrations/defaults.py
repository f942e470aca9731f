"""Builds strategies with the default settings of conf/strategy, and passes their points to other libraries."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from hpo.config.shipped import named_settings, strategy_settings
from hpo.engine.strategies import BY_AMOUNT, STRATEGIES, Strategy, find_strategy
from hpo.errors import ConfigError
from hpo.trials.history import History
from hpo.trials.reported_values import number
from hpo.trials.space.reader import space_from_dict
from hpo.trials.space.space import Point
from hpo.trials.space.written import explicit_space
from hpo.trials.trial import Direction, Proposal, Trial, loss_of


def default_strategy(
    name: str, space: Mapping[str, Any], seed: int = 0, settings: Mapping[str, Any] | None = None
) -> Strategy:
    """Return a strategy for a space that is written as in `hpo.search`.

    Args:
        name: a strategy of conf/strategy or of an installed package, or `package.module:Class`.
        space: the values of each hyperparameter. A tuple is a range from low to high. A list of numbers has ordered
            values, and any other list has unordered choices. Nested names are joined with dots. With
            `hpo.choices(relu=nn.ReLU)`, the value in a point is the name `relu`. An example of a space is
            `{"lr": hpo.log(1e-5, 1e-2), "width": (16, 64), "layers": [1, 2, 3]}`.
        seed: the random seed from which all points are drawn.
        settings: values that replace the defaults in conf/strategy/<name>.yaml.

    Raises:
        HpoError: the strategy is unknown or trains some points only partly, or a setting or a dimension is not valid.
    """
    settings = strategy_settings({**(settings or {}), **named_settings(name)})
    partly = (*BY_AMOUNT, "ladder")
    if settings["name"] in partly:
        whole = ", ".join(each for each in STRATEGIES if each not in partly)
        raise ConfigError(
            f"strategy: '{name}' trains some points only partly, which works only in `hpo search`; use one of {whole}; "
            "to stop trainings early, use a scheduler or pruner of the library that runs the trials"
        )
    return find_strategy(settings, space_from_dict(explicit_space(space)), seed)


def next_points(strategy: Strategy, known: History, pending: Sequence[Trial]) -> Sequence[Point]:
    """Return the strategy's next points.

    Raise ConfigError if the strategy sets the amounts of trainings, because only `hpo search` supports this.
    """
    points: list[Point] = []
    for proposed in strategy.propose(known, pending):
        if isinstance(proposed, Proposal):
            if proposed.amount is not None or proposed.continues is not None:
                raise ConfigError(
                    f"strategy: '{strategy.announcement}' trains some points only partly, which works only in "
                    f"`hpo search`; use another strategy; to stop trainings early, use a scheduler or pruner of the "
                    f"library that runs the trials"
                )
            proposed = proposed.point
        points.append(proposed)
    return points


def with_scores(trial: Trial, scores: Sequence[Any] | None, directions: Sequence[Direction]) -> Trial:
    """Return the trial with its scores; the trial is failed unless all scores are valid numbers.

    A score is valid if `hpo.trials.reported_values.number` accepts it, and it is not True or False.
    """
    checked = [None if isinstance(score, bool) else number(score) for score in scores or ()]
    given = [float(score) for score in checked if score is not None]
    if len(given) < len(directions):
        return replace(trial, state="failed")
    losses = [loss_of(score, direction) for score, direction in zip(given, directions, strict=True)]
    return replace(trial, state="complete", score=given[0], loss=losses[0], other_losses=tuple(losses[1:]))
