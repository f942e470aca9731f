"""Trains one configuration without a search, in this process."""

import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Literal

from pydantic import Field, ValidationError

from hpo.config.documents import yaml_text
from hpo.config.goals import Limits, Metrics
from hpo.config.keys import own_part, replaced, without
from hpo.config.secrets import redact
from hpo.config.sections import ObjectiveText, Section, SplitSection, StudyName
from hpo.config.study_config import explain, refuse_redacted, refuse_unwritable
from hpo.errors import ConfigError
from hpo.files import write_atomically
from hpo.study.basis.environment import describe_environment
from hpo.study.files.folder import RUNS, new_training, short_path
from hpo.study.preparing.checks import refuse_no_amounts, refuse_unknown_metrics
from hpo.study.study import training_command
from hpo.trials.goal import goal_of
from hpo.trials.trial import Outcome, TaskLayout, Trial
from hpo.workers.dispatch.process.group import run_here
from hpo.workers.objective.objective import Objective
from hpo.workers.objective.path import ObjectivePath
from hpo.workers.objective.pickled_function import PickledFunction
from hpo.workers.objective.resolution import resolve
from hpo.workers.training.splits import make_plan
from hpo.workers.training.tasks import Payload, TaskBuilder, Training
from hpo.workers.training.worker import Message, outcome_of

_SECTIONS = ("objective", "study", "split", "dispatch")


class _Study(Section):
    name: StudyName
    metric: str = Field(min_length=1)
    direction: Literal["maximize", "minimize"]
    seed: int | None = Field(default=None, ge=0)
    score: Literal["best", "last"] = "best"
    metrics: Metrics | None = None
    limits: Limits | None = None
    limits_after: None = None
    measured: None = None
    scales: None = None


class _Threads(Section):
    threads: int = Field(ge=1)
    processes_per_task: int = Field(default=1, ge=1)


class _Training(Section):
    """The sections of a configuration that `hpo train` itself checks; the objective checks all other sections."""

    objective: ObjectiveText
    study: _Study
    split: SplitSection
    dispatch: _Threads


def train_once(
    tree: Mapping[str, Any], show: Callable[[Message], None], pickled: Path | None = None
) -> tuple[Path, Outcome]:
    """Train one configuration in this process, without a study.

    Args:
        tree: the whole configuration.
        show: a function that is called with each point of the learning curve and each warning, as a message.
        pickled: the file of a pickled objective; None for an imported objective.

    Returns:
        The folder with the training's files, and the training's outcome.

    Raises:
        HpoError: the configuration is invalid, or the data cannot be read.
    """
    tree, shared, objective, split = check_tree(tree, pickled)
    config = shared.trial_config({})
    examples = objective.examples(config)
    plan = make_plan(examples, split) if examples else None
    for note in examples.notes if examples else ():
        show({"warning": note})
    folder = new_training(shared.common.study)
    folder.make()
    write_atomically(folder.config_path, yaml_text(tree))
    write_atomically(folder.environment_path, json.dumps(describe_environment(shared.secrets), indent=2))
    is_copied = plan is not None and objective.write_development_data(config, plan.development, folder.data_dir)
    builder = TaskBuilder(
        training=shared,
        plan=plan,
        layout=TaskLayout(len(plan.folds) if plan else 1),
        data_dir=folder.data_dir if is_copied else None,
        has_given_data=objective.pickled is not None and objective.pickled.rows is not None,
        checkpoints_dir=None,
    )
    payload = replace(
        builder.tasks_of(Trial(0, 0, {}))[0].payload,
        seed=shared.seed,
        checkpoint_dir=str(folder.path / "checkpoint"),
    )
    outcome = outcome_of(run_here(payload), show)
    write_atomically(folder.path / "outcome.json", json.dumps(outcome.to_dict(), indent=2))
    return short_path(folder.path), outcome


def check_tree(
    tree: Mapping[str, Any], pickled: Path | None = None
) -> tuple[dict[str, Any], Training, Objective, SplitSection]:
    """Check a configuration without reading the data.

    Returns:
        Four values: the configuration, with references in place of secrets; the training's settings; the objective;
        and the section `split`.

    Raises:
        HpoError: the configuration is not valid, or a pickled objective is given without its file.
    """
    refuse_unwritable(tree)
    tree, secrets = redact(tree)
    sections = {name: tree[name] for name in _SECTIONS if name in tree}
    refuse_redacted(sections)
    try:
        training = _Training.model_validate(sections)
    except ValidationError as error:
        raise ConfigError(explain(error)) from error
    study, dispatch = training.study, training.dispatch
    goal = goal_of(study)  # type: ignore[arg-type]  # It has the fields that define the goal.
    config, seed = (tree, study.seed) if study.seed is not None else _without_seed(tree)
    config = own_part(config, _SECTIONS)
    path = ObjectivePath.of(training.objective)
    if path.is_pickled and pickled is None:
        trained = training_command(training.objective, str(RUNS / study.name / "best.yaml"))
        raise ConfigError(
            f"objective: '{path.function}' was given from Python and is stored only in its study's folder; train the "
            f"winner in Python with `{trained}`"
        )
    function = None if pickled is None else PickledFunction.read(pickled)
    objective = resolve(training.objective, str(Path.cwd()), secrets, function)
    objective.refuse_bad_config(config)
    refuse_no_amounts(objective.search_description(config), "hpo train:")
    refuse_unknown_metrics(goal, objective.method(config), objective)
    common = Payload(
        objective=training.objective,
        config={},
        metric=study.metric,
        direction=study.direction,
        score=study.score,
        metrics=() if goal.is_single else tuple(goal.metrics),
        limited=tuple(name for name in goal.names if name not in goal.metrics),
        threads=dispatch.threads,
        processes=dispatch.processes_per_task,
        study=study.name,
        function_file=str(pickled) if pickled else None,
    )
    shared = Training(common=common, trial_config=partial(replaced, config), seed=seed, secrets=secrets)
    return dict(tree), shared, objective, training.split


def _without_seed(tree: Mapping[str, Any]) -> tuple[dict[str, Any], int]:
    """Return the configuration without `training.seed`, and the seed (default 0); ConfigError for an invalid seed."""
    training = tree.get("training", {})
    if not isinstance(training, Mapping):
        return dict(tree), 0
    seed = training.get("seed", 0)
    if isinstance(seed, bool) or not isinstance(seed, int) or seed < 0:
        raise ConfigError(f"training.seed: must be a whole number of at least 0, given {seed!r}")
    rest = without(tree, "training.seed")
    return rest if rest.get("training") else without(rest, "training"), seed
