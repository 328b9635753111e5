"""Functions that change containers among their arguments: one program does it as eager code does."""

import collections
import dataclasses

import pytest
import torch

import torchlike

CASES = {}


def case(f):
    """Register a story: ``f(t, c)`` for a library and what compiles."""
    CASES[f.__name__] = f
    return f


def values(x):
    """What is compared."""
    if hasattr(x, "tolist"):
        return x.detach().tolist()
    if isinstance(x, dict):
        return {k: values(v) for k, v in x.items()}
    return [values(v) for v in x] if isinstance(x, list | tuple) else x


@dataclasses.dataclass
class State:
    h: object
    n: int = 0


@dataclasses.dataclass(slots=True)
class Slots:
    h: object
    n: int = 0


class MyDict(dict):
    pass


class MyList(list):
    pass


@case
def append_to_list_argument(t, c):

    @c
    def f(x, out):
        out.append(x * 2)
        return x + 1

    got = []
    for i in range(3):
        out = []
        got += [values(f(t.ones(2) * i, out)), values(out)]
    return got


@case
def append_to_same_list(t, c):

    @c
    def f(x, out):
        out.append(x * 2)
        return x + 1

    out = []
    got = []
    for i in range(3):
        got += [values(f(t.ones(2) * i, out)), values(out)]
    return got


@case
def set_item_of_dict_argument(t, c):

    @c
    def f(x, d):
        d["y"] = x * 2
        return d["x"] + 1

    got = []
    for i in range(3):
        d = {"x": t.ones(2) * i}
        r = f(t.ones(2) * i, d)
        got += [values(r), values(d), list(d)]
    return got


@case
def replace_item_of_dict_argument(t, c):

    @c
    def f(d):
        d["x"] = d["x"] * 2
        return d["x"] + 1

    d = {"x": t.ones(2)}
    got = []
    for _i in range(4):
        got += [values(f(d)), values(d)]
    return got


@case
def update_dict_argument(t, c):

    @c
    def f(x, d):
        d.update(a=x, b=x + 1)
        return d

    got = []
    d = {"b": t.zeros(2)}
    for i in range(3):
        r = f(t.ones(2) * i, d)
        got += [values(r), r is d, r["a"] is d["a"]]
    return got


@case
def set_item_of_list_argument(t, c):

    @c
    def f(x, li):
        li[0] = li[0] + x
        return li[0] * 2

    li = [t.zeros(2), 5]
    got = []
    for _i in range(3):
        got += [values(f(t.ones(2), li)), values(li)]
    return got


@case
def pop_of_argument(t, c):

    @c
    def f(li):
        return li.pop() * 2 + len(li)

    got = []
    li = [t.ones(1), t.ones(1) * 2, t.ones(1) * 3]
    for _i in range(3):
        got += [values(f(li)), values(li)]
    return got


@case
def pop_of_dict_argument(t, c):

    @c
    def f(d):
        y = d.pop("a")
        return y * 2

    got = []
    for i in range(3):
        d = {"a": t.ones(1) * i, "b": t.ones(1)}
        got += [values(f(d)), values(d)]
    return got


@case
def counter_in_dict_argument(t, c):

    @c
    def f(x, d):
        d["n"] += 1
        return x * d["n"]

    d = {"n": 0}
    got = []
    for _i in range(4):
        got += [values(f(t.ones(1), d)), values(d)]
    return got


@case
def kv_cache_argument(t, c):

    @c
    def f(x, cache):
        if "k" in cache:
            cache["k"] = t.cat([cache["k"], x])
        else:
            cache["k"] = x.clone()
        return cache["k"].sum()

    cache = {}
    got = []
    for i in range(3):
        got += [values(f(t.ones(1) * i, cache)), values(cache)]
    return got


@case
def dataclass_argument(t, c):

    @c
    def f(x, s):
        s.h = s.h + x
        s.n += 1
        return s.h * s.n

    s = State(t.zeros(2))
    got = []
    for _i in range(4):
        got += [values(f(t.ones(2), s)), values(s.h), s.n]
    return got


@case
def nested_argument(t, c):

    @c
    def f(x, d):
        d["l"].append(x)
        d["m"]["k"] = x * 3
        return x

    d = {"l": [], "m": {}}
    got = []
    li = d["l"]
    for i in range(3):
        got += [values(f(t.ones(1) * i, d)), values(d), d["l"] is li]
    return got


@case
def argument_stored_elsewhere(t, c):
    box = {}

    @c
    def f(x, li):
        box["l"] = li
        return x + li[0]

    got = []
    for i in range(3):
        li = [t.ones(1) * i]
        got += [values(f(t.ones(1), li)), box["l"] is li]
    return got


@case
def argument_into_argument(t, c):

    @c
    def f(x, a, b):
        a.append(b)
        b.append(x)
        return x

    got = []
    for i in range(3):
        a, b = ([], [])
        got += [values(f(t.ones(1) * i, a, b)), values(a), a[0] is b]
    return got


@case
def same_list_twice(t, c):

    @c
    def f(x, a, b):
        a.append(x)
        return len(b) + x

    got = []
    a, b = ([], [])
    got += [values(f(t.ones(1), a, b)), values(a), values(b)]
    got += [values(f(t.ones(1), a, a)), values(a), values(b)]
    got += [values(f(t.ones(1), b, b)), values(a), values(b)]
    return got


@case
def list_extended_with_grad(t, c):

    @c
    def f(x, li):
        y = x * 3
        li.append(y)
        return (y * y).sum()

    got = []
    for _i in range(3):
        x = t.ones(2, requires_grad=True)
        li = []
        f(x, li).backward()
        got += [values(x.grad), values(li), li[0].requires_grad, li[0].grad_fn is not None]
    return got


@case
def aux_loss_list(t, c):

    @c
    def f(x, li):
        y = x * 3
        li.append(y.sum())
        return (y * y).sum()

    got = []
    for _i in range(3):
        x = t.ones(2, requires_grad=True)
        li = []
        (f(x, li) + li[0]).backward()
        got += [values(x.grad)]
    return got


@case
def clear_sort_reverse(t, c):

    @c
    def f(x, li, m, k):
        li.clear()
        m.reverse()
        k.sort()
        return x * m[0] + k[0]

    got = []
    for i in range(3):
        li, m, k = ([1, 2], [1, 2 + i], [3 + i, 1, 2])
        got += [values(f(t.ones(1), li, m, k)), li, m, k]
    return got


@case
def kwargs_changed(t, c):

    @c
    def f(x, **kw):
        kw["z"] = x
        y = kw.pop("a")
        return x + y + len(kw)

    got = []
    for i in range(3):
        kw = {"a": t.ones(1) * i}
        got += [values(f(t.ones(1), **kw)), values(kw)]
    return got


@case
def del_of_list(t, c):

    @c
    def f(x, li):
        del li[0]
        li.insert(0, x * 2)
        return li[-1]

    li = [t.zeros(1), t.ones(1)]
    got = []
    for i in range(3):
        got += [values(f(t.ones(1) * i, li)), values(li)]
    return got


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
    want = CASES[name](torch, lambda f: f)
    assert CASES[name](torchlike, lambda f: torchlike.compile(f, fullgraph=True)) == want
    assert CASES[name](torchlike, torchlike.compile) == want


def test_fresh_containers_are_one_program():
    def f(x, out):
        out.append(x * 2)
        return x + 1

    program = torchlike.compile(f)
    for i in range(12):
        out = []
        assert program(torchlike.ones(1) * i, out).item() == i + 1 and out[0].item() == 2 * i
    assert program.count == 1


def test_a_log_that_grows_ends_in_pieces_without_a_word(recwarn):
    program, out = torchlike.compile(lambda x, log: log.append(x * 2)), []
    for i in range(12):
        program(torchlike.ones(1) * i, out)
    assert [x.item() for x in out] == [2.0 * i for i in range(12)] and program.count == 4 and not recwarn


BOX = []
REFUSED = {
    "tensors of a map": (lambda t, x, li: t.vmap(lambda y: li.append(y * 1) or y * 2)(x), "is not one program"),
    "tensors of a gradient": (
        lambda t, x, li: t.func.grad(lambda y: li.append(y * 2) or (y * y).sum())(x),
        "stores a tensor, and changes objects in a function that is transformed",
    ),
    "a list that is returned too": (
        lambda t, x, li: li.append(m := [x]) or m,
        "returns a container that it also stores",
    ),
    "attributes of an argument": (lambda t, x, s: BOX.append(vars(s)) or x, "stores the attributes of an"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_no_program_does_is_refused_and_right_in_pieces(name):
    f, why = REFUSED[name]

    def given(t):
        return State(t.ones(1)) if "attributes" in name else []

    for t, c in ((torch, lambda f: f), (torchlike, torchlike.compile)):
        run, eager = c(lambda x, li, t=t: f(t, x, li)), [values(f(t, t.ones(2) * i, given(t))) for i in range(3)]
        assert [values(run(t.ones(2) * i, given(t))) for i in range(3)] == eager
    with pytest.raises(RuntimeError, match=why):
        torchlike.compile(lambda x, li: f(torchlike, x, li), fullgraph=True)(torchlike.ones(2), given(torchlike))


def test_a_region_that_backward_runs_again_changes_them_again():
    def f(x, li):
        return torchlike.utils.checkpoint.checkpoint(lambda y: li.append(1) or y * y, x, use_reentrant=False).sum()

    for c in (lambda f: f, torchlike.compile):
        x, li = torchlike.ones(2, requires_grad=True), []
        c(f)(x, li).backward()
        assert li == [1, 1]
    with pytest.raises(RuntimeError, match="of the arguments after it has returned"):
        torchlike.compile(f, fullgraph=True)(torchlike.ones(2, requires_grad=True), [])


def test_a_failed_first_call_in_one_program_leaves_them_alone():
    given = []
    with pytest.raises(RuntimeError, match="needs the value of a tensor"):
        torchlike.compile(lambda x, li: li.append(x) or x.sum().item(), fullgraph=True)(torchlike.ones(2), given)
    assert given == []
