"""Numbers that change from call to call, where a compiled function looks for them in containers, or by identity."""

import collections

import pytest
from guard_kit import x2
from stale_kit import never_stale

import torchlike as torch
from torchlike import nn


class Counted:
    def __init__(self, found):
        self.n, self.k, self.found = 0, 3, found


PLACES = [
    {2: 5.0, 4: 1.0}, collections.Counter([2, 4, 4]), collections.OrderedDict({2: 5.0}),
    collections.defaultdict(int, {2: 1}), [2, 4], (2, 4), {2, 4}, frozenset((2, 4)),
    range(2, 5, 2), collections.deque([2, 4]),
]  # fmt: skip
ASKED = {
    "within": lambda x, s: x * (10 if s.n in s.found else 1),
    "not_within": lambda x, s: x if s.n not in s.found else x * 10,
    "by_its_method": lambda x, s: x * (10 if s.found.__contains__(s.n) else 1),
    "in_a_pair": lambda x, s: x * (10 if (s.n, s.n) in {(v, v): 1 for v in s.found} else 1),
    "in_a_generator": lambda x, s: x * (10 if any(v == s.n for v in s.found) else 1),
}
OF_DICTS = {
    "get": lambda x, s: x * s.found.get(s.n, 9),
    "subscript": lambda x, s: x * s.found[s.n] if s.n in s.found else x * 3,
    "pop": lambda x, s: x * s.found.pop(s.n, 3),
    "setdefault": lambda x, s: x * s.found.setdefault(s.n, 3) + len(s.found),
    "set": lambda x, s: (s.found.__setitem__(s.n, 7), x * sum(s.found) * len(s.found))[1],
    "update": lambda x, s: (s.found.update({s.n: 4}), x * sum(s.found.values()))[1],
    "is": lambda x, s: x * (2 if s.n is s.k else 3),
    "is_not": lambda x, s: x * (2 if s.k is not s.n else 3),
    "is_none": lambda x, s: x * (2 if s.n is None else s.n),
}


def _counting(found, f):
    def story(wrap):
        s = Counted(found.copy() if isinstance(found, dict) else found)

        def counted(x):
            s.n += 1
            return f(x, s)

        run = wrap(counted)
        return [run(x2()) for _ in range(6)]

    return story


@pytest.mark.parametrize("found", PLACES, ids=lambda found: type(found).__name__)
@pytest.mark.parametrize("name", ASKED)
def test_whether_a_container_holds_it(found, name):
    never_stale(_counting(found, ASKED[name]))


@pytest.mark.parametrize("name", OF_DICTS)
def test_what_a_dict_holds_for_it(name):
    never_stale(_counting({2: 1.0, 4: 5.0}, OF_DICTS[name]))


SCHEDULERS = {
    "ExponentialLR": {"gamma": 0.5},
    "StepLR": {"step_size": 2},
    "MultiStepLR": {"milestones": [2, 4]},
    "CosineAnnealingLR": {"T_max": 5},
    "LambdaLR": {"lr_lambda": lambda epoch: 0.9**epoch},
    "LinearLR": {},
    "PolynomialLR": {},
}


@pytest.mark.parametrize("name", SCHEDULERS)
def test_schedulers_stepped_inside(name):
    def story(wrap):
        w = nn.Parameter(x2())
        optimizer = torch.optim.SGD([w], lr=1.0, momentum=0.5)
        scheduler = getattr(torch.optim.lr_scheduler, name)(optimizer, **SCHEDULERS[name])

        def step(x):
            optimizer.zero_grad()
            (w * x).sum().backward()
            optimizer.step()
            scheduler.step()
            return w.detach().clone()

        run = wrap(step)
        return [run(x2()) for _ in range(6)], scheduler.get_last_lr(), scheduler.last_epoch

    never_stale(story)
