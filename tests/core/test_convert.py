"""The host boundary: Python numbers and sequences, numpy, DLPack and jax arrays, in and out."""

import copy
import math
import operator
import pickle

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch
from both import agree, agree_error, attempt

import torchlike

# -- Python data in ------------------------------------------------------------------------------------

DATA = {
    "numbers": [3, 2.5, True, 1 + 2j, -(2**63), 2**63 - 1, float("nan"), float("-inf"), 1e39],
    "lists": [[1, 2], [1, 2.5], [True, 2], [True, 1.5], [1, 2j], (1, 2), range(3), [[1, 2], [3, 4]], ((1,), [2])],
    "empty": [[], [[]], [[], []], (), np.zeros((0, 3))],
    "numpy numbers": [np.float64(2), np.int32(1), np.float16(1), np.bool_(True), np.complex64(1j), np.uint8(7)],
    "lists of numpy numbers": [[np.float32(1), 2.0], [np.float64(1)], [np.int32(1), 2], [np.float16(1)] * 2],
    "arrays": [np.arange(3), np.ones((2, 2), np.float16), np.array(3.5), np.ones((2, 3)).T, np.ones(4)[::2]],
    "lists of arrays": [[np.ones(2), np.zeros(2)], [np.array([1, 2]), [3, 4]], [np.ones((1,))], [[np.ones(2)] * 2]],
    "refused": ["a", b"a", ["a"], [1, "a"], None, [None], [1, None], {}, {"a": 1}, {1, 2}, [{}], object(), [object()]],
    "ragged": [[[1, 2], [3]], [1, [2]], [[1], 2], [[1, 2], [[3], [4]]], [[[1]], [2]], [np.array(1), 2]],
    "too large": [2**63, 2**64, -(2**63) - 1, [2**63], [2**63, 1.0]],
    "unusual arrays": [np.array(["a"]), np.array([None]), np.arange(4)[::-1], np.array([1], ">f4")],
}


@pytest.mark.parametrize("name", DATA)
def test_tensor(name):
    for data in DATA[name]:
        for make in (lambda t: t.tensor(data), lambda t: t.as_tensor(data)):  # noqa: B023
            agree(lambda t: attempt(lambda: make(t)))  # noqa: B023


CASTS = [
    ("int32", [2**40, 1e10, -1.5, float("nan"), 1j, "a", True, -(2**31), 2**31]),
    ("uint8", [300, 255, 256, -1, -255, -256, 300.5, -1.5, 0.5, True]),
    ("int8", [-128, 127, 128, -129, 1.9]),
    ("int64", [1.9, [1.9, -1.9], 1e19, float("inf"), 2**63, np.array([1.5, -2.5])]),
    ("uint64", [2**63, -1, 5]),
    ("uint16", [65535, -1, 65536]),
    ("float32", [2**63, True, 1e39, 1j, 1 + 0j, [1, 2.5], np.array(1j)]),
    ("float16", [1e5, float("inf"), [1, 2]]),
    ("bfloat16", [1.5, [3, 2.25], 1e39]),
    ("bool", [0, 2, 1.5, 0.0, float("nan"), 1j, [0, 1, 2], np.array([0.0, 0.5])]),
    ("complex64", [1, 2.5, 1j, [1, 2j], True]),
]


@pytest.mark.parametrize("dtype, values", CASTS)
def test_tensor_of_a_given_dtype(dtype, values):
    for value in values:
        agree(lambda t: attempt(lambda: t.tensor(value, dtype=getattr(t, dtype))))  # noqa: B023


TENSORS = {
    "of tensors": lambda t: t.tensor([t.tensor(1), t.tensor(2.5)]),
    "with their dtype": lambda t: t.tensor([t.tensor(1.0, dtype=t.float64), 2.5]),
    "of one element": lambda t: t.tensor([t.tensor([[1.0]]), 2.0]),
    "of integers": lambda t: t.tensor([t.tensor(1, dtype=t.int32)]),
    "of several elements": lambda t: attempt(lambda: t.tensor([t.ones(2)])),
    "a copy": lambda t: (x := t.ones(2, requires_grad=True), y := t.tensor(x), y.is_leaf, y.data_ptr() == x.data_ptr()),
    "as_tensor is no copy": lambda t: (x := t.ones(2), t.as_tensor(x) is x, t.as_tensor(x, dtype=t.float64)),
    "wraps around": lambda t: t.tensor(t.tensor(300), dtype=t.uint8),
    "drops imaginary parts": lambda t: t.tensor(t.tensor(1j), dtype=t.float32),
    "requires grad": lambda t: t.tensor([1.0, 2.0], requires_grad=True),
    "integers cannot": lambda t: attempt(lambda: t.tensor([1], requires_grad=True)),
    "of a size": lambda t: t.tensor(t.Size([2, 3])),
}


@pytest.mark.parametrize("name", TENSORS)
def test_tensors_from_tensors(name):
    agree(TENSORS[name])


@pytest.mark.parametrize("dtype", ["int64", "uint8", "bool", "float32", "complex64"])
@pytest.mark.parametrize("value", [1.0, 1.5, 2, True, 1j])
def test_tensors_within_lists_keep_their_fractions_or_are_refused(dtype, value):
    makes = (
        lambda t, to: t.tensor([t.tensor(value)], dtype=to),
        lambda t, to: t.tensor([[t.tensor([value])], [[1]]], dtype=to),
        lambda t, to: t.as_tensor([t.tensor(value), 1], dtype=to),
        lambda t, to: t.zeros(1, dtype=to).new([t.tensor(value)]),
        lambda t, to: t.tensor(t.tensor(value), dtype=to),
        lambda t, to: t.zeros(1, dtype=to).new_tensor(t.tensor([value])),
    )
    if isinstance(value, complex) and dtype == "float32":
        makes = ()  # refused alike, as a RuntimeError by PyTorch
    for make in makes:
        agree(lambda t: attempt(lambda: make(t, getattr(t, dtype))))  # noqa: B023


def test_a_copy_is_taken():
    array = np.zeros(3)
    tensors = [torchlike.tensor(array), torchlike.as_tensor(array, dtype=torchlike.float32)]
    array[:] = 7
    assert all(t.tolist() == [0, 0, 0] for t in tensors)


# -- Python data out -----------------------------------------------------------------------------------


def numbers(t):
    return [
        t.tensor(3), t.tensor([2.5]), t.tensor([[True]]), t.tensor(1 + 2j), t.tensor(1 + 0j), t.tensor(-0.0), t.ones(2),
        t.ones(0), t.tensor(1.5, dtype=t.bfloat16), t.tensor(float("inf")), t.tensor(float("nan")), t.tensor(-7.9),
        t.tensor(2**53 + 1), t.ones(1, requires_grad=True), t.tensor(200, dtype=t.uint8), t.ones(2, 1),
    ]  # fmt: skip


READERS = {
    "item": lambda x: x.item(),
    "tolist": lambda x: x.tolist(),
    "int": int,
    "float": float,
    "complex": complex,
    "bool": bool,
    "index": operator.index,
    "format": lambda x: (f"{x}", f"{x:.3f}", f"{x:>9}"),
    "format as integer": lambda x: f"{x:04d}",
    "percent": lambda x: f"{x!s:>5}" + "%d" % x,  # noqa: UP031
    "round": lambda x: (round(x), math.floor(x), math.ceil(x)),
    "as an index": lambda x: [10, 20, 30, 40][x],
    "len": len,
    "list": lambda x: [float(v) for v in x],
    "contains": lambda x: (1 in x, 2.5 in x),
    "abs": lambda x: (abs(x), -x, +x),
}


@pytest.mark.parametrize("name", READERS)
def test_numbers_out(name):
    agree(lambda t: [attempt(lambda: READERS[name](x)) for x in numbers(t)])  # noqa: B023


def test_sequences():
    def f(t):
        x = t.tensor([3.0, 1.0, 2.0])
        matrix = t.tensor([[1, 2], [3, 4]])
        built_in = max(x), min(x), sum(x), sorted(x), list(reversed(matrix)), [*zip(x, matrix, strict=False)]
        return built_in, len(matrix), [r.tolist() for r in matrix], attempt(lambda: len(t.tensor(1))), any(x > 2)

    agree(f)


def test_comparisons_with_other_objects():
    def f(t):
        x = t.ones(2)
        tries = [lambda: x == "a", lambda: x == None, lambda: x != None, lambda: x < "a", lambda: "a" + x,  # noqa: E711
                 lambda: [1, 2] + x, lambda: x @ 3, lambda: x + None, lambda: x * [1, 2]]  # fmt: skip
        return [attempt(one) for one in tries], x is None, not t.tensor(0), hash(x) == hash(x)

    agree(f)


# -- numpy ---------------------------------------------------------------------------------------------

CUBE = np.arange(24.0).reshape(2, 3, 4)
NUMPY = {
    "numpy": lambda t: t.ones(2, 3).numpy(),
    "of a view": lambda t: t.arange(6).view(2, 3).t()[1:].numpy(),
    "every dtype": lambda t: [t.ones(1, dtype=getattr(t, d)).numpy().dtype for d in
                              ("float16", "float64", "int8", "uint8", "int16", "bool", "complex64", "uint16")],
    "force": lambda t: t.ones(2, requires_grad=True).numpy(force=True),
    "requires grad": lambda t: attempt(lambda: t.ones(2, requires_grad=True).numpy()),
    "asarray of what requires grad": lambda t: attempt(lambda: np.asarray(t.ones(2, requires_grad=True))),
    "bfloat16": lambda t: attempt(lambda: t.ones(2, dtype=t.bfloat16).numpy()),
    "conjugate": lambda t: (z := t.tensor([1j]).conj(), attempt(z.numpy), z.resolve_conj().numpy()),
    "asarray": lambda t: (np.asarray(t.ones(2)), np.asarray(t.ones(2), dtype=np.int32), np.array(t.ones(2, 2)).shape),
    "ufuncs": lambda t: (np.sin(t.zeros(2)), np.greater(t.ones(2), 0), np.maximum(t.ones(2), 2), np.isnan(t.ones(2))),
    "number on the left": lambda t: (np.float64(2) * t.ones(2), np.int64(3) - t.ones(2), np.float64(2) ** t.ones(2)),
    "number on the right": lambda t: (t.ones(2) * np.float64(2), t.ones(2) + np.int64(2), t.ones(2) > np.float32(0.5)),
    "array on the left": lambda t: [attempt(f) for f in (
        lambda: np.ones(2) + t.ones(2), lambda: np.ones((2, 2)) @ t.ones(2), lambda: np.ones(2) > t.ones(2))],
    "array on the right": lambda t: [attempt(f) for f in (
        lambda: t.ones(2) * np.ones(2), lambda: t.ones(2) - np.ones(2), lambda: t.ones(2) > np.ones(2))],
    "array as an argument": lambda t: attempt(lambda: t.ones(2).add(np.ones(2))),
    "functions": lambda t: (np.stack([t.ones(2), t.zeros(2)]), np.array([t.tensor(1.0), t.tensor(2.0)]),
                            np.allclose(t.ones(2), 1)),
    "from_numpy": lambda t: [t.from_numpy(a) for a in (np.arange(3.0), np.array(True), np.zeros((0, 2)), CUBE.T)],
    "strides of from_numpy": lambda t: [t.from_numpy(a).stride() for a in (CUBE.T, CUBE.transpose(1, 0, 2))],
    "not an array": lambda t: (attempt(lambda: t.from_numpy([1])), attempt(lambda: t.from_numpy(np.float32(1)))),
    "strings": lambda t: attempt(lambda: t.from_numpy(np.array(["a"]))),
    "negative strides": lambda t: (attempt(lambda: t.from_numpy(CUBE[::-1])), t.from_numpy(CUBE[::-1].copy())),
    "shapes from numpy": lambda t: (t.zeros(np.int64(2)), t.ones(2, 3).view(np.array(6)), t.arange(6)[np.int64(2)]),
}  # fmt: skip


@pytest.mark.parametrize("name", NUMPY)
def test_numpy(name):
    agree(NUMPY[name])


def test_numpy_under_no_grad():
    def f(t):
        with t.no_grad():
            return t.ones(2, requires_grad=True).numpy()

    agree(f)


# -- jax and DLPack ------------------------------------------------------------------------------------


def test_jax_arrays_in_and_out():
    array = jnp.arange(6.0).reshape(2, 3)
    x = torchlike.from_jax_array(array)
    assert x.jax().shape == (2, 3) and x.dtype is torchlike.from_jax_array(array).dtype
    assert isinstance(jnp.asarray(x), jax.Array) and jnp.asarray(x).tolist() == array.tolist()
    before = x.jax()
    x.add_(1)
    assert before.tolist() == array.tolist() and x.jax().tolist() == (array + 1).tolist()
    assert x.t()[1:].jax().tolist() == (array + 1).T[1:].tolist()
    assert torchlike.tensor(array).tolist() == array.tolist()


def test_weak_types_do_not_come_in():
    x = torchlike.from_jax_array(jnp.asarray(2.0) * 1)
    assert not x.jax().weak_type and (x + torchlike.tensor([1])).dtype is x.dtype


def test_refused_jax_arrays():
    numpy_array = np.ones(2), "expected jax.Array .got ndarray.*as_tensor"
    for bad, match in (numpy_array, (jax.random.key(0), "have no torch dtype")):
        with pytest.raises(TypeError, match=match):
            torchlike.from_jax_array(bad)


@pytest.mark.parametrize("dtype", ["float32", "float64", "int64", "uint8", "float16", "bfloat16", "bool", "complex64"])
def test_dlpack_with_pytorch(dtype):
    real = torch.ones(2, 3, dtype=getattr(torch, dtype))
    ours = torchlike.from_dlpack(real)
    assert str(ours.dtype) == str(real.dtype) and tuple(ours.shape) == (2, 3)
    back = torch.from_dlpack(ours)
    assert back.dtype is real.dtype and torch.equal(back, real)


FLOAT8 = "e4m3fn e4m3fnuz e5m2 e5m2fnuz e8m0fnu".split()


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", *["float8_" + n for n in FLOAT8]])
def test_dlpack_shares_memory(dtype):
    theirs = torch.ones(2, 3).to(getattr(torch, dtype))
    ours, x = torchlike.from_dlpack(theirs.t()), torchlike.ones(4).to(getattr(torchlike, dtype))
    capsules = [t.utils.dlpack.to_dlpack(y) for t, y in ((torch, theirs), (torchlike, x[::2]), (torchlike, x))]
    y, z, w = [t.utils.dlpack.from_dlpack(c) for t, c in zip((torchlike, torch, torchlike), capsules, strict=True)]
    ours[2, 1], y[0, 0] = 2, 4
    z[1], w[0] = 8, 16
    assert theirs.float().tolist() == [[4, 1, 1], [1, 1, 2]] == ours.float().mT.tolist()
    assert x.float().tolist() == [16, 1, 8, 1] == w.float().tolist()


def test_dlpack_devices_and_views():
    x = torchlike.arange(6).view(2, 3).t()
    assert np.from_dlpack(x).tolist() == [[0, 3], [1, 4], [2, 5]]
    assert x.__dlpack_device__() == torch.ones(1).__dlpack_device__()
    assert torchlike.from_dlpack(x).tolist() == x.tolist()


# -- copying and pickling ------------------------------------------------------------------------------


def test_copies():
    def f(t):
        x = t.tensor([1.0, 2.0], requires_grad=True)
        (x * 2).sum().backward()
        shallow, deep = copy.copy(x), copy.deepcopy(x)
        with t.no_grad():
            x.add_(1)
        pair = copy.deepcopy([x, x])
        view, turned = copy.deepcopy(t.arange(6.0).view(2, 3)[1]), copy.deepcopy(t.ones(2, 3).t())
        refused = attempt(lambda: copy.deepcopy(x * 2))
        return shallow, deep, deep.grad, deep.is_leaf, pair[0] is pair[1], view, turned.stride(), refused

    agree(f)


def test_pickles():
    def f(t):
        x = t.tensor([[1.0, 2.0]], requires_grad=True)
        values = [x, t.ones(2, dtype=t.bfloat16), t.tensor(True), t.arange(4)[1:3], t.tensor([1j]), t.zeros(0, 2)]
        turned = pickle.loads(pickle.dumps(t.ones(2, 3).t()))
        return [pickle.loads(pickle.dumps(v)) for v in values], turned.stride()

    agree(f)


ERRORS = {
    "ambiguous": (lambda t: bool(t.ones(2)), "Boolean value of Tensor with more than one value is ambiguous"),
    "no values": (lambda t: bool(t.ones(0)), "Boolean value of Tensor with no values is ambiguous"),
    "item": (lambda t: t.ones(3).item(), "a Tensor with 3 elements cannot be converted to Scalar"),
    "float": (lambda t: float(t.ones(2)), "only one element tensors can be converted to Python scalars"),
    "index": (lambda t: [1][t.tensor(0.0)], "only integer tensors of a single element can be converted to an index"),
    "len": (lambda t: len(t.tensor(1)), "len.. of a 0-d tensor"),
    "iteration": (lambda t: list(t.tensor(1)), "iteration over a 0-d tensor"),
    "ragged": (lambda t: t.tensor([[1, 2], [3]]), r"expected sequence of length 2 at dim 1 \(got 1\)"),
    "str": (lambda t: t.tensor([1, "a"]), "invalid data type 'str'"),
    "none": (lambda t: t.tensor([None]), "Could not infer dtype of NoneType"),
    "overflow": (lambda t: t.tensor(2**63), "Overflow when unpacking long long"),
    "overflow of a dtype": (lambda t: t.tensor(300, dtype=t.uint8), "cannot be converted to type uint8"),
    "deepcopy": (lambda t: copy.deepcopy(t.ones(1, requires_grad=True) * 2), "Only Tensors created explicitly"),
    "no array": (lambda t: t.from_numpy([1]), r"expected np.ndarray \(got list\)"),
}


@pytest.mark.parametrize("name", ERRORS)
def test_errors(name):
    script, match = ERRORS[name]
    agree_error(script, match)


def test_equality_takes_numpy_arrays_and_inequality_does_not():
    array = np.array([1.0, 3.0])
    ours, theirs = torchlike.tensor([1.0, 2.0]), torch.tensor([1.0, 2.0])
    assert str(ours == array) == str(theirs == array)
    assert (ours != array) is (theirs != array) is True
