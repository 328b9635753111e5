"""Who does what when: for each rank a list of forwards and backwards of parts of the batch."""

from collections.abc import Sequence
from typing import NamedTuple

FORWARD, BACKWARD = "F", "B"
INPUTS, WEIGHTS = "I", "W"  # the two halves of a backward: of what a stage takes, and of everything else


class Action(NamedTuple):
    """A forward or backward, or half of one, of a stage for a part of the batch."""

    kind: str
    stage: int
    part: int


def all_then_back(stages: Sequence[int], parts: int) -> list[Action]:
    """All forwards, stage by stage, then all backwards: GPipe, and for several stages of a rank breadth first.

    >>> [a.kind + str(a.part) for a in all_then_back([0], 2)]
    ['F0', 'F1', 'B0', 'B1']
    """
    forth = [Action(FORWARD, stage, part) for stage in stages for part in range(parts)]
    return forth + [Action(BACKWARD, stage, part) for stage in reversed(stages) for part in range(parts)]


def one_forth_one_back(stage: int, stages: int, parts: int) -> list[Action]:
    """As few parts under way as keep all ranks busy: some forwards, then in turn a forward and a backward.

    >>> [a.kind + str(a.part) for a in one_forth_one_back(1, 3, 4)]
    ['F0', 'F1', 'B0', 'F2', 'B1', 'F3', 'B2', 'B3']
    """
    ahead = min(parts, stages - stage)
    order = [Action(FORWARD, stage, part) for part in range(ahead)]
    for part in range(parts):
        order.append(Action(BACKWARD, stage, part))
        if part + ahead < parts:
            order.append(Action(FORWARD, stage, part + ahead))
    return order


def interleaved(rank: int, ranks: int, stages: int, parts: int) -> list[Action]:
    """The order of a rank that has every ``ranks``-th stage, when all ranks prefer backwards to forwards.

    Found by running through all ranks' actions in steps of one action each: what stands later never waits for what
    stands before it on any rank.
    """
    done: set[Action] = set()
    orders: list[list[Action]] = [[] for _ in range(ranks)]
    while sum(map(len, orders)) < 2 * stages * parts:
        chosen = [_next(own, ranks, stages, parts, done) for own in range(ranks)]
        for own, action in enumerate(chosen):
            if action is not None:
                orders[own].append(action)
                done.add(action)
    return orders[rank]


def _next(rank: int, ranks: int, stages: int, parts: int, done: set[Action]) -> Action | None:
    """What a rank does, given what has been done by all."""
    own = range(rank, stages, ranks)
    for part in range(parts):
        for stage in reversed(own):
            action = Action(BACKWARD, stage, part)
            after = Action(BACKWARD, stage + 1, part) if stage + 1 < stages else Action(FORWARD, stage, part)
            if action not in done and after in done and Action(FORWARD, stage, part) in done:
                return action
    under_way = sum(a.kind == FORWARD for a in done if a.stage in own) - sum(
        a.kind == BACKWARD for a in done if a.stage in own
    )
    if under_way >= stages + (len(own) - 1) * ranks:
        return None
    for begin in range(0, parts, ranks):  # groups of as many parts as ranks, a stage of the rank after the other
        for stage in own:
            for part in range(begin, min(begin + ranks, parts)):
                action = Action(FORWARD, stage, part)
                if action not in done and (stage == 0 or Action(FORWARD, stage - 1, part) in done):
                    return action
    return None


def around(ranks: int, stages: int) -> dict[int, int]:
    """The rank of each stage where they go round the ranks.

    >>> around(2, 4)
    {0: 0, 1: 1, 2: 0, 3: 1}
    """
    return {stage: stage % ranks for stage in range(stages)}


def there_and_back(ranks: int, stages: int) -> dict[int, int]:
    """The rank of each stage where they go along a V: the first and the last are on the same.

    >>> there_and_back(2, 4)
    {0: 0, 1: 1, 2: 1, 3: 0}
    """
    return {stage: min(stage % (2 * ranks), 2 * ranks - 1 - stage % (2 * ranks)) for stage in range(stages)}


def without_bubbles(owners: dict[int, int], parts: int, in_turns: bool = False) -> dict[int, list[Action]]:
    """The order of each rank where gradients of weights fill the time in which nothing else can be done.

    Found by running through all ranks' actions in steps of one action each, as above. ``in_turns``: a forward follows
    a backward where both can be done.

    >>> [a.kind + str(a.part) for a in without_bubbles({0: 0, 1: 1}, 2)[1]]
    ['F0', 'I0', 'F1', 'I1', 'W0', 'W1']
    """
    done: set[Action] = set()
    orders: dict[int, list[Action]] = {rank: [] for rank in sorted({*owners.values()})}
    while sum(map(len, orders.values())) < 3 * len(owners) * parts:
        chosen = {rank: _best(order, rank, owners, parts, done, in_turns) for rank, order in orders.items()}
        for rank, action in chosen.items():
            if action is not None:
                orders[rank].append(action)
                done.add(action)
    return orders


def _best(
    order: list[Action], rank: int, owners: dict[int, int], parts: int, done: set[Action], in_turns: bool
) -> Action | None:
    own = [stage for stage, owner in owners.items() if owner == rank]
    kinds = [INPUTS, FORWARD]
    if in_turns and order and order[-1].kind == INPUTS:
        kinds.reverse()
    for kind in kinds:
        for stage in reversed(own):
            number = sum(a.kind == kind and a.stage == stage for a in order)
            action = Action(kind, stage, number)
            if number < parts and _is_possible(action, owners, done) and not _is_early(action, own, order, owners):
                return action
    late = [a._replace(kind=WEIGHTS) for a in order if a.kind == INPUTS]
    return next((a for a in late if a not in done), None)


def _is_possible(action: Action, owners: dict[int, int], done: set[Action]) -> bool:
    """Whether what an action needs was there after the last step."""
    kind, stage, part = action
    if kind == FORWARD:
        return stage == 0 or Action(FORWARD, stage - 1, part) in done
    last = stage + 1 == len(owners)
    return Action(FORWARD, stage, part) in done and (last or Action(INPUTS, stage + 1, part) in done)


def _is_early(action: Action, own: list[int], order: list[Action], owners: dict[int, int]) -> bool:
    """Whether as many parts as keep all ranks busy are under way; parts that are, go on to a rank's other stages."""
    if action.kind != FORWARD or action.stage != own[0]:
        return False
    begun, ended = (sum(a.kind == kind and a.stage == own[0] for a in order) for kind in (FORWARD, WEIGHTS))
    return begun - ended >= len(owners)
