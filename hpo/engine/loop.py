"""The loop: asks the strategy for a round, runs it, records it, and repeats until the budget ends."""

from collections.abc import Callable, Sequence

from hpo.engine.dispatch.dispatcher import Dispatcher
from hpo.engine.observer import Observer
from hpo.engine.race import Race
from hpo.engine.record.record import Record
from hpo.engine.round import Round
from hpo.engine.space.space import point_key
from hpo.engine.strategies.strategy import Strategy
from hpo.engine.training.payload import Task
from hpo.engine.trials.history import History
from hpo.engine.trials.trial import Proposal, Trial
from hpo.errors import StudyError


def search(
    strategy: Strategy,
    record: Record,
    dispatcher: Dispatcher,
    tasks_of: Callable[[Trial], Sequence[Task]],
    num_trials: int,
    observers: Sequence[Observer] = (),
    imported: Sequence[Trial] = (),
    race: Race | None = None,
) -> History:
    """Run the study to its budget and return all its trials.

    A round that was started earlier, by a driver that died or under a smaller budget, is finished first. The
    strategy only sees whole rounds, so the trials do not depend on the workers.

    Args:
        strategy: proposes the points.
        record: holds what has happened so far; everything is written to it.
        dispatcher: runs the tasks.
        tasks_of: returns the tasks of a trial, one per fold and repeat.
        num_trials: the budget; the round that crosses it is cut.
        observers: are notified of events.
        imported: finished trials of another study; the strategy learns from them, and they use no budget.
        race: decides which trials get no further folds; None = all trials get all folds.

    Raises:
        StudyError: the strategy no longer proposes what the record holds.
    """
    trials = record.trials()
    round_number = trials[-1].round if trials else 0
    done = History(trial for trial in trials if trial.round < round_number)
    known = History([*imported, *done])
    begun = trials[len(done) :]
    if race is not None:
        for trial in done:
            race.enter(trial)
    while len(done) < num_trials:
        proposals = propose(strategy, known)[: num_trials - len(done)]
        _refuse_other_proposals(begun, proposals)
        if not proposals:
            break
        this_round = Round(round_number, begun, proposals, record, tasks_of, observers, race)
        finished = this_round.run(dispatcher)
        done, known = done.extended(finished), known.extended(finished)
        if race is not None:
            for trial in finished:
                race.enter(trial)
        begun = []
        round_number += 1
    return done


def is_over(strategy: Strategy, record: Record, num_trials: int, imported: Sequence[Trial] = ()) -> bool:
    """Return whether nothing is left to run: every trial is finished, and the budget or the space is exhausted."""
    trials = record.trials()
    if any(trial.state == "running" for trial in trials):
        return False
    if len(trials) >= num_trials:
        return True
    # The last round may be incomplete, because of a smaller budget or a driver that died between two trials.
    last_round = trials[-1].round if trials else 0
    earlier = [trial for trial in trials if trial.round < last_round]
    if len(trials) < len(earlier) + len(strategy.next_round(History([*imported, *earlier]))):
        return False
    return not strategy.next_round(History([*imported, *trials]))


def propose(strategy: Strategy, history: History) -> list[Proposal]:
    """Return the strategy's next round; a bare point is a proposal to train it to its end."""
    return [p if isinstance(p, Proposal) else Proposal(p) for p in strategy.next_round(history)]


def _refuse_other_proposals(begun: Sequence[Trial], proposals: Sequence[Proposal]) -> None:
    for trial, proposal in zip(begun, proposals, strict=False):
        if trial.key != point_key(proposal.point) or trial.amount != proposal.amount:
            raise StudyError(
                f"record: trial {trial.number} holds {trial.key}, the strategy now proposes "
                f"{point_key(proposal.point)}; the strategy or a library that it uses has changed: start a new "
                f"study"
            )
    if len(begun) > len(proposals):
        raise StudyError(
            f"record: round {begun[0].round} holds {len(begun)} trials, the strategy now proposes {len(proposals)}; "
            f"restore the old value of study.trials, or start a new study"
        )
