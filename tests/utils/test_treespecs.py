"""Structures of nested containers: written, printed, registered, compared with PyTorch."""

from __future__ import annotations

import collections
import dataclasses
import enum
import importlib
import time
import warnings

import pytest
from both import agree
from story_kit import said

Pair = collections.namedtuple("Pair", "a b")


class Color(enum.Enum):
    RED = 1


def tree(t):
    return importlib.import_module(f"{t.__name__}.utils._pytree")


TREES = {
    "leaf": lambda t: 1, "list": lambda t: [1, (2, None)], "dict": lambda t: {"a": [1], "b": 2},
    "numbers": lambda t: {1: 2}, "ordered": lambda t: collections.OrderedDict(a=1),
    "default": lambda t: collections.defaultdict(int, a=1), "deque": lambda t: collections.deque([1], maxlen=3),
    "size": lambda t: t.Size([2]), "empty": lambda t: [[], {}], "named": lambda t: Pair(1, [2]),
    "results": lambda t: t.max(t.ones(2), 0), "time": lambda t: time.gmtime(0),
}  # fmt: skip


@pytest.mark.parametrize("name", TREES)
def test_texts(name):
    def texts(t):
        p, spec = tree(t), tree(t).tree_structure(TREES[name](t))
        written = said(lambda: p.treespec_dumps(spec))
        again = written if name in ("named", "results") else p.treespec_loads(p.treespec_dumps(spec)) == spec
        return repr(spec), p.treespec_pprint(spec), written, again, spec.num_children, repr(spec.children())

    agree(texts)


def test_names_of_users_classes():
    def named(t):
        p = tree(t)
        kinds = [type(f"Box{i}", (), {"__init__": lambda self, x: setattr(self, "x", x)}) for i in range(3)]
        contexts = [None, {"q"}, Color.RED]
        more = [
            {},
            {"to_dumpable_context": sorted, "from_dumpable_context": set},
            {},
        ]
        told = []
        for i, (kind, context) in enumerate(zip(kinds, contexts, strict=True)):

            def flatten(box, context=context):
                return [box.x], context

            p.register_pytree_node(kind, flatten, lambda v, _: None, serialized_type_name=f"trees.{i}", **more[i])
            text = p.treespec_dumps(p.tree_structure(kind(1)))
            told += [text, p.treespec_loads(text) == p.tree_structure(kind(1))]
            p._deregister_pytree_node(kind)
            told += [said(lambda kind=kind: p._deregister_pytree_node(kind), ""), p.tree_structure(kind(1)).is_leaf()]
        return told

    agree(named)


def test_what_is_refused():
    def refused(t):
        p = tree(t)
        box = type("Box", (), {})
        p.register_pytree_node(box, lambda b: ([], {"q"}), lambda v, _: box())
        told = [
            said(lambda: p.treespec_dumps(p.tree_structure([1]), protocol=7)),
            said(lambda: p.treespec_dumps(3)),
            said(lambda: p.treespec_loads("[7, {}]")),
            said(lambda: p.treespec_loads('[1, {"type": "no.such", "context": "null", "children_spec": []}]')),
            said(lambda: p.treespec_dumps(p.tree_structure(box())), "No registered serialization name"),
            said(lambda: p.register_pytree_node(box, len, len), "is already registered"),
            said(
                lambda: p.register_pytree_node(Color, len, len, to_dumpable_context=len), "must be None or registered"
            ),
            said(lambda: p.register_dataclass(int), "field_names must be specified"),
            said(lambda: p.register_constant(box), "non-default `__eq__`"),
        ]
        return told

    agree(refused)


def test_dataclasses_and_constants():
    def registered(t):
        p = tree(t)

        @dataclasses.dataclass
        class Point:
            x: object
            y: object = None

        @dataclasses.dataclass(frozen=True)
        class Unit:
            name: str

        p.register_dataclass(Point, serialized_type_name="trees.Point")
        leaves, spec = p.tree_flatten([Point(1), Point(2, 3)])
        told = [leaves, spec.num_leaves, str(p.tree_map(lambda v: v + 1, Point(1))).rpartition(".")[2]]
        told += [[p.keystr(path) for path, _ in p.tree_flatten_with_path(Point(1, [2]))[0]]]
        told += [p.treespec_loads(p.treespec_dumps(spec)) == spec]
        with warnings.catch_warnings(record=True) as seen:
            warnings.simplefilter("always")
            p.register_dataclass(Point, field_names=["x"], drop_field_names=["y"])
        told += [["already registered" in str(w.message) for w in seen], p.tree_leaves(Point(1, 2))]
        told += [said(lambda: p.register_dataclass(Point, field_names=["x"]), "Missing fields in `field_names`: {'y'}")]
        told += [said(lambda: p.register_dataclass(Point, field_names=["x", "y", "z"]), "Unexpected fields")]
        p.register_constant(Unit)
        told += [p.tree_leaves([Unit("m"), 1]), p.is_constant_class(Unit), p.is_constant_class(int)]
        told += [p.tree_structure(Unit("m")) == p.tree_structure(Unit("m"))]
        told += [p.tree_structure(Unit("m")) == p.tree_structure(Unit("s"))]
        return told

    agree(registered)


def test_questions_and_pieces():
    def asked(t):
        p, m = tree(t), t.max(t.ones(2), 0)
        things = [m, type(m), Pair(1, 2), Pair, (1,), tuple, 1, t.Size([1]), time.gmtime(0)]
        kinds = ["", "_class", "_instance"]
        told = [[getattr(p, f"is_{n}{k}")(x) for k in kinds] for x in things for n in ("structseq", "namedtuple")]
        leaf = p.treespec_leaf()
        told += [repr(p.treespec_tuple([leaf, leaf])), repr(p.treespec_dict({"b": leaf}, a=leaf))]
        told += [p.arg_tree_leaves(1, [2], k=(3,)), p.map_only(int)(lambda x: x + 1)(3), p.map_only(int)(str)("a")]
        spec = p.tree_structure([1, (2, 3)])
        told += [p._broadcast_to_and_flatten(x, spec) for x in (0, [0, 1], [0, (1, 2)], [0], (0, 1), {"a": 1})]
        told += [type(p.tree_map(str, t.Size([2]))).__name__, p.tree_leaves_with_path(t.Size([3]))[0][1]]
        return told

    agree(asked)
