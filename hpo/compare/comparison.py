"""The plan of a comparison of strategies: checks the plan, and freezes the configuration that all searches share."""

import contextlib
import itertools
from collections.abc import Generator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from hpo.config.documents import read_yaml, yaml_text
from hpo.config.keys import differences, flatten, replaced
from hpo.config.sections import FAILURES
from hpo.config.study_config import FREE_KEYS, StudyConfig, config_from_dict, explain
from hpo.engine.strategies import Strategy, make_strategy, strategy_type
from hpo.errors import ConfigError, HpoError, StudyError
from hpo.files import write_atomically
from hpo.study.basis.configurations import first_of
from hpo.study.basis.environment import describe_environment
from hpo.study.basis.source_code import Code
from hpo.study.files.folder import short_path
from hpo.study.opening import code_of
from hpo.study.preparing.checks import refuse_several_metrics
from hpo.study.preparing.preparation import prepare_study
from hpo.study.study import PreparedStudy
from hpo.study.upgrade import FORMAT, upgraded
from hpo.trials.goal import finished
from hpo.trials.space.space import Space
from hpo.trials.trial import Outcome, Trial
from hpo.workers.objective.pickled_function import PickledFunction

# The objective that looks up scores in a table. With a table of all scores, the optimum is known.
_TABLE = "hpo.objectives.table:run_fold"
# The table is not looked up as a whole if the space has more points than this.
_MAX_LOOKUPS = 200_000
# A placeholder for the strategy in the shared configuration; it fits every space.
ANY_STRATEGY: Mapping[str, Any] = {"name": "random", "round_size": 1}
_NO_EFFECT = {"study.finalists": 0, "study.storage": None, "track.name": "none"}
_NO_EFFECT |= {"study.stop_after_failures": FAILURES}


@dataclass(frozen=True)
class ComparisonPlan:
    """A comparison of strategies: repeated searches of each strategy over one study, with paired seeds.

    Attributes:
        study: the shared study: space, objective, data and split; its folder is the folder of the comparison.
        strategies: the name and the settings of each strategy, by label.
        repeats: searches per strategy; repeat r has the seed `study.seed` + r for all strategies.
    """

    study: PreparedStudy
    strategies: Mapping[str, Mapping[str, Any]]
    repeats: int

    @property
    def path(self) -> Path:
        """The folder of the comparison."""
        return short_path(self.study.folder.path)

    @property
    def searches(self) -> list[tuple[int, str]]:
        """The number of the repeat and the label of the strategy for every search, sorted by repeat."""
        return list(itertools.product(range(self.repeats), self.strategies))

    def study_of(self, repeat: int, label: str) -> PreparedStudy:
        """Return a copy of `study` with the strategy `label` and the seed of the repeat."""
        config = self.study.config
        seed, settings = config.study.seed + repeat, dict(self.strategies[label])
        own = config.with_study(seed=seed).model_copy(update={"strategy": settings})
        return replace(self.study, config=own, strategy=_strategy(label, settings, self.study.space, seed))

    def table(self) -> list[Trial] | None:
        """Return a trial for each point of the space that has a row in the objective's table.

        None if the objective is not a table, or if the space is infinite or has more than 200,000 points.
        """
        study, space = self.study, self.study.space
        if study.config.objective != _TABLE or space.size is None or space.size > _MAX_LOOKUPS:
            return None
        builder, goal = study.task_builder(), study.goal
        trials: list[Trial] = []
        for number, point in enumerate(space.points()):
            trial = Trial(number, 0, point)
            payloads = [task.payload for task in builder.tasks_of(trial)]
            with contextlib.suppress(LookupError):  # In a search, a point without a row is a failed trial.
                results = [_result(study.objective.run_fold(payload.task(payload.config))) for payload in payloads]
                trials.append(finished(trial, {fold: Outcome(metrics) for fold, metrics in enumerate(results)}, goal))
        return trials

    def open(self) -> None:
        """Create the comparison's folder with the frozen configuration.

        If the folder already has a comparison, check that its configuration and its code are the same as now. Raise
        StudyError if they differ, or if the folder has a study. Also raise StudyError if the comparison in the folder
        has more repeats than `self.repeats`.
        """
        folder, code = self.study.folder, self._code()
        if folder.exists:
            raise StudyError(f"name: {self.path} is a study; choose another name for the comparison")
        frozen_path = self.path / "comparison.yaml"
        if frozen_path.exists():
            frozen = upgraded("comparison", read_yaml(frozen_path), str(frozen_path))
            if not (isinstance(frozen.get("repeats"), int) and "code" in frozen):
                raise StudyError(f"{frozen_path}: the file is not the plan of a comparison; choose another name")
            before = Code(**frozen.pop("code"))
            self._refuse_changes(frozen, before, code)
            # Keep the code before the trainings, so that files that they wrote are no changes.
            code = code.without_written(before)
        elif (self.path / "searches.csv").exists():
            raise StudyError(
                f"{frozen_path}: the file is missing, but searches.csv exists; choose another name for the comparison"
            )
        else:
            folder.make()
            folder.write_function(self.study.objective.pickled)
            folder.write_json(folder.environment_path, describe_environment(self.study.config.secrets))
        if self.study.plan and not folder.data_dir.exists():
            objective, config = self.study.objective, self.study.config
            objective.write_development_data(config.objective_config, self.study.plan.development, folder.data_dir)
        write_atomically(frozen_path, yaml_text({**self._to_dict(), "code": vars(code)}))

    def _code(self) -> Code:
        """Return the code on which the results of the searches depend, with the code of all strategies."""
        codes = [code_of(self.study_of(0, label)) for label in self.strategies]
        revisions, pieces = (
            {k: v for each in codes for k, v in getattr(each, name).items()} for name in ("revisions", "pieces")
        )
        return replace(codes[0], revisions=revisions, pieces=pieces)

    def _to_dict(self) -> dict[str, Any]:
        config = self.study.config.to_dict()
        return {
            "format": FORMAT,
            "repeats": self.repeats,
            "strategies": {label: dict(settings) for label, settings in self.strategies.items()},
            "data": _fingerprints(self.study),
            "config": {key: branch for key, branch in config.items() if key != "strategy"},
        }

    def _refuse_changes(self, frozen: Mapping[str, Any], before: Code, now: Code) -> None:
        free = {f"config.{key}" for key in FREE_KEYS if key != "study.trials"} | {"repeats"}
        changed = {k: v for k, v in differences(frozen, self._to_dict()).items() if k not in free}
        changes = [f"{key} was {old!r} and is now {new!r}" for key, (old, new) in changed.items()]
        if changes := [*changes, *before.changes_to(now)]:
            raise StudyError(
                f"{self.path} exists with another configuration or other code: {first_of(changes)}; choose another "
                f"name, or undo the changes"
            )
        if self.repeats < frozen["repeats"]:
            raise StudyError(f"repeats: must be at least {frozen['repeats']}, as in {self.path}, given {self.repeats}")


def _result(training: Generator[Any, None, Mapping[str, float]]) -> dict[str, float]:
    """Run a training to its end, and return the values that it returns."""
    try:
        while True:
            next(training)
    except StopIteration as stop:
        return dict(stop.value)


def prepare_comparison(
    config: StudyConfig,
    strategies: Mapping[str, Mapping[str, Any]],
    repeats: int,
    name: str | None = None,
    pickled: PickledFunction | None = None,
) -> ComparisonPlan:
    """Check the arguments, and return the plan of a comparison; create no files.

    The strategy in `config` is not used. `name` is the folder under runs/; None = `compare-` and the study's name.
    """
    if len(strategies) < 2:
        labels = ", ".join(strategies) or "none"
        raise ConfigError(f"strategies: must be two or more, given {labels}; give for example grid,random,evolutionary")
    for label in strategies:
        # Each search has a folder with this name; run_search deletes it.
        if not label.replace("_", "").replace("-", "").isalnum():
            raise ConfigError(f"strategies: a label may have only letters, digits, '_' and '-', given '{label}'")
    if repeats < 1:
        raise ConfigError(f"repeats: must be 1 or more, given {repeats}")
    if config.study.scales is not None:
        raise ConfigError(
            "study.scales: must be null in a comparison of strategies, because all searches must have the same scale; "
            "to compare studies with scales, run the studies first, then run `hpo compare STUDY STUDY`"
        )
    given = flatten(config.to_dict())
    for key, neutral in _NO_EFFECT.items():
        if given[key] != neutral:
            allowed = "null" if neutral is None else neutral
            raise ConfigError(
                f"{key}: must be {allowed}, given {given[key]!r}; a comparison does not use this key, so set "
                f"{key}={allowed}"
            )
    changes = {"study.name": name or f"compare-{config.study.name}"}
    named = config_from_dict(replaced({**config.to_dict(), "strategy": ANY_STRATEGY}, changes))
    study = prepare_study(named.model_copy(update={"secrets": config.secrets}), pickled)
    comparison = ComparisonPlan(study, dict(strategies), repeats)
    for label in strategies:
        refuse_several_metrics(comparison.study_of(0, label))
    return comparison


def _strategy(label: str, settings: Mapping[str, Any], space: Space, seed: int) -> Strategy:
    try:
        return make_strategy(settings, space, seed, strategy_type(settings.get("name")))
    except ValidationError as error:
        raise ConfigError(explain(error, f"strategies.{label}.")) from error
    except HpoError as error:
        raise ConfigError(f"strategy {label}: {error}") from error


def _fingerprints(study: PreparedStudy) -> dict[str, str]:
    """Return the fingerprints of the data splits; without splits, return the hashes of the objective's files."""
    if study.plan is not None:
        return {part: str(figures["fingerprint"]) for part, figures in study.plan.parts.items()}
    return {file.path: file.sha256 for file in study.own.files}
