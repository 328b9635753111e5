"""Dynamic lengths told by tensors and by more examples, dataclasses as arguments, and hints that are one length."""

import dataclasses
import types
from typing import Any

import pytest
from both import agree, agree_error
from export_kit import module


@pytest.fixture(scope="module")
def classes() -> dict[types.ModuleType, type]:
    """A dataclass that each library knows as a container."""
    import torch

    import torchlike

    found = {}
    for t in (torch, torchlike):
        found[t] = dataclasses.make_dataclass("Batch", ["x", "y"])
        t.export.register_dataclass(found[t], serialized_type_name=f"Batch of {t.__name__}")
    return found


def _call(t: Any) -> tuple:
    """(module, args) of a call with tensors in containers."""
    m = module(t, lambda self, x, ys, scale=1: x.sum() + ys["a"][0].sum() * scale)
    return m, (t.ones(3, 2), {"a": [t.ones(3), 1]})


def _shown(t: Any, spec: Any) -> Any:
    return t.utils._pytree.tree_map(str, spec)


def test_shapes_of_tensors():
    def script(t):
        m, (x, ys) = _call(t)
        shapes, b = t.export.ShapesCollection(), t.export.Dim("b")
        shapes[x], shapes[ys["a"][0]] = (b, None), {0: b}
        shapes[x] = (b, None)
        by_name = shapes.dynamic_shapes(m, (x,), {"ys": ys, "scale": 2})
        spec = _shown(t, shapes.dynamic_shapes(m, (x, ys)))
        return len(shapes), str(shapes[x]), spec, str(by_name), shapes[t.ones(2)]

    agree(script)


WRONG_SHAPES = {
    "no tensor": (lambda t, s, x: s.__setitem__(3, (None,)), "Cannot assign shape to non-tensor"),
    "twice": (lambda t, s, x: s.__setitem__(x, {}), "Shapes assigned to input do not match"),
    "copies": (lambda t, s, x: s.dynamic_shapes(module(t, lambda self, x: x), (x.clone(),)), "not found in args"),
}


@pytest.mark.parametrize("name", WRONG_SHAPES)
def test_wrong_shapes(name):
    call, match = WRONG_SHAPES[name]

    def script(t):
        shapes, x = t.export.ShapesCollection(), t.ones(3, 2)
        shapes[x] = {0: t.export.Dim("b")}
        call(t, shapes, x)

    agree_error(script, match)


# What a second example has in place of (ones(3, 2), {"a": [ones(3), 1]}).
EXAMPLES = {
    "same": lambda t: (t.ones(3, 2), {"a": [t.ones(3), 1]}),
    "lengths": lambda t: (t.ones(5, 2), {"a": [t.ones(1), 1]}),
    "int": lambda t: (t.ones(3, 2), {"a": [t.ones(3), 2]}),
}


@pytest.mark.parametrize("name", EXAMPLES)
def test_more_examples(name):
    def script(t):
        more, (m, args) = t.export.AdditionalInputs(), _call(t)
        none = _shown(t, more.dynamic_shapes(m, args))
        more.add(EXAMPLES[name](t))
        more.add(args)
        return none, _shown(t, more.dynamic_shapes(m, args))

    agree(script)


WRONG_EXAMPLES = {
    "no tuple": (lambda t: t.ones(2), "must be a tuple"),
    "structure": (lambda t: (t.ones(3, 2), {"a": [t.ones(3)]}), ""),
    "rank": (lambda t: (t.ones(3), {"a": [t.ones(3), 1]}), ""),
    "types": (lambda t: (t.ones(3, 2), {"a": [t.ones(3), 1.5]}), "differing types.*cannot be marked as dynamic"),
    "texts": (lambda t: (t.ones(3, 2), {"a": [t.ones(3), 1]}, "b"), "differing values.*cannot be marked as dynamic"),
}


@pytest.mark.parametrize("name", WRONG_EXAMPLES)
def test_wrong_examples(name):
    example, match = WRONG_EXAMPLES[name]

    def script(t):
        more, (m, args) = t.export.AdditionalInputs(), _call(t)
        more.add(example(t))
        more.dynamic_shapes(m, (*args, "a") if name == "texts" else args)

    agree_error(script, match)
    agree_error(lambda t: t.export.AdditionalInputs().add((), [1]), "must be None or a dict")


def _lengths(t: Any, m: Any, args: tuple, spec: Any, *calls: tuple) -> list:
    ep = t.export.export(m, args, dynamic_shapes=spec)
    results: list = [sorted(map(str, ep.range_constraints.values()))]
    for call in calls:
        try:
            results.append(ep.module()(*call))
        except AssertionError:
            results.append("guarded")
    return results


@pytest.mark.compilers
@pytest.mark.parametrize("hint", ["AUTO", "DYNAMIC"])
def test_hinted_lengths_that_must_be_equal(hint):
    def script(t):
        plus, two = module(t, lambda self, x, y: x + y), module(t, lambda self, x, y: (x.sum(), y.sum()))
        n = (getattr(t.export.Dim, hint),)
        three, five, four = t.ones(3), t.ones(5), t.ones(4)
        apart = _lengths(t, two, (three, t.ones(3)), (n, n), (five, five), (five, four))
        ranges = (n[0](min=3, max=8),), (n[0](max=6),)
        bounds = _lengths(t, plus, (three, t.ones(3)), ranges, (five, five), (t.ones(7),) * 2)
        return _lengths(t, plus, (three, t.ones(3)), (n, n), (five, five), (five, four)), apart, bounds

    agree(script)


@pytest.mark.compilers
def test_dataclasses_and_collections(classes):
    def script(t):
        made = classes[t]
        m, arg = module(t, lambda self, b: b.x * 2 + b.y), made(t.ones(3), t.ones(3))
        shapes, more, b = t.export.ShapesCollection(), t.export.AdditionalInputs(), t.export.Dim("b", min=2)
        shapes[arg.x] = shapes[arg.y] = {0: b}
        more.add((made(t.ones(5), t.ones(5)),))
        call = (made(t.ones(9), t.ones(9)),)
        found = [_lengths(t, m, (arg,), spec, call) for spec in (shapes, more, {"b": [(b,), {0: b}]})]
        return found, more.verify(t.export.export(m, (arg,), dynamic_shapes=more))

    agree(script)


@pytest.mark.compilers
def test_wrong_dataclasses_and_programs(classes):
    def fixed(t):
        more, x = t.export.AdditionalInputs(), t.ones(3)
        more.add((t.ones(5),))
        more.verify(t.export.export(module(t, lambda self, x: x * 2), (x,)))

    with pytest.raises(AssertionError, match=r"Guard failed: x.size\(\)\[0\] == 3, but it is 5"):
        import torchlike

        fixed(torchlike)
    agree_error(lambda t: t.export.register_dataclass(int), "not a dataclass")
