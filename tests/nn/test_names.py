"""Import paths and names of torch.nn that programs use; how reductions are named."""

import importlib
import inspect
import pkgutil
import warnings

import pytest
import torch
from story_kit import said, story

import torchlike as tl

PLACES = ["nn", "nn.functional", "nn.init", "nn.grad", "nn.parameter", "nn.common_types", "nn._reduction"]
PLACES += [
    f"{place}.{part.name}"
    for place in ("nn.modules", "nn.utils")
    for part in pkgutil.iter_modules(importlib.import_module(f"torch.{place}").__path__)
    if not part.name.startswith("_")
]
# What torchlike has not: quantization, experiments, and what PyTorch's files happen to import.
LACKING = {"nn": {"intrinsic", "qat", "quantizable", "quantized", "cpp"}, "nn.functional": {"scaled_mm"}}
LACKING["nn.functional"] |= {"grouped_mm", "scaled_grouped_mm", "ScalingType", "SwizzleType"}
EMPTY = {"nn.modules.linear_cross_entropy"}  # modules that name nothing of theirs public


def names(module):
    """What a module has of its own: the names it lists, and the classes and functions made in it."""
    listed = set(getattr(module, "__all__", ()))
    own = {n for n, x in vars(module).items() if getattr(x, "__module__", None) == module.__name__}
    return listed | {n for n in own if not n.startswith("_") and not isinstance(getattr(module, n), type(T_OF))}


T_OF = torch.nn.common_types.T


@pytest.mark.parametrize("place", sorted(set(PLACES) - EMPTY))
def test_what_is_there(place):
    theirs, ours = importlib.import_module(f"torch.{place}"), importlib.import_module(f"torchlike.{place}")
    missing = {n for n in names(theirs) if not hasattr(ours, n)}
    assert missing - LACKING.get(place, set()) == BELOW.get(place, set())
    if "__all__" in vars(theirs) and place not in ("nn", "nn.functional"):
        assert set(theirs.__all__) - set(ours.__all__) == BELOW_LISTED.get(place, set())


# Helpers of PyTorch's files that are no API.
BELOW = {
    "nn.functional": {"assert_int_or_pair"},
    "nn.utils.rnn": {"PackedSequence_", "bind"},
}
BELOW_LISTED = {"nn.modules.activation": {"MultiheadAttention"}}


def test_types_of_sizes():
    theirs = {n for n in vars(torch.nn.common_types) if n.startswith("_") and n.endswith("_t")}
    assert theirs <= set(vars(tl.nn.common_types))
    assert str(tl.nn.common_types._size_2_t) in ("int | tuple[int, int]", str(torch.nn.common_types._size_2_t))
    assert inspect.ismodule(tl.nn.common_types)


@story
def test_reductions(t):
    R = importlib.import_module(f"{t.__name__}.nn._reduction")
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        flags = [R.legacy_get_string(a, b) for a in (None, True, False) for b in (None, True, False)]
        numbers = R.get_enum("none"), R.get_enum("elementwise_mean"), R.legacy_get_enum(False, None)
    quiet = R.legacy_get_string(None, False, emit_warning=False)
    texts = [str(w.message) for w in seen]
    return flags, numbers, quiet, texts, said(lambda: R.get_enum("x"), "x is not a valid value for reduction")


@story
def test_parameters_without_a_shape(t):
    p, b = t.nn.UninitializedParameter(), t.nn.UninitializedBuffer()
    return (
        p.size(),
        p.size(0),
        b.size(),
        said(lambda: p.shape, "Can't access the shape of an uninitialized parameter or buffer"),
        said(lambda: p.dim(), "Attempted to use an uninitialized parameter"),
    )


@story
def test_errors_of_cross_entropy_in_order(t):
    F, x = t.nn.functional, t.ones(4, 3)
    return (
        said(lambda: F.cross_entropy(x, t.ones(5)), r"Expected input batch_size \(4\) to match target batch_size \(5"),
        said(lambda: F.cross_entropy(x, t.ones(4)), "expected target dtype to be Long or Byte, but got Float"),
        said(lambda: F.cross_entropy(x, t.ones(4, 3, 2)), "0D or 1D target tensor expected, multi-target not supp"),
        said(lambda: F.cross_entropy(x, t.ones(())), r"Expected input batch_size \(4\) to match target batch_size \(0"),
    )
