"""Opens trials: first those in the record, then new ones from the points that the strategy proposes."""

from collections import deque
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial

from hpo.engine.schedule.rules import Rules, is_counted
from hpo.engine.strategies.strategy import Strategy
from hpo.errors import StudyError
from hpo.trials.history import History
from hpo.trials.record.record import Record
from hpo.trials.record.user_actions import AddedPoint
from hpo.trials.space.space import point_key
from hpo.trials.trial import Proposal, Trial


class Proposer:
    """Opens trials one by one; when all trials of a round are open, asks the strategy for the next round.

    A round is the list of points that the strategy proposes in one call.

    Each opened trial has a list `Trial.learned`: the numbers of the trials that became known to the strategy since the
    previous opening. The record stores this list, so that a continued search can repeat the strategy's decisions. If
    results have no influence on the search, the list is empty.

    A continued search first opens the recorded trials again. Then it asks the strategy again for the last recorded
    round, and opens the points of this round that are not in the record yet. If the strategy's first points are not the
    recorded points, the search raises StudyError.

    Attributes:
        known: the trials that the strategy knows, with the imported trials first.
        num_opened: the number of trials opened so far, including the recorded trials that were opened again.
        is_spent: whether the next trial would exceed the budget.
        has_gained: whether `Rules.stop_without_gain` lets the search continue.
        has_reached: whether a known trial has reached the target, so that the search must end.
    """

    def __init__(self, rules: Rules, record: Record, budget: int) -> None:
        self._rules = rules
        self._strategy = rules.strategy
        self._record = record
        self._left = budget
        self._recorded = record.trials()
        self._script = [trial.learned for trial in self._recorded] + list(rules.script[len(self._recorded) :])
        self._added = record.added
        # The numbers of the failed trials that are still to be retried; a retry uses no budget.
        self._to_retry = {added.retry_of for added in self._added} - {None}
        self.known = History(rules.imported)
        # By number: the trials that were opened and are not known yet, and those of them that have ended.
        self._pending: dict[int, Trial] = {}
        self._ended: dict[int, Trial] = {}
        self._learned: list[int] = []
        # The last round: its proposals that are not open yet; a function that returns all its proposals, together with
        # the points that users have added by then; and the number of its first trial.
        self._proposals: deque[Proposal] = deque()
        self._whole: Callable[[], Sequence[Proposal]] = tuple
        self._first = 0
        self._round = -1
        self.num_opened = 0
        self.is_spent = budget == 0 and not self._to_retry
        self.has_gained = True
        self.has_reached = False
        self._is_reached = False
        # The known and pending trials at the last recorded round, and the number of its first trial. None = the
        # strategy has been asked for this round again, or the record has no round.
        self._last_question: tuple[History, tuple[Trial, ...], int] | None = None
        self._waits_with = -1

    def add_point(self, added: AddedPoint) -> None:
        """Add a user's point, which the search tries before the strategy's next new point.

        Trials that continue earlier trials may be opened before the user's point.
        """
        self._record.write_added([added])
        self._added.append(added)
        self._waits_with = -1
        if added.retry_of is not None:
            self._to_retry.add(added.retry_of)
            self.is_spent = False
        if self._proposals:
            self._proposals = deque(self._whole()[self.num_opened - self._first :])

    def end(self, trial: Trial) -> None:
        """Keep a trial that has ended, so that the strategy can learn from this trial before the next round."""
        self._ended[trial.number] = trial

    def open_next(self) -> Trial | None:
        """Open the next trial and return it.

        Return None if no trial can be opened now: the strategy waits for results or is finished, or the search must
        end.
        """
        number = self.num_opened
        if number < len(self._recorded):
            if not self._learn(number):
                return None
            trial = self._recorded[number]
            if trial.round != self._round:
                self._last_question, self._round = (self.known, self._open_trials, number), trial.round
        else:
            if self._last_question is not None:
                self._proposals.extend(self._rest_of_last(*self._last_question))
                self._last_question = None
            if self._proposals and (self._rules.judges or self._rules.ends_by_scores):
                # Rules compare a trial with the trials known when it is opened, so learn before every trial, not only
                # before a round.
                if not self._learn(number):
                    return None
            elif not self._proposals and not self._propose_next(number):
                return None
            if self._left <= 0 and is_counted(self._proposals[0], self._rules.counts):
                self.is_spent = True
                return None
            learned = self._learned if self._records_learning else ()
            trial = self._record.open_trial(self._round, self._proposals.popleft(), learned, self._rules.cost_of)
        self._learned = []
        self._pending[number] = trial.as_opened
        self.num_opened += 1
        self._left -= is_counted(trial, self._rules.counts)
        self._to_retry.discard(trial.retry_of)
        # If the budget counts all trials, the end of the budget is known without asking the strategy.
        is_all = self._rules.counts == "trials" and self.num_opened >= len(self._recorded) and not self._to_retry
        self.is_spent = self._left <= 0 and is_all
        return trial

    def _propose_next(self, number: int) -> bool:
        """Ask the strategy for points, and return whether there are new points.

        If the search must first wait for results, or must end, return False without asking.
        """
        if self._strategy.learns == "by_round" and len(self._ended) < len(self._pending):
            return False
        if not self._learn(number) or len(self.known) == self._waits_with:
            return False
        self._proposals.extend(self._proposed(self.known, self._open_trials, number))
        self._waits_with = -1 if self._proposals else len(self.known)
        self._round += bool(self._proposals)
        return bool(self._proposals)

    def _proposed(self, known: History, pending: Sequence[Trial], first: int) -> Sequence[Proposal]:
        """Return the next round, with the users' points; raise StudyError if a proposed point is not in the space."""
        proposals, space = propose(self._strategy, known, pending), self._rules.space
        for proposal in proposals:
            if space is not None and not space.contains(proposal.point):
                raise StudyError(
                    f"strategy: proposed {dict(proposal.point)}, which is not in the space; correct the strategy "
                    f"(`hpo.testing.check_strategy` finds this error) and start a new study; all trials are saved"
                )
        self._first = first
        tried, retried = known.tried(pending), set[int | None]()
        if any(each.retry_of is not None for each in self._added):
            retried = {trial.retry_of for trial in (*known, *pending) if trial.number >= 0}
        # If the record does not name the learned trials, nobody can tell later which trials were pending. Then an empty
        # round means that the strategy is finished.
        self._whole = partial(
            self._with_added_points, proposals, first, tried, retried, bool(pending) and self._records_learning
        )
        return self._whole()

    def _with_added_points(
        self,
        proposals: Sequence[Proposal],
        first: int,
        tried: Collection[str],
        retried: Collection[int | None],
        waits: bool,
    ) -> Sequence[Proposal]:
        """Return the strategy's proposals for a round, together with the points added by users.

        An added point comes directly after the trials that had been opened when the user added the point. The record
        stores how many trials had been opened, so a continued search gets the same round again. In three cases, an
        added point waits for a later round:

        - All trials of this round had been opened when the user added the point.
        - A trial of this round continues an earlier trial, and the point is not a retry.
        - The strategy proposes no points, because it waits for pending trials (`waits`).
        """
        if waits and not proposals:
            return proposals
        # In a strategy with rungs, added points start on the first rung, as the strategy's own points do.
        takes_new = all(proposal.continues is None for proposal in proposals)
        amount = proposals[0].amount if proposals else None
        left, whole = deque(proposals), list[Proposal]()
        for each in self._added:
            key, is_retry = point_key(each.point), each.retry_of is not None
            if each.retry_of in retried if is_retry else (not takes_new or key in tried):
                continue
            while left and first + len(whole) < each.after:
                whole.append(left.popleft())
            # When the strategy proposes nothing more, each added point is a separate round.
            if (not left and (proposals or whole)) or first + len(whole) < each.after:
                break
            if each.retry_of is not None:
                # The failed trial may belong to this round. A retry trains from the start, because the error may
                # have damaged the checkpoint.
                place = each.retry_of - first
                failed = whole[place] if place >= 0 else self._record.trial(each.retry_of)
                whole.append(Proposal(failed.point, failed.amount, retry_of=each.retry_of))
            elif all(point_key(proposal.point) != key for proposal in whole):
                whole.append(Proposal(each.point, amount))
                left = deque(proposal for proposal in left if point_key(proposal.point) != key)
        return [*whole, *left]

    @property
    def _records_learning(self) -> bool:
        """Whether the record stores `Trial.learned` for each trial."""
        return self._rules.is_ordered or self._strategy.learns == "by_round"

    @property
    def _open_trials(self) -> tuple[Trial, ...]:
        return tuple(self._pending.values())

    def _learn(self, number: int) -> bool:
        """Add ended trials to `known` before trial `number` is opened; return False if the search must wait or end."""
        numbers = list(self._ended if number >= len(self._script) else self._script[number])
        if any(learned not in self._ended for learned in numbers):
            return False
        if self._strategy.learns != "by_trial" or self._rules.is_ask_and_tell:
            # The order of these trials has no influence, or (in ask-and-tell) the record does not hold it.
            numbers.sort()
        added = [self._ended.pop(learned) for learned in numbers]
        self.known = self.known.extended(added)
        for learned in numbers:
            del self._pending[learned]
        self._learned += numbers
        limit, target = self._rules.stop_without_gain, self._rules.target
        self._is_reached |= target is not None and any(map(target.is_reached_by, added))
        self.has_reached = self._is_reached and number >= len(self._recorded)
        if limit is not None and number >= len(self._recorded):
            without = min(self.known.num_without_gain, len(self.known) - len(self._rules.imported))
            # When this limit has ended the search, later results of running trials must not continue it.
            self.has_gained &= without < limit
        return self.has_gained and not self.has_reached

    def _rest_of_last(self, known: History, pending: Sequence[Trial], first: int) -> Sequence[Proposal]:
        """Return the unopened points of the last recorded round; raise StudyError if the strategy has changed."""
        begun, proposals = self._recorded[first:], self._proposed(known, pending, first)
        for trial, proposal in zip(begun, proposals, strict=False):
            if trial.key != point_key(proposal.point) or trial.amount != proposal.amount:
                amount = " with another amount" if trial.amount != proposal.amount else ""
                raise StudyError(
                    f"record: trial {trial.number} has the point {trial.key}, but the strategy now proposes "
                    f"{point_key(proposal.point)}{amount}; the strategy or one of its libraries has changed: "
                    f"start a new study"
                )
        if len(begun) > len(proposals):
            raise StudyError(
                f"record: round {begun[0].round} has {len(begun)} trials, but the strategy now proposes "
                f"{len(proposals)} for it; the strategy or one of its libraries has changed: start a new study"
            )
        return proposals[len(begun) :]


def propose(strategy: Strategy, known: History, pending: Sequence[Trial] = ()) -> list[Proposal]:
    """Return the strategy's next proposals; turn a bare point into the proposal of a full training.

    Raises:
        StudyError: the strategy did not return a list of points.
    """
    proposals = strategy.propose(known, pending)
    if not isinstance(proposals, Sequence) or not all(isinstance(p, Proposal | Mapping) for p in proposals):
        raise StudyError(f"strategy: propose must return a list of points, each a dict, given {proposals!r}")
    return [p if isinstance(p, Proposal) else Proposal(p) for p in proposals]
