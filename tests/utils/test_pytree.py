"""torch.utils._pytree: containers taken apart and put together, as PyTorch does it."""

import collections

import pytest
from both import agree, agree_error

import torchlike
import torchlike.utils._pytree as pytree

Point = collections.namedtuple("Point", "x y")
TREES = [
    3,
    None,
    [],
    {},
    (),
    [1, (2, [3, None])],
    {"b": 1, "a": {"c": [2]}},
    Point(1, [2, 3]),
    collections.OrderedDict(b=1, a=(2,)),
    collections.defaultdict(list, {"k": [1, 2]}),
    collections.deque([1, 2], maxlen=3),
    [{1, 2}, "text", range(3)],
]


@pytest.mark.parametrize("tree", TREES, ids=str)
def test_apart_and_together(tree):
    def run(t):
        p = t.utils._pytree
        leaves, spec = p.tree_flatten(tree)
        again = p.tree_unflatten(leaves, spec)
        counts = spec.num_leaves, spec.num_nodes, spec.num_children, spec.is_leaf(), spec == p.tree_structure(tree)
        return leaves, repr(again), again == tree, counts, p.tree_leaves(tree), p.tree_is_leaf(tree)

    agree(run)


@pytest.mark.parametrize("tree", TREES, ids=str)
def test_mapped(tree):
    agree(lambda t: repr(t.utils._pytree.tree_map(lambda v: (v, "m"), tree)))
    agree(lambda t: repr(t.utils._pytree.tree_map_only(int, lambda v: v * 2, tree)))
    agree(lambda t: repr(t.utils._pytree.tree_map(lambda a, b: (a, b), tree, tree)))
    agree(lambda t: t.utils._pytree.tree_map_(lambda v: 0, tree) is tree)


def test_maps_of_several():
    agree(lambda t: t.utils._pytree.tree_map(lambda a, b: (a, b), [1, [2]], [{"x": 1}, [(3, 4)]]))
    agree(lambda t: t.utils._pytree.tree_map(lambda a, b: a - b, {"a": 1, "b": 2}, {"b": 10, "a": 20}))
    agree(lambda t: t.utils._pytree.tree_map_only((int, str), lambda v: v * 2, [1, "a", 2.5, None]))
    agree(lambda t: t.utils._pytree.tree_map_only(lambda v: v == 1, lambda v: "one", [1, 2]))


def test_questions():
    agree(lambda t: [f(lambda v: v > 1, [1, (2, 3)]) for f in (t.utils._pytree.tree_all, t.utils._pytree.tree_any)])
    agree(lambda t: [f(int, lambda v: v > 1, [2, "a"]) for f in (t.utils._pytree.tree_all_only,
                                                                  t.utils._pytree.tree_any_only)])  # fmt: skip
    agree(lambda t: t.utils._pytree.tree_flatten([1, [2], [3]], is_leaf=lambda v: v == [2])[0])
    agree(lambda t: list(t.utils._pytree.tree_iter({"a": (1, 2)})))


@pytest.mark.parametrize(
    ("run", "match"),
    [
        (lambda p: p.tree_unflatten([1], p.tree_structure([1, 2])), "length 1 but the spec refers.* 2 items"),
        (lambda p: p.tree_map(lambda a, b: a, [1], [1, 2]), "arity mismatch; expected 1, but got 2"),
        (lambda p: p.tree_map(lambda a, b: a, [1], (1,)), "type mismatch; .*'list'>, but got .*'tuple'>"),
        (lambda p: p.tree_map(lambda a, b: a, {"a": 1}, {"b": 1}), r"missing key\(s\): {'a'}; extra key\(s\): {'b'}"),
        (lambda p: p.tree_unflatten([1], 3), "xpected `treespec` to be"),
    ],
)
def test_what_does_not_fit(run, match):
    agree_error(lambda t: run(t.utils._pytree), match)


def test_registered_classes():
    def run(t):
        p = t.utils._pytree

        class Pair:
            def __init__(self, a, b):
                self.a, self.b = a, b

        p.register_pytree_node(Pair, lambda v: ([v.a, v.b], None), lambda children, _: Pair(*children))
        again = p.tree_map(lambda v: v + 1, [Pair(1, (2,))])
        return p.tree_leaves(again), type(again[0]) is Pair

    agree(run)
    agree_error(lambda t: t.utils._pytree.register_pytree_node(list, None, None), "already registered")


def test_tensors_are_leaves():
    agree(lambda t: t.utils._pytree.tree_map(t.neg, {"a": t.ones(2), "b": [t.zeros(1)]}))


def test_the_repr_shows_the_structure():
    shown = "TreeSpec(list, None, [*,\n  TreeSpec(dict, ['a'], [*])])"
    assert repr(pytree.tree_structure([1, {"a": 2}])) == shown and torchlike.utils._pytree is pytree
