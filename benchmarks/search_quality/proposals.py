"""Time of our strategies per proposed point, when 10,000 trials are finished.

Each strategy searches until it has 10,000 trials, on ranges, where every point is new, and on the table of 62,208
networks (../shared/data/tables), where it has tried most of what is near the best by then, and draws much in vain. Then
its next proposals are requested, each when the one before has ended, from a strategy object that has made one before,
as in a search. The shortest time divided by the number of points is printed, with the goal of 1 ms beside it. It is CPU
time: other work on the machine does not count.

`tpe`, `gp` and `cma_es` are Optuna's samplers, whose own time grows with the trials. They are compared with Optuna
alone, which is asked for a trial by `study.ask` in memory, after the same random trials on the ranges.
"""

import argparse
import gc
import time
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import optuna

from benchmarks.shared.places import strategy_settings
from benchmarks.shared.tables import load, ranks_of, space_of
from hpo.engine.strategies import make_strategy
from hpo.engine.strategies.strategy import next_round
from hpo.trials.history import History
from hpo.trials.space.reader import space_from_dict
from hpo.trials.trial import Proposal, Trial

STRATEGIES = (
    "grid",
    "random",
    "shifting_window",
    "shifting_window_literal",
    "evolutionary",
    "evolutionary_plain",
    "successive_halving",
    "hyperband",
    "one_epoch",
    "asha",
    "qmc",
)
CHANGES: dict[str, dict[str, Any]] = {
    "grid": {"max_points": 100_000},
    "successive_halving": {"max_amount": 27},
    "hyperband": {"max_amount": 27},
    "one_epoch": {"max_amount": 27},
    "asha": {"max_amount": 27},
}
GOAL_MILLISECONDS = 1.0
# Optuna's samplers, and after how many trials.
SAMPLERS: dict[str, tuple[Callable[..., optuna.samplers.BaseSampler], Sequence[int]]] = {
    "tpe": (optuna.samplers.TPESampler, (1_000, 10_000)),
    "gp": (optuna.samplers.GPSampler, (100, 300)),
    "cma_es": (optuna.samplers.CmaEsSampler, (1_000, 3_000)),
}
# In a row, as a search does: a single proposal after a pause pays for the processor's caches as well.
ASKED = 10
RANGES = {f"x{place}": {"low": 1e-5, "high": 1.0, "log": place < 3} for place in range(6)}
# Grid has no ranges.
SPACES = {"ranges": STRATEGIES[1:], "table": STRATEGIES}


def new_strategy(name: str, space: str) -> Any:
    """Return a strategy on ranges or on the space of the table, with the settings of its file in conf/strategy."""
    settings = strategy_settings(name) | CHANGES.get(name, {})
    return make_strategy(settings, space_from_dict(RANGES) if space == "ranges" else space_of("protein"), seed=0)


def searched(name: str, space: str, trials: int) -> History:
    """Return the history of a search that was stopped after this many trials."""
    strategy = new_strategy(name, space)
    history = History()
    while len(history) < trials:
        history = ended(space, history, strategy.propose(history, [])[: trials - len(history)])
    return history


def ended(space: str, history: History, proposals: Sequence[Any]) -> History:
    """Return the history after the trials of a proposal have ended."""
    number = next_round(history[-1:])
    places = range(len(history), len(history) + len(proposals))
    return history.extended([finished(space, place, number, p) for place, p in zip(places, proposals, strict=True)])


def finished(space: str, place: int, number: int, proposal: Any) -> Trial:
    """Return the trial of a proposal, with the same loss for any amount of training: the table's, or the distance."""
    given = proposal if isinstance(proposal, Proposal) else Proposal(proposal)
    if space == "ranges":
        loss = sum(abs(value - 0.1) for value in given.point.values())
    else:
        table = load("protein")
        loss = table.losses[ranks_of(given.point, table.values)]
    return Trial(
        place,
        number,
        given.point,
        state="complete",
        score=loss,
        loss=loss,
        amount=given.amount,
        trained=given.trained,
        continues=given.continues,
    )


def milliseconds(name: str, space: str, history: History, turns: int) -> tuple[int, float]:
    """Return the number of points proposed next, and the milliseconds for each in the fastest turn."""
    fastest, count = float("inf"), 0
    for _ in range(turns):
        strategy, known, spent, count = new_strategy(name, space), History(history), 0.0, 0
        strategy.propose(known, [])
        gc.collect()
        for _ in range(ASKED):
            start = time.process_time()
            proposals = strategy.propose(known, [])
            spent += time.process_time() - start
            count += len(proposals)
            known = ended(space, known, proposals)
        fastest = min(fastest, spent / count)
    return round(count / ASKED), 1000 * fastest


def milliseconds_alone(name: str, trials: int) -> float:
    """Return the milliseconds that Optuna alone takes for a trial, after so many random ones."""
    study = optuna.create_study(sampler=optuna.samplers.RandomSampler(seed=0))
    for _ in range(trials):
        ask_and_tell(study)
    study.sampler = SAMPLERS[name][0](seed=0)
    ask_and_tell(study)
    start = time.process_time()
    for _ in range(ASKED):
        ask_and_tell(study)
    return 1000 * (time.process_time() - start) / ASKED


def ask_and_tell(study: optuna.Study) -> None:
    """Let a study of Optuna's own make and finish a trial on the ranges."""
    trial = study.ask()
    point = {
        key: trial.suggest_float(key, limits["low"], limits["high"], log=limits["log"])
        for key, limits in RANGES.items()
    }
    study.tell(trial, sum(abs(value - 0.1) for value in point.values()))


def main() -> None:
    """Measure and print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--trials", type=int, default=10_000, help="finished trials; default 10,000")
    parser.add_argument("--turns", type=int, default=7, help="turns of which the fastest counts; default 7")
    parser.add_argument("--samplers", nargs="*", choices=SAMPLERS, default=list(SAMPLERS), help="Optuna's; default all")
    arguments = parser.parse_args()
    print(
        f"| space | strategy | points proposed | CPU ms a point | below {GOAL_MILLISECONDS:g} ms |\n" + "|---" * 5 + "|"
    )
    for space, name in ((space, name) for space, names in SPACES.items() for name in names):
        history = searched(name, space, arguments.trials)
        count, fastest = milliseconds(name, space, history, arguments.turns)
        verdict = "holds" if fastest < GOAL_MILLISECONDS else "fails"
        print(f"| {space} | {name} | {count} | {fastest:.3f} | {verdict} |", flush=True)
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
    print("\n| sampler | trials | CPU ms a point, ours | Optuna alone | ratio |\n" + "|---" * 5 + "|")
    for name, trials in ((sampler, trials) for sampler in arguments.samplers for trials in SAMPLERS[sampler][1]):
        _, ours = milliseconds(name, "ranges", searched("random", "ranges", trials), turns=1)
        alone = milliseconds_alone(name, trials)
        print(f"| {name} | {trials:,} | {ours:.1f} | {alone:.1f} | {ours / alone:.2f} |", flush=True)


if __name__ == "__main__":
    main()
