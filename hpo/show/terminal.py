"""The terminal's output about a search except its progress: the settings, the workers, and the result."""

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
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
from hpo.workers.training.splits import duplicates_text

# Idle share of the workers' time from which a hint appears.
_MUCH_IDLE = 0.4
# Enough lanes to keep workers busy if costs predict seconds within about a third; see benchmarks/clock/README.md.
_LANES_PER_WORKER = 1.5
# The most labels whose shares are printed.
_MOST_LABELS = 5


class Terminal(Display):
    """Prints a search as lines. On a terminal, a live panel below the lines shows the running tasks.

    Without `has_trials`, the display shows only the start and the end of the search.
    """

    def __init__(self, has_trials: bool = True) -> None:
        self._has_trials = has_trials

    def announce(self, study: PreparedStudy) -> None:
        """Print the study, its metrics, limits and strategy, and its data."""
        config = study.config
        for note in study.own.notes:
            _say(note)
        if config.secrets:
            names = ", ".join(config.secrets)
            _say(f"only names of secrets are stored: set {names} in the environment to resume or reproduce this study")
        section = config.study
        metrics = ", ".join(f"{name} ({direction})" for name, direction in study.goal.metrics.items())
        _say(f"study {section.name}: {format_count(section.trials, study.counts.removesuffix('s') + '*')}, {metrics}")
        if study.goal.limits:
            after = "" if section.limits_after is None else ", set after the search, to choose among its trials"
            _say(f"limits: {', '.join(map(str, study.goal.limits))}{after}")
        if len(study.goal.metrics) > 1:
            _say(f"the winner will be {why(section.choose)} (study.choose)")
        variables = [name for key, name in MLFLOWS_OWN.items() if is_from(name, getattr(config.track, key))]
        if config.track.name == "mlflow" and variables:
            _say(f"MLflow: {config.track.uri}, experiment {config.track.experiment} ({', '.join(variables)})")
        _say(study.strategy.announcement)
        if (text := expected_at_end(study)) is not None:
            _say(text)
        if "default" in parted(config.space)[1].get("first", ()):
            try:
                default_point(study.space, flatten(config.objective_config))
            except SpaceError as error:
                _say(f"not tried first: {error}")
        if study.plan is not None:
            parts = [f"{name} {part['size']:,} ({part['fraction']:.1%})" for name, part in study.plan.parts.items()]
            kind = study.plan.kind.replace("_", " ")
            folds = f", {study.num_folds} folds" if study.num_folds > 1 else ""
            _say(f"data: {', '.join(parts)}; validation: {kind}{folds}{_labels_text(study.plan.parts.values())}")
            if twice := duplicates_text(study.plan.duplicates):
                _say(f"caution: some examples are in two splits ({twice}); scores on these examples are too good")

    def show_code(self, code: Code) -> None:
        """Print which files of the user's code are sent to other machines."""
        print(code.in_words(), flush=True)

    def show_other_searches(self, dispatch: DispatchSection, others: Sequence[OtherSearch]) -> None:
        """Print the other searches on this machine."""
        _say(others_in_words(others, dispatch))

    def show_start(self, dispatch: DispatchSection) -> None:
        """Print whether Ray is started, joined or already connected; starting or joining may take seconds."""
        if not dispatch.type.has_own_processes:
            return
        if dispatch.address:
            _say(f"joining the Ray cluster at {dispatch.address} ...")
        elif is_connected_here():
            _say("using the Ray that this process is connected to; Ray keeps running after the search")
        else:
            _say("starting Ray on this machine ...")

    def show_workers(self, study: PreparedStudy, workers: int, gpus: Gpus) -> None:
        """Print each worker's share of the GPUs, and the numbers of lanes and workers.

        If the workers would be busier with more lanes, print the number of lanes that would keep the workers busy.
        """
        if (text := gpus_in_words(gpus, study.config.dispatch)) is not None:
            _say(text)
        lanes, rules = study.config.study.lanes, study.rules()
        processes = study.config.dispatch.processes_per_task
        slots = format_count(workers, "worker*") + (f" of {processes} processes" if processes > 1 else "")
        trainings = study.config.study.trials * study.layout.size
        if trainings < workers:
            idle = workers - trainings
            count = format_count(trainings, "training*")
            _say(f"{idle} of {workers} workers will be idle, because the search has only {count}")
        if rules.order == "free":
            effect = "points depend on timing, so another run of this search would try other points"
            if not replace(rules, order="clock").waits:
                effect = "study.order=free has no effect, because the order of results cannot change this search"
            _say(f"{slots}, free order: {effect}")
            return
        if not rules.waits:
            is_in_rounds = study.strategy.learns == "by_round"
            waits = "each round waits for its last trial" if is_in_rounds else "no worker waits for another"
            _say(f"{slots}; with this strategy {waits}")
            return
        text = f"{format_count(lanes, 'lane*')}, {slots}"
        # With more lanes than workers, a lane that waits for the clock does not leave a worker idle.
        suits = math.ceil(_LANES_PER_WORKER * workers)
        if workers > lanes:
            text += f": {workers - lanes} workers will be idle; study.lanes={suits} in a new study would keep all busy"
        elif workers > 1 and lanes < suits:
            text += f" (study.lanes={suits} in a new study would keep the workers busier)"
        _say(text)

    def progress(self, study: PreparedStudy, record: Record) -> Progress:
        """Return the observer that shows the trials."""
        if not self._has_trials:
            return super().progress(study, record)
        return TerminalProgress(study, record.history(), seconds_spent(record))

    def conclude(self, study: PreparedStudy, ended: Ended) -> None:
        """Print the winner and the path of the report."""
        view = ended.view
        if view.further_trained:
            trials = ", ".join(map(str, view.further_trained))
            _say(f"after the search, these trials were fully trained, to {study.full_amount}: {trials}")
        print()
        for line in summary_lines(view):
            print(line, flush=True)
        _print_times(study, view.cost or {})
        if not ended.is_tracked:
            _say(f"MLflow lacks data of this study; send these data later with `hpo sync {view.reference}`")


def _labels_text(parts: Iterable[Mapping[str, Any]]) -> str:
    """Return a text with the share of each label in all labelled examples, such as `; labels: pos 67%, neg 33%`.

    The text is empty if the examples have no labels, or more than 5 different labels.
    """
    labels = Counter[str]()
    for part in parts:
        labels.update(part["labels"] or {})
    if not 0 < len(labels) <= _MOST_LABELS:
        return ""
    shares = (f"{label} {count / labels.total():.0%}" for label, count in labels.most_common())
    return f"; labels: {', '.join(shares)}"


def _say(text: str) -> None:
    """Print a line without control characters, because the text may come from another user's study."""
    print(printable(text), flush=True)


def _print_times(study: PreparedStudy, cost: Mapping[str, Any]) -> None:
    """Print the time that a search took on simulated workers.

    If there were several workers, and all workers together were idle for more than 40 % of their time, also print this
    percentage.
    """
    dispatch = study.config.dispatch
    if cost.get("wall_seconds") is None:
        return
    if dispatch.type.has_own_time:
        _say(
            f"{dispatch.name}: {format_count(dispatch.workers or 1, 'worker*')} took {cost['wall_seconds']:,.0f} s for "
            f"{cost['training_seconds']:,.0f} s of training; the report's section 'Cost' has the best score over time"
        )
    if (dispatch.workers or 1) > 1 and cost["idle_share"] > _MUCH_IDLE:
        _say(f"workers were idle {cost['idle_share']:.0%} of the time: see the timeline in the report")
