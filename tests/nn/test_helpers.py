"""Private parts of torch.nn.functional, torch.cuda and pytrees that programs import."""

import collections
import warnings
from importlib import import_module

import pytest
from both import agree
from story_kit import said, story

ONLY = "only bool and floating types of m"
Pair = collections.namedtuple("Pair", "x y")


@story
def test_masks(t):
    mask, F = t.tensor([True, False]), t.nn.functional
    numbers = t.tensor([0.0, -1.0])
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        masks = [
            F._canonical_mask(mask, "m", None, "o", t.float32), F._canonical_mask(None, "m", None, "o", t.float32),
            F._canonical_mask(numbers, "m", t.bool, "o", t.float32),
            F._canonical_mask(numbers, "m", None, "o", t.float64),
            F._canonical_mask(mask, "m", t.float32, "o", t.float32, False),
            said(lambda: F._canonical_mask(t.tensor([1]), "m", None, "o", t.float32), ONLY),
        ]  # fmt: skip
    return [
        masks, [str(w.message) for w in caught], F._none_or_dtype(None), F._none_or_dtype(mask),
        said(lambda: F._none_or_dtype(3), "must be None or torch.Tensor"),
        [said(lambda s=s: F._verify_batch_size(s)) for s in ([1, 3], [1, 3, 1], [2, 3])],
    ]  # fmt: skip


@story
def test_softmax_without_a_dimension(t):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return [t.nn.functional._get_softmax_dim("softmax", n, 3) for n in range(5)]


@story
def test_projections(t):
    def numbers(*shape):
        return t.arange(t.Size(shape).numel(), dtype=t.float64).view(shape)

    q, k, w, b = numbers(4, 1, 6) / 24, numbers(5, 1, 6) / 30, numbers(18, 6).sin(), numbers(18)
    F, parts = t.nn.functional, numbers(3, 6, 6).cos()
    return [
        list(F._in_projection_packed(q, k, k, w, b)), list(F._in_projection_packed(q, q, q, w)),
        list(F._in_projection_packed(q, k, q[:2] * 2, w, b)), F._in_projection(q, k, k, *parts, b[:6]),
        said(lambda: F._in_projection(q, k, k, w, *parts[1:]), "expecting query weights shape of .6, 6., but got"),
    ]  # fmt: skip


SHAPES = {
    "batched": ((4, 2, 6), (5, 2, 6), (5, 2, 6)),
    "unbatched": ((4, 6), (5, 6), (5, 6)),
    "mixed": ((4, 6), (5, 2, 6), (5, 6)),
    "flat": ((6,), (6,), (6,)),
    "a mask of keys": ((4, 6), (5, 6), (5, 6), (2, 5)),
    "a mask": ((4, 6), (5, 6), (5, 6), None, (2, 4, 5)),
    "a wrong mask": ((4, 6), (5, 6), (5, 6), None, (3, 4, 5)),
    "a deep mask": ((4, 2, 6), (5, 2, 6), (5, 2, 6), (2, 5), (1, 1, 4, 5)),
}


@pytest.mark.parametrize("name", SHAPES)
def test_shapes_of_attention(name):
    def run(t):
        given = [None if s is None else t.ones(s) for s in [*SHAPES[name], None, None][:5]]
        return said(lambda: t.nn.functional._mha_shape_check(*given, 2), "^[^.]{20}")

    agree(run)


@story
def test_cuda_without_a_gpu(t):
    ran = []
    t.cuda._lazy_call(lambda: ran.append(1))
    return [t.cuda._initialized, t.cuda._is_in_bad_fork(), t.cuda._is_compiled(), ran,
            said(t.cuda._lazy_init, "Torch not compiled with CUDA enabled")]  # fmt: skip


@story
def test_paths_of_trees(t):
    p = import_module(f"{t.__name__}.utils._pytree")

    class Keyed(list):
        pass

    p.register_pytree_node(
        Keyed, lambda x: (list(x), None), lambda x, _: Keyed(x),
        flatten_with_keys_fn=lambda x: ([(p.GetAttrKey(f"n{i}"), v) for i, v in enumerate(x)], None),
    )  # fmt: skip

    class Unkeyed(list):
        pass

    p.register_pytree_node(Unkeyed, lambda x: (list(x), None), lambda x, _: Unkeyed(x))
    tree = {
        "a": [1, (2, None)], "b": Pair(3, {"c": 4}), "d": collections.OrderedDict(e=5), "f": collections.deque([6]),
        "g": collections.defaultdict(list, {"h": 7}), "k": Keyed([8, 9]), "m": t.max(t.ones(2), 0),
    }  # fmt: skip
    leaves, spec = p.tree_flatten_with_path(tree)
    return [
        [p.keystr(path) for path, _ in leaves], [leaf for _, leaf in leaves], repr([path for path, _ in leaves[:4]]),
        [p.key_get(tree, path) for path, _ in leaves[:8]], spec.num_leaves,
        p.tree_map_with_path(lambda path, a, b: p.keystr(path) + str(a + b), [1, (2,)], [3, (4,)]),
        [(p.keystr(path), leaf) for path, leaf in p.tree_leaves_with_path([1, [2]], is_leaf=lambda x: x == [2])],
        p.tree_leaves_with_path(3), said(lambda: p.tree_flatten_with_path(Unkeyed([1])), "Did not find a flatten_with"),
        [p.is_namedtuple(x) for x in (Pair(1, 2), Pair, (1,), tuple)], p.is_namedtuple_class(Pair(1, 2)),
    ]  # fmt: skip
