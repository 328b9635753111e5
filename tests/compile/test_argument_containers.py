"""Functions that change containers among their arguments: one program does it as eager code does."""

import pytest
import torch
from container_kit import Cases, State, as_eager_code, values

import torchlike

CASES = Cases()
case = CASES.case


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


@pytest.mark.parametrize("name", CASES)
def test_one_program_changes_them_as_eager_code_does(name):
    as_eager_code(CASES[name])


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
