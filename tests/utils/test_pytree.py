"""torch.utils._pytree: containers taken apart and put together, as PyTorch does it."""

import collections
import dataclasses
import re
import warnings

import jax
import pytest
from both import agree, agree_error
from story_kit import said

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


OTHERS = [{"a": 2, "b": 3}, collections.OrderedDict(a=1, b=2), collections.defaultdict(int, b=1, a=2), [1, 2], (1, 2),
          collections.deque([5]), collections.deque([6], maxlen=9), Point({"z": 2}, 3), {}, {"a": 1}]  # fmt: skip


@pytest.mark.parametrize("tree", [*TREES, *OTHERS], ids=str)
def test_containers_that_fit_each_other(tree):
    """Dicts of all kinds do, in any order, and deques of any length; what is said where two do not."""

    def fitted(t):
        p = t.utils._pytree
        spec, told = p.tree_structure(tree), []
        for other in (*TREES, *OTHERS):
            if not (isinstance(tree, dict) and isinstance(other, dict) and list(tree) != list(other)):
                told.append(repr(p._broadcast_to_and_flatten(other, spec)))
            told.append(said(lambda other=other: repr(p.tree_map(lambda a, b: (a, b), tree, other))))
        return [re.sub(r"(mismatch; missing key).*", r"\1", x) for x in told]

    agree(fitted)


def test_a_tree_for_a_dict_is_read_by_its_keys():
    """PyTorch reads it by places, so that ``in_dims`` of keys in another order are those of other arguments."""
    spec = pytree.tree_structure({"a": [1, 2], "b": 3})
    assert pytree._broadcast_to_and_flatten({"b": 0, "a": None}, spec) == [None, None, 0]
    x = {"a": torchlike.ones(2, 3), "b": torchlike.arange(2.0)}
    summed = torchlike.vmap(lambda d: d["a"].sum() + d["b"].sum(), in_dims=({"b": None, "a": 0},))(x)
    assert summed.tolist() == [4.0, 4.0]


def test_what_the_table_of_containers_says():
    def told(t):
        p = t.utils._pytree
        kinds = {kind.__name__: p.SUPPORTED_NODES[kind] for kind in p.BUILTIN_TYPES}
        x = {"tuple": (1,), "list": [1], "dict": {"a": 1}, "OrderedDict": collections.OrderedDict(a=1), "deque": [1],
             "defaultdict": collections.defaultdict(int, a=1), "namedtuple": Point(1, 2)}  # fmt: skip
        x["deque"] = collections.deque(x["deque"], maxlen=2)
        return [(name, kinds[name]._fields, repr(kinds[name].flatten_with_keys_fn(x[name])),
                 repr(kinds[name].unflatten_fn(*kinds[name].flatten_fn(x[name]))))
                for name in sorted(kinds)]  # fmt: skip

    agree(told)


def test_the_old_name_of_registration():
    def registered(t):
        p, box, told = t.utils._pytree, type("Box", (), {}), []
        for context in (1, 2):
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always")
                p._register_pytree_node(box, lambda x, context=context: ([], context), lambda c, x: box(), None, str)
            told.append((repr(p.tree_structure(box())), [(w.category, str(w.message)[-60:]) for w in caught]))
        return told

    agree(registered)


def test_wrong_structures():
    agree(lambda t: [said(lambda: t.utils._pytree.treespec_tuple([3])), said(lambda: t.utils._pytree.map_only(3)),
                     said(lambda: t.utils._pytree.treespec_dict({"a": 3})),
                     said(lambda: t.utils._pytree.tree_unflatten([1], 3))])  # fmt: skip


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


# -- one registry with jax ---------------------------------------------------------------------------


class Pair:
    def __init__(self, a, b, note):
        self.a, self.b, self.note = a, b, note


pytree.register_pytree_node(Pair, lambda p: ([p.a, p.b], [p.note]), lambda parts, c: Pair(*parts, *c))


def test_a_class_that_is_registered_here_is_a_node_of_jax():
    pair = Pair(torchlike.ones(2), {"b": 2.0, "a": 1.0}, "note")
    out = jax.jit(lambda p: Pair(p.a * p.b["a"], p.b["b"] + 1, p.note))(pair)
    assert type(out) is Pair and out.note == "note" and out.a.tolist() == [1.0, 1.0] and out.b == 3.0
    assert jax.tree.structure(pair) == jax.tree.structure(Pair(pair.a, pair.b, "note"))
    assert jax.tree.structure(pair) != jax.tree.structure(Pair(pair.a, pair.b, "other"))
    again = torchlike.compile(lambda p: setattr(p, "a", p.a + 1) or p)(pair)
    assert again is pair and pair.a.tolist() == [2.0, 2.0]  # an object for torch.compile, as in PyTorch


def test_a_class_of_jax_is_a_container():
    @jax.tree_util.register_dataclass
    @dataclasses.dataclass
    class State:
        weight: object
        rest: dict
        name: str = dataclasses.field(metadata={"static": True}, default="s")

    state = State(torchlike.ones(2), {"z": torchlike.zeros(1), "a": None})
    leaves, spec = pytree.tree_flatten(state)
    assert leaves[0] is state.weight and leaves[2] is None and spec.type is State and spec.num_leaves == 3
    assert pytree.tree_map(lambda x: x, state) == state and list(spec.unflatten([1, 2, 3]).rest) == ["z", "a"]
    paths = [path for path, _ in pytree.tree_leaves_with_path(state)]
    assert [pytree.keystr(p) for p in paths] == [".weight", ".rest['z']", ".rest['a']"]
    assert pytree.key_get(state, paths[1]) is state.rest["z"]
    assert spec == pytree.tree_structure(State(1, {"z": 2, "a": 3})) != pytree.tree_structure(State(1, {}, "t"))
    grads = torchlike.func.grad(lambda s: (s.weight * 3).sum() + s.rest["z"].sum())(
        State(torchlike.ones(2), {"z": torchlike.zeros(1)})
    )
    assert type(grads) is State and grads.weight.tolist() == [3.0, 3.0] and grads.rest["z"].tolist() == [1.0]
    assert pytree.tree_leaves(jax.tree_util.Partial(jax.numpy.add, 1.0)) == [1.0]


def test_what_jax_takes_apart_otherwise():
    for tree in ({"b": 1, "a": 2}, [None], collections.deque([1, 2])):
        assert pytree.tree_leaves(tree) != jax.tree.leaves(tree)
