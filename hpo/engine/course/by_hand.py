"""Joins the points that hands gave to a search to what its strategy proposes."""

from collections import deque
from collections.abc import Collection, Iterable, Sequence

from hpo.engine.record.record import Given
from hpo.engine.space.space import point_key
from hpo.engine.trials.trial import Proposal


def joined(
    proposals: Sequence[Proposal], first: int, given: Iterable[Given], tried: Collection[str], waits: bool
) -> Sequence[Proposal]:
    """Return a proposal with the points that hands gave, each before what was left of it when the point came.

    So the answer is the same whether a point came before the proposal was made, or while its trials were opened. What
    came after its last trial was opened joins the next; so it does where earlier trials are trained further.

    Args:
        proposals: what the strategy proposes.
        first: number of its first trial.
        given: the points in the order in which they came.
        tried: keys of the points tried before.
        waits: whether the strategy, if it proposes nothing, waits for pending trials; else it has ended.
    """
    if any(proposal.continues is not None for proposal in proposals) or (waits and not proposals):
        return proposals
    # A strategy that trains by amounts starts them on its first rung, as its own.
    amount = proposals[0].amount if proposals else None
    left, whole = deque(proposals), list[Proposal]()
    for each in given:
        key = point_key(each.point)
        if key in tried:
            continue
        while left and first + len(whole) < each.after:
            whole.append(left.popleft())
        if (proposals and not left) or first + len(whole) < each.after:
            break
        if all(point_key(proposal.point) != key for proposal in whole):
            whole.append(Proposal(each.point, amount))
            left = deque(proposal for proposal in left if point_key(proposal.point) != key)
    return [*whole, *left]
