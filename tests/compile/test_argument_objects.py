"""Objects and nested containers among the arguments that a function changes; see test_argument_containers."""

import collections
import dataclasses

import pytest
from container_kit import Cases, State, as_eager_code, values

CASES = Cases()
case = CASES.case


@dataclasses.dataclass(slots=True)
class Slots:
    h: object
    n: int = 0


class MyDict(dict):
    pass


class MyList(list):
    pass


@case
def ordereddict_argument(t, c):

    @c
    def f(x, d):
        d.move_to_end("a")
        d["c"] = x
        return next(iter(d.values())) + x

    got = []
    for i in range(3):
        d = collections.OrderedDict(a=t.ones(1), b=t.ones(1) * 2)
        got += [values(f(t.ones(1) * i, d)), list(d)]
    return got


@case
def in_place_on_list_element(t, c):

    @c
    def f(li):
        for i, x in enumerate(li):
            li[i] = x.add_(1)
        return sum(li)

    li = [t.zeros(1), t.ones(1)]
    a, b = li
    got = []
    for _i in range(3):
        got += [values(f(li)), values(li), li[0] is a, li[1] is b]
    return got


@case
def same_container_identity(t, c):

    @c
    def f(x, a, b):
        return x * 2 if a is b else x * 3

    li = [1]
    return [
        values(f(t.ones(1), li, [1])),
        values(f(t.ones(1), li, li)),
        values(f(t.ones(1), a=li, b=li)),
        values(f(t.ones(1), [1], [1])),
    ]


@case
def nested_same_container(t, c):

    @c
    def f(x, d):
        d["a"].append(x)
        d["n"] = d["b"]
        return x * len(d["b"])

    got = []
    for i in range(4):
        li = []
        d = {"a": li, "b": li if i % 2 else []}
        got += [values(f(t.ones(1), d)), values(d), d["n"] is d["b"]]
    return got


@case
def tuple_of_lists(t, c):

    @c
    def f(x, p):
        a, b = p
        a.append(x)
        b[0] = a
        return p

    got = []
    for i in range(3):
        a, b = ([], [0])
        r = f(t.ones(1) * i, (a, b))
        got += [values(a), values(b), b[0] is a, r[0] is a, r[1] is b]
    return got


@case
def vmap_number_into_argument(t, c):

    @c
    def f(x, li):

        def g(y):
            li.append(3)
            return y * 2

        return t.vmap(g)(x)

    got = []
    for _i in range(3):
        li = []
        got += [values(f(t.ones(2), li)), li]
    return got


@case
def checkpoint_whole_step_into_argument(t, c):
    ck = t.utils.checkpoint.checkpoint

    @c
    def f(x, li):

        def g(y):
            li.append(1)
            return y * y

        ck(g, x, use_reentrant=False).sum().backward()
        return x.grad

    got = []
    for _i in range(3):
        x = t.ones(2, requires_grad=True)
        li = []
        f(x, li)
        got += [values(x.grad), len(li)]
    return got


@case
def slots_dataclass(t, c):

    @c
    def f(x, s):
        s.h = s.h + x
        return s.h * s.n

    s = Slots(t.zeros(2), 2)
    got = []
    for _i in range(3):
        got += [values(f(t.ones(2), s)), values(s.h), s.n]
    return got


@case
def subclasses(t, c):

    @c
    def f(x, d, li):
        d["z"] = x
        li.append(x + 1)
        return x * 2

    got = []
    for _i in range(3):
        d = MyDict(a=t.ones(1))
        li = MyList([t.ones(1)])
        got += [values(f(t.ones(1), d, li)), values(d), values(li), type(d).__name__]
    return got


@case
def in_place_and_container(t, c):

    @c
    def f(li):
        li[0].mul_(2)
        li.append(li[0][:1])
        return li[0].sum()

    got = []
    for _i in range(3):
        x = t.ones(2)
        li = [x]
        got += [values(f(li)), values(li)]
        x.add_(1)
        got += [values(li)]
    return got


@case
def container_in_optimizer_step(t, c):
    lin = t.nn.Linear(2, 1, bias=False)
    with t.no_grad():
        lin.weight.fill_(1)
    opt = t.optim.SGD(lin.parameters(), lr=0.5)

    @c
    def f(x, log):
        opt.zero_grad()
        loss = lin(x).sum()
        loss.backward()
        opt.step()
        log["loss"] = loss.detach()
        log["n"] = 1
        return loss

    got = []
    log = {}
    for _i in range(4):
        got += [values(f(t.ones(2), log)), values(log), values(lin.weight)]
    return got


@case
def parameter_into_list(t, c):
    w = t.nn.Parameter(t.ones(2))

    @c
    def f(x, li):
        li.append(w)
        li.append(x)
        return x * w

    got = []
    for _i in range(3):
        x = t.ones(2)
        li = []
        f(x, li)
        got += [li[0] is w, li[1] is x, len(li)]
    return got


@case
def defaultdict_get_existing(t, c):

    @c
    def f(x, d):
        d["a"].append(x)
        return x * len(d["a"])

    got = []
    for i in range(3):
        d = collections.defaultdict(list, a=[1])
        got += [values(f(t.ones(1) * i, d)), values(dict(d))]
    return got


@case
def module_cache_argument(t, c):

    class Cache:
        def __init__(s):
            s.k = []

        def update(s, i, v):
            if len(s.k) <= i:
                s.k.append(v)
            else:
                s.k[i] = t.cat([s.k[i], v])
            return s.k[i]

    @c
    def f(x, cache):
        return cache.update(0, x).sum()

    got = []
    ca = Cache()
    for i in range(4):
        got += [values(f(t.ones(1) * i, ca)), values(ca.k)]
    return got


class Attributed(dict):
    pass


@case
def attributes_of_a_dict(t, c):
    @c
    def f(x, d):
        d.meta.append(x)
        d.n = len(d.meta)
        return x * d.n

    got = []
    for i in range(3):
        d = Attributed(a=t.ones(1))
        d.meta = [i]
        got += [values(f(t.ones(1) * i, d)), values(d.meta), d.n]
    return got


@case
def an_object_that_changes_beside(t, c):
    @c
    def f(x, s, out):
        out.append(x + s.n)
        return x

    got, s = [], State([1])
    for i in range(4):
        out = []
        got += [values(f(t.ones(1) * i, s, out)), values(out), values(s.h)]
        s.h.append([])
    return got


@pytest.mark.parametrize("name", CASES)
def test_one_program_changes_them_as_eager_code_does(name):
    as_eager_code(CASES[name])
