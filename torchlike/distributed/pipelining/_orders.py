"""Who does what when: for each rank a list of forwards and backwards of parts of the batch."""

from collections.abc import Sequence
from typing import NamedTuple

FORWARD, BACKWARD = "F", "B"


class Action(NamedTuple):
    """A forward or backward of a stage for a part of the batch."""

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
