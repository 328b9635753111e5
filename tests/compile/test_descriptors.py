"""Attributes that classes compute, of objects from outside a compiled function: it is one program with them."""

import collections
import functools
import typing

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
