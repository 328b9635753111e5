"""Element types against PyTorch's: every name, attribute, limit and refusal."""

import copy
import pickle

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest
import torch

from torchlike._base import dtypes as D

jax.config.update("jax_enable_x64", True)

NAMES = sorted(n for n in dir(torch) if isinstance(getattr(torch, n), torch.dtype))
CANONICAL = sorted({str(getattr(torch, n)).removeprefix("torch.") for n in NAMES})
ATTRIBUTES = ("itemsize", "is_floating_point", "is_complex", "is_signed", "abbr")
DEFAULTS = ("float16", "bfloat16", "float32", "float64")


def outcome(call):
    """What a call gives, as text, or the type of what it raises."""
    try:
        return repr(call())
    except Exception as error:
        return type(error).__name__


def both(call, name):
    """The outcome of `call(dtype, module)` here and in PyTorch."""
    ours = outcome(lambda: call(D.ALIASES[name], D))
    return ours, outcome(lambda: call(getattr(torch, name), torch))


@pytest.fixture
def default():
    yield D.set_default_dtype
    D.set_default_dtype(D.float32)


def test_every_name_is_here_and_is_a_module_attribute():
    assert sorted(D.ALIASES) == NAMES
    assert all(getattr(D, n) is D.ALIASES[n] for n in NAMES)
    assert {n: str(t) for n, t in D.ALIASES.items()} == {n: str(getattr(torch, n)) for n in NAMES}


@pytest.mark.parametrize("name", CANONICAL)
def test_attributes(name):
    for attribute in ATTRIBUTES:
        ours, theirs = both(lambda t, _, a=attribute: getattr(t, a), name)
        assert ours == theirs, attribute
    for method in ("to_real", "to_complex"):
        ours, theirs = both(lambda t, _, m=method: getattr(t, m)(), name)
        assert ours == theirs, method


@pytest.mark.parametrize("name", CANONICAL)
def test_copies_are_the_same_object(name):
    t = D.ALIASES[name]
    assert all(pickle.loads(pickle.dumps(t, p)) is t for p in range(pickle.HIGHEST_PROTOCOL + 1))
    assert copy.copy(t) is t and copy.deepcopy([t])[0] is t and hash(t) == object.__hash__(t)


@pytest.mark.parametrize("name", CANONICAL)
@pytest.mark.parametrize("info", ["finfo", "iinfo"])
def test_limits(name, info):
    fields = [a for a in dir(getattr(torch, info)) if a[0] != "_"]
    for read in (lambda x: x, *(lambda x, a=a: getattr(x, a) for a in fields)):
        ours, theirs = both(lambda t, m, read=read: read(getattr(m, info)(t)), name)
        if name == "bool" or name.startswith("float4"):
            theirs = "TypeError"
        if name.startswith("q") and info == "iinfo":
            theirs = "NotImplementedError"  # PyTorch's raise it for the repr only
        assert ours == theirs


@pytest.mark.parametrize("name", ["float16", "float32", "complex64", "int8", "uint64"])
def test_limits_compare_and_are_read_only(name):
    info = D.iinfo if "int" in name else D.finfo
    one, other = info(D.ALIASES[name]), info(D.int16 if "int" in name else D.bfloat16)
    assert one == info(D.ALIASES[name]) and one != other and one != 3
    assert pickle.loads(pickle.dumps(one)) == one
    with pytest.raises(AttributeError, match="not writable|read-only"):
        one.max = 3
    with pytest.raises(TypeError, match="unhashable"):
        hash(one)


@pytest.mark.parametrize("call, match", [
    (lambda: D.finfo(D.int32), "floating point.*torch.int32.*torch.iinfo"),
    (lambda: D.finfo("float32"), r"finfo\(\).*'type' must be torch.dtype, not str"),
    (lambda: D.finfo(None), "must be torch.dtype, not NoneType"),
    (lambda: D.iinfo(D.float32), "integer.*torch.float32.*torch.finfo"),
    (lambda: D.iinfo(D.bool), "integer.*torch.bool"),
    (lambda: D.iinfo(), "type"),
    (lambda: D.dtype(), "cannot create 'torch.dtype'"),
    (lambda: D.dtype("float32"), "cannot create"),
    (lambda: type("Mine", (D.dtype,), {}), "not an acceptable base type"),
    (lambda: D.float32 < D.float64, "not supported"),
])  # fmt: skip
def test_type_errors(call, match):
    with pytest.raises(TypeError, match=match):
        call()


@pytest.mark.parametrize("attribute, match", [("itemsize", "not writable"), ("foo", "no attribute 'foo'")])
def test_immutable(attribute, match):
    for change in (lambda: setattr(D.float32, attribute, 3), lambda: delattr(D.float32, attribute)):
        with pytest.raises(AttributeError, match=match):
            change()
    assert D.float32.itemsize == 4


def test_missing_attribute():
    with pytest.raises(AttributeError, match="no attribute 'shape'"):
        _ = D.float32.shape


@pytest.mark.parametrize("name", [n for n in CANONICAL if hasattr(D, n)])
def test_storage(name):
    """What jax can hold has a numpy type and makes the round trip; the rest says so."""
    t = D.ALIASES[name]
    if t in D.FROM_NP.values() and t not in D.QUANTIZED:
        assert D.FROM_NP[jnp.ones(2, t.np).dtype] is t and D.FROM_NP[jnp.ones(2).astype(t.np).dtype] is t
        assert t.itemsize == t.np.itemsize and D.from_np(t.np) is t
    else:
        assert name.startswith(("q", "bits", "complex32", "float4", "int", "uint"))
        with pytest.raises(NotImplementedError, match=f"torch.{name} is not supported"):
            _ = t.np


@pytest.mark.parametrize("name", ["float64", "float16", "complex64", "int8", "uint64", "bool", "q", "intc"])
def test_from_np(name):
    np_dtype = np.dtype(name)
    assert str(D.from_np(np_dtype)) == str(torch.from_numpy(np.zeros(1, np_dtype)).dtype)
    assert D.from_np(np_dtype.type) is D.from_np(np_dtype)


@pytest.mark.parametrize("bad", ["U1", "O", "M8[s]", "m8[s]", "S3", "g", "G", [("a", "f4")], ">f4", ">U3"])
def test_from_np_refuses(bad):
    with pytest.raises((TypeError, ValueError)) as theirs:
        torch.from_numpy(np.zeros(1, bad))
    with pytest.raises(theirs.type, match="numpy.*float32|byte order.*native"):
        D.from_np(np.dtype(bad))


def test_from_np_takes_the_types_of_ml_dtypes():
    assert D.from_np(np.dtype(ml_dtypes.bfloat16)) is D.bfloat16
    assert D.from_np(ml_dtypes.float8_e5m2) is D.float8_e5m2


@pytest.mark.parametrize("python", [float, int, bool, complex])
def test_as_dtype_python_types(python):
    assert str(D.as_dtype(python)) == str(torch.zeros(1, dtype=python).dtype)


def test_as_dtype_of_a_dtype():
    assert D.as_dtype(D.half) is D.float16


@pytest.mark.parametrize("bad", ["float32", 3, None, str, np.float32, np.dtype("float32"), object()])
def test_as_dtype_refuses(bad):
    kind = type(bad).__name__
    with pytest.raises(TypeError, match=rf"zeros\(\): argument 'dtype' must be torch.dtype, not {kind}"):
        D.as_dtype(bad, "zeros")


@pytest.mark.parametrize("name", DEFAULTS)
def test_default(name, default):
    assert D.get_default_dtype() is D.float32
    default(D.ALIASES[name])
    assert D.get_default_dtype() is D.ALIASES[name] and D.finfo().dtype == name


@pytest.mark.parametrize("bad", [D.int32, D.complex64, D.bool, D.float8_e5m2, float, "float32", None])
def test_default_refuses(bad, default):
    with pytest.raises(TypeError, match="default type"):
        default(bad)
    assert D.get_default_dtype() is D.float32


def test_tensor_types():
    theirs = {n: getattr(torch, n) for n in dir(torch) if n.endswith("Tensor") and n != "Tensor"}
    assert {n: str(t) for n, t in D.TENSOR_TYPES.items()} == {n: str(t.dtype) for n, t in theirs.items()}
    assert all(
        f"torch.{D.ALIASES[n].scalar_name}Tensor" == torch.ones(1, dtype=getattr(torch, n)).type()
        for n in ("float32", "float16", "bfloat16", "int8", "uint8", "uint16", "complex64", "bool")
    )
