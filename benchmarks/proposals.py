"""Time of our strategies per proposed point, when 10,000 trials are finished.

Each strategy searches the table of 62,208 networks (../shared/data/tables) until it has 10,000 trials; then its next
proposal is requested repeatedly, each time from a strategy object that has made one before, as in a search. The
shortest time divided by the number of points is printed, with the goal of 1 ms beside it. It is CPU time: other work on
the machine does not count.
"""

import argparse
import gc
import time
from typing import Any

import yaml
from search_quality import CONF, space_of
from search_tables import Measured, load

from hpo.engine.strategies import make_strategy
from hpo.engine.trials.history import History
from hpo.engine.trials.trial import Proposal, Trial

STRATEGIES = (
    "grid",
    "random",
    "shifting_window",
    "shifting_window_literal",
    "evolutionary",
    "evolutionary_plain",
    "successive_halving",
    "hyperband",
)
CHANGES: dict[str, dict[str, Any]] = {
    "grid": {"max_points": 100_000},
    "successive_halving": {"max_amount": 27},
    "hyperband": {"max_amount": 27},
}
GOAL_MILLISECONDS = 1.0


def new_strategy(name: str) -> Any:
    """Return a strategy on the space of the table, with the settings of its file in conf/strategy."""
    settings = yaml.safe_load((CONF / f"{name}.yaml").read_text()) | CHANGES.get(name, {})
    return make_strategy(settings, space_of("protein"), seed=0)


def searched(name: str, trials: int) -> History:
    """Return the history of a search that was stopped after this many trials."""
    table, strategy = load("protein"), new_strategy(name)
    history = History()
    number = 0
    while len(history) < trials:
        proposals = strategy.propose(history, [])[: trials - len(history)]
        places = range(len(history), len(history) + len(proposals))
        history = history.extended(
            [finished(table, place, number, p) for place, p in zip(places, proposals, strict=True)]
        )
        number += 1
    return history


def finished(table: Measured, place: int, number: int, proposal: Any) -> Trial:
    """Return the trial of a proposal; its loss is from the table, for any amount of training."""
    given = proposal if isinstance(proposal, Proposal) else Proposal(proposal)
    loss = table.losses[tuple(values.index(given.point[key]) for key, values in table.values.items())]
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


def milliseconds(name: str, history: History, turns: int) -> tuple[int, float]:
    """Return the number of points proposed next, and the milliseconds for each in the fastest turn."""
    fastest = float("inf")
    count = 0
    for _ in range(turns):
        strategy = new_strategy(name)
        strategy.propose(history, [])
        gc.collect()
        start = time.process_time()
        count = len(strategy.propose(history, []))
        fastest = min(fastest, time.process_time() - start)
    return count, 1000 * fastest / count


def main() -> None:
    """Measure and print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--trials", type=int, default=10_000, help="finished trials; default 10,000")
    parser.add_argument("--turns", type=int, default=7, help="turns of which the fastest counts; default 7")
    arguments = parser.parse_args()
    print(f"| strategy | points proposed | ms a point | below {GOAL_MILLISECONDS:g} ms |\n|---|---|---|---|")
    for name in STRATEGIES:
        count, fastest = milliseconds(name, searched(name, arguments.trials), arguments.turns)
        verdict = "holds" if fastest < GOAL_MILLISECONDS else "fails"
        print(f"| {name} | {count} | {fastest:.3f} | {verdict} |", flush=True)


if __name__ == "__main__":
    main()
