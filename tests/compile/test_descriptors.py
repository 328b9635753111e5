"""What Python's classes compute and its standard library does: compiled functions are one program with it."""

import bisect
import collections
import contextlib
import copy
import enum
import functools
import heapq
import inspect
import os
import string
import sys
import textwrap
import typing

import pytest
from both import agree

import torchlike


def compiled(t, f):
    return torchlike.compile(f, fullgraph=True) if t is torchlike else f


def test_named_tuples():
    plain = collections.namedtuple("plain", "scale shift")

    class Config(typing.NamedTuple):
        scale: int
        shift: typing.Any

        @property
        def double(self):
            return self.scale * 2

    def story(t, given):
        run = compiled(t, lambda x: x * given.scale + given.shift * getattr(given, "double", 1))
        first = run(t.arange(3.0))
        given.shift.add_(1)
        second = run(t.arange(3.0))
        given = given._replace(scale=7)
        return first, second, run(t.arange(3.0))

    agree(lambda t: [story(t, cls(2, t.ones(3))) for cls in (plain, Config)])


def test_cached_properties():
    def story(t):
        class M(t.nn.Module):
            n = 3

            @functools.cached_property
            def scale(self):
                return self.n * 2

            @functools.cached_property
            def table(self):
                return t.arange(3.0) * self.scale

            @functools.cached_property
            def layer(self):  # no submodule, as it is not set by setattr
                return t.nn.Identity()

            def forward(self, x):
                return self.layer(x * self.table + self.scale)

        m, seen = M(), []
        run = compiled(t, m)
        for change in (
            lambda: None,
            lambda: setattr(m, "n", 10),
            lambda: delattr(m, "scale"),
            lambda: delattr(m, "table"),
        ):
            change()
            seen += [
                run(t.ones(3)),
                m.table,
                sorted(k for k in vars(m) if k in ("scale", "table", "layer")),
                len(m._modules),
            ]
        return seen

    agree(story)


def test_trees():
    def story(t):
        pytree = t.utils._pytree

        def f(x):
            leaves, spec = pytree.tree_flatten({"a": x, "b": [x + 1, None]})
            return pytree.tree_unflatten(leaves, spec), pytree.tree_map(lambda v: v * 2, (x, [x]))

        return [compiled(t, f)(t.ones(2)) for _ in range(2)]

    agree(story)


READS = {
    "get": lambda c: c.__dict__.get("k", 5),
    "item": lambda c: vars(c)["k"] if "k" in vars(c) else 5,
    "loop": lambda c: sum([v for n, v in c.__dict__.items() if n == "k"]),
    "length": lambda c: len(c.__dict__),
    "copy": lambda c: dict(c.__dict__).get("k", 7),
}


@pytest.mark.parametrize("name", READS)
def test_the_namespace_of_a_class(name):
    def story(t):
        class C:
            k = 2

        run = compiled(t, lambda x: x * READS[name](C))
        seen = [run(t.ones(2)), run(t.ones(2))]
        C.k = 4
        seen.append(run(t.ones(2)))
        C.other = 1
        seen.append(run(t.ones(2)))
        del C.k
        return [*seen, run(t.ones(2))]

    agree(story)


def _heap(t, x):
    heap = [3, 1, 2]
    heapq.heapify(heap)
    heapq.heappush(heap, 0)
    return x * (heapq.heappop(heap) + heapq.nlargest(1, heap)[0])


def _counted(t, x):
    counter = collections.Counter("aab")
    counter.update("b")
    return x * counter["a"] + counter.most_common(1)[0][1] + counter["missing"]


def _defaults(t, x):
    lists, numbers = collections.defaultdict(list), collections.defaultdict(lambda: 3)
    lists["a"].append(x)
    lists["b"].append(x + 1)
    return sum(lists["a"] + lists["b"]) * numbers["c"] + len(lists)


def _cached(t, x):
    @functools.lru_cache
    def double(n):
        return n * 2

    return x * double(3) + double(3)


def _handled(t, x):
    try:
        raise ValueError("abc")
    except ValueError:
        return x + len(str(sys.exc_info()[1])) + (sys.exc_info()[0] is ValueError)


def _stack(t, x):
    with contextlib.ExitStack() as stack:
        y = stack.enter_context(contextlib.nullcontext(x))
        stack.callback(lambda: None)
        return y + 1


def _texts(t, x):
    name = os.path.splitext(os.path.join("a", "b.txt"))[1]
    return x + len(name) + len(string.Template("$a").substitute(a=12)) + len(textwrap.dedent(" a"))


STEPS = (1, 2, 3)


class Colour(enum.Enum):
    RED = 1
    BLUE = 2


PROGRAMS = {
    "heaps": _heap,
    "bisections": lambda t, x: x + bisect.bisect(STEPS, 2) + bisect.bisect_left([1, 2, 3], 2),
    "counters": _counted,
    "defaults": _defaults,
    "caches": _cached,
    "handled": _handled,
    "stacks of contexts": _stack,
    "texts": _texts,
    "enumerations": lambda t, x: x * Colour["BLUE"].value + Colour(1).value + len(Colour),
    "copies": lambda t, x: copy.copy({"a": x})["a"] + copy.deepcopy([[1], 2])[0][0],
    "signatures": lambda t, x: x + len(inspect.signature(_heap).parameters),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_of_the_standard_library(name):
    def story(t):
        run = compiled(t, lambda x: PROGRAMS[name](t, x))
        return [run(t.arange(3.0) + i) for i in range(2)]

    agree(story)


def test_what_the_caller_handles():
    f = torchlike.compile(lambda x: x + (sys.exc_info()[0] is ValueError), fullgraph=True)
    assert f(torchlike.ones(1)).item() == 1
    with pytest.raises(torchlike._dynamo.exc.Unsupported, match="exception that its caller handles"):
        try:
            raise ValueError
        except ValueError:
            f(torchlike.ones(1))
