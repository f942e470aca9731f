"""What waiting costs for real: two Ray workers train 24 configurations by the clock, in rounds, and in free order.

The strategy is `evolutionary` each time, on real data (../shared/data) with early stopping. Per data set and method:
the wall time of the search, from its first task to its last outcome (Ray is up before that), the seconds of training in
it, and the share of the workers' time in which they trained. Methods propose different points, which train for
different times; so the share is what compares them. `rounds of two` is what hpo 0.1 did: two points, and no others
until both have ended.
"""

import argparse
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from cost import SETS, SPACE
from search_report import conditions, markdown

from hpo.config.composing.compose import compose_config
from hpo.config.study_config import config_from_dict
from hpo.engine.loop import search
from hpo.engine.schedule.rules import Rules
from hpo.engine.strategies.strategy import Learns, Strategy
from hpo.study.preparing.preparation import prepare_study
from hpo.trials.history import History
from hpo.trials.record.record import memory_record
from hpo.trials.space.space import Space
from hpo.trials.trial import Proposal, Trial
from hpo.workers.dispatch.dispatcher import make_dispatcher

WORKERS = 2
METHODS = ("clock, 3 lanes", "clock, 2 lanes", "rounds of two", "free")


@dataclass(frozen=True)
class InRounds:
    """Asks a strategy for two points at a time, once both of the round before have ended."""

    inner: Strategy
    learns: Learns = "by_round"

    @property
    def space(self) -> Space:
        """The space searched."""
        return self.inner.space

    @property
    def announcement(self) -> str:
        """One line for the user."""
        return f"{self.inner.announcement}, in rounds of {WORKERS}"

    def propose(self, known: History, pending: Sequence[Trial]) -> list[Proposal]:
        """Return two points, or none while any is pending."""
        points: list[Proposal] = []
        for _ in range(0 if pending else WORKERS):
            running = [Trial(len(known) + place, 0, proposal.point) for place, proposal in enumerate(points)]
            points += [p if isinstance(p, Proposal) else Proposal(p) for p in self.inner.propose(known, running)][:1]
        return points


def rules_of(rules: Rules, method: str) -> Rules:
    """Return the rules of a method."""
    if method == "rounds of two":
        return replace(rules, strategy=InRounds(rules.strategy), lanes=WORKERS)
    if method == "free":
        return replace(rules, order="free")
    return replace(rules, lanes=int(method.split()[1]))


def measured(name: str, method: str, trials: int) -> list[str]:
    """Run one search and return its row."""
    overrides = [*SETS[name], *SPACE, "split.folds=1", f"study.trials={trials}", "strategy=evolutionary", "track=none"]
    study = prepare_study(config_from_dict(compose_config("search", [*overrides, f"dispatch.workers={WORKERS}"])))
    with tempfile.TemporaryDirectory() as folder:
        data_dir = Path(folder) / "data"
        assert study.plan is not None
        study.objective.write_development_data(study.config.objective_config, study.plan.development, data_dir)
        builder = replace(study.task_builder(), data_dir=data_dir, states_dir=None, checkpoints_dir=None)
        rules = rules_of(replace(study.rules(), tasks_of=builder.tasks_of), method)
        record = memory_record(study.goal, study.layout)
        dispatcher = make_dispatcher(study.config.dispatch, {})
        try:
            while dispatcher.wait(timeout=1.0):
                pass
            began = time.monotonic()
            history = search(rules, record, dispatcher, trials)
            wall = time.monotonic() - began
        finally:
            dispatcher.close()
    best = history.best()
    assert best is not None
    trained = sum(trial.seconds for trial in history)
    return [name, method, f"{wall:.0f}", f"{trained:.0f}", f"{trained / (WORKERS * wall):.2f}", f"{best.score:.4f}"]


def main() -> None:
    """Measure and print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--trials", type=int, default=24, help="configurations a search; default 24")
    parser.add_argument("--sets", nargs="+", default=["digits", "sst2"], choices=SETS)
    parser.add_argument("--methods", nargs="+", default=list(METHODS), choices=METHODS)
    arguments = parser.parse_args()
    print(conditions() + "\n")
    rows = []
    for name in arguments.sets:
        for method in arguments.methods:
            rows.append(measured(name, method, arguments.trials))
            print(*rows[-1], sep="  ", file=sys.stderr, flush=True)
    print(markdown(["data", "method", "wall s", "training s", "busy", "best"], rows))


if __name__ == "__main__":
    main()
