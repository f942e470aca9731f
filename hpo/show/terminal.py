"""What a terminal shows of a search besides its progress: what it is, how it runs, how it ended."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from hpo.config.keys import flatten
from hpo.config.sections import DispatchSection
from hpo.config.shipped import MLFLOWS_OWN, is_from
from hpo.engine.loop import seconds_spent
from hpo.errors import SpaceError, printable
from hpo.formatting import format_count
from hpo.show.display import Display, Ended, Progress, gpus_in_words, others_in_words
from hpo.show.lines import summary_lines
from hpo.show.progress import TerminalProgress
from hpo.study.results.choosing import why
from hpo.study.study import PreparedStudy
from hpo.study.winner.training import expected_at_end
from hpo.trials.record.record import Record
from hpo.trials.space.first_points import default_point
from hpo.trials.space.reader import parted
from hpo.workers.dispatch.code import Code
from hpo.workers.dispatch.dispatcher import Gpus
from hpo.workers.dispatch.other_searches import OtherSearch
from hpo.workers.dispatch.ray.address import is_connected_here

# Idle share of the workers' time from which a hint is printed.
_MUCH_IDLE = 0.4
# Where cost predicts seconds within a third or so; measured in benchmarks/clock/README.md.
_LANES_PER_WORKER = 1.5
# Of a front.
_SHOWN = 10


class Terminal(Display):
    """Prints lines, on a terminal with a live panel below them; without `has_trials` only the beginning and the end."""

    def __init__(self, has_trials: bool = True) -> None:
        self._has_trials = has_trials

    def announce(self, study: PreparedStudy) -> None:
        """Print what is searched."""
        config = study.config
        for note in study.own.notes:
            _say(note)
        if config.secrets:
            names = ", ".join(config.secrets)
            _say(f"secrets are kept by name alone: set {names} in the environment before you resume or reproduce this")
        section = config.study
        metrics = ", ".join(f"{name} ({direction})" for name, direction in study.goal.metrics.items())
        _say(f"study {section.name}: {format_count(section.trials, study.counts.removesuffix('s') + '*')}, {metrics}")
        if study.goal.limits:
            after = "" if section.limits_after is None else ", given after the search: they choose among its trials"
            _say(f"limits: {', '.join(map(str, study.goal.limits))}{after}")
        if len(study.goal.metrics) > 1:
            _say(f"the winner will be {why(section.choose)} (study.choose)")
        variables = [name for key, name in MLFLOWS_OWN.items() if is_from(name, getattr(config.track, key))]
        if config.track.name == "mlflow" and variables:
            _say(f"MLflow: {config.track.uri}, experiment {config.track.experiment} ({', '.join(variables)})")
        _say(study.strategy.announcement)
        if (says := expected_at_end(study)) is not None:
            _say(says)
        if "default" in parted(config.space)[1].get("first", ()):
            try:
                default_point(study.space, flatten(config.objective_config))
            except SpaceError as error:
                _say(f"not tried first: {error}")
        if study.plan is not None:
            parts = [f"{name} {part['size']:,} ({part['fraction']:.1%})" for name, part in study.plan.parts.items()]
            kind = study.plan.kind.replace("_", " ")
            folds = f", {study.num_folds} folds" if study.num_folds > 1 else ""
            _say(f"data: {', '.join(parts)}; validation: {kind}{folds}")

    def show_code(self, code: Code) -> None:
        """Print what of the user's code goes to other machines."""
        print(code.in_words(), flush=True)

    def show_other_searches(self, dispatch: DispatchSection, others: Sequence[OtherSearch]) -> None:
        """Print which other searches run on this machine."""
        _say(others_in_words(others, dispatch))

    def show_start(self, dispatch: DispatchSection) -> None:
        """Print what the next seconds go into."""
        if not dispatch.type.has_own_processes:
            return
        if dispatch.address:
            _say(f"joining the Ray cluster at {dispatch.address} ...")
        elif is_connected_here():
            _say("using the Ray that this process is connected to, as it is; it goes on afterwards")
        else:
            _say("starting Ray on this machine ...")

    def show_workers(self, study: PreparedStudy, workers: int, gpus: Gpus) -> None:
        """Print what they have of the GPUs, the lanes, and what to set where workers would be idle."""
        if (says := gpus_in_words(gpus, study.config.dispatch)) is not None:
            _say(says)
        lanes, rules = study.config.study.lanes, study.rules()
        processes = study.config.dispatch.processes_per_task
        slots = format_count(workers, "worker*") + (f" of {processes} processes" if processes > 1 else "")
        trainings = study.config.study.trials * study.layout.size
        if trainings < workers:
            idle = workers - trainings
            _say(f"{format_count(trainings, 'training*')} in all: {idle} of {workers} workers will be idle")
        if rules.order == "free":
            effect = "another run of this search would have other trials"
            if not replace(rules, order="clock").waits:
                effect = "study.order=free has no effect with this strategy, whose trials are the same in any order"
            _say(f"{slots}, free order: {effect}")
            return
        if not rules.waits:
            is_in_rounds = study.strategy.learns == "by_round"
            waits = "a round waits for its last trial" if is_in_rounds else "none waits for another"
            _say(f"{slots}: {waits} with this strategy, whatever the lanes")
            return
        says = f"{format_count(lanes, 'lane*')}, {slots}"
        # Lanes that wait for the clock leave no worker idle if there are some more of them.
        suits = math.ceil(_LANES_PER_WORKER * workers)
        if workers > lanes:
            says += f": {workers - lanes} will be idle; study.lanes={suits} keeps all busy, in a study of its own"
        elif workers > 1 and lanes < suits:
            says += f" (study.lanes={suits} would keep them busier, in a study of its own)"
        _say(says)

    def progress(self, study: PreparedStudy, record: Record) -> Progress:
        """Return what shows the trials as they come."""
        if not self._has_trials:
            return super().progress(study, record)
        return TerminalProgress(study, record.history(), seconds_spent(record))

    def conclude(self, study: PreparedStudy, ended: Ended) -> None:
        """Print the winner, and where the report is."""
        view = ended.view
        if view.further_trained:
            trials = ", ".join(map(str, view.further_trained))
            _say(f"trained to the end after the search, to {study.full_amount}: trials {trials}")
        print()
        for line in summary_lines(view):
            print(line, flush=True)
        _tell_time(study, view.cost or {})
        if not ended.is_tracked:
            _say(f"MLflow does not have everything: send it later with `hpo sync {view.reference}`")


def _say(text: str) -> None:
    """Print a line; what it tells of a study may come from a stranger."""
    print(printable(text), flush=True)


def _tell_time(study: PreparedStudy, cost: Mapping[str, Any]) -> None:
    """Print how long simulated workers took, and how much of the time workers were idle."""
    dispatch = study.config.dispatch
    if cost.get("wall_seconds") is None:
        return
    if dispatch.type.has_own_time:
        _say(
            f"{dispatch.name}: {format_count(dispatch.workers or 1, 'worker*')} took {cost['wall_seconds']:,.0f} s for "
            f"{cost['training_seconds']:,.0f} s of training; when the best was found: see Cost in the report"
        )
    if (dispatch.workers or 1) > 1 and cost["idle_share"] > _MUCH_IDLE:
        _say(f"workers were idle for {cost['idle_share']:.0%} of the time: see the timeline in the report")
