"""Functions that make tensors, against PyTorch."""

import warnings

import numpy as np
import pytest
import torch
from narrow_kit import narrowed
from oracle import assert_same, check_error, flatten

import torchlike

MADE = """
zeros(2, 3)|zeros((2, 3))|zeros([2])|zeros(size=(2,))|zeros(())|zeros(2, dtype=T.int32)|zeros(T.tensor(2), 3)
zeros((2, True))
ones(3)|ones(2, dtype=T.complex64)|ones(2, requires_grad=True)|ones(2, dtype=T.bool)|ones(0, 3)|empty(2, 0)
full((2,), 7)|full((2,), 2.5)|full((2,), True)|full((2,), 1j)|full((), 5)|full((2,), T.tensor(3))
full((2,), 2.7, dtype=T.int64)
full([2], 3, dtype=T.bool)|full(size=(2,), fill_value=1)|full((2,), float("nan"))|full((2,), -1, dtype=T.uint8)
arange(5)|arange(5.)|arange(1, 5)|arange(1, 2.5, .5)|arange(5, 1, -1)|arange(0)|arange(0, 1, .1)|arange(1, 1.3, .1)
arange(T.tensor(3))|arange(T.tensor(3.))|arange(3, dtype=T.float16)|arange(2.7, dtype=T.int64)
arange(0.5, 3.2, dtype=T.int64)
arange(3., requires_grad=True)|arange(True)|arange(end=3)|arange(start=1, end=3)|arange(0, 3, step=2)|arange(-3, 4, 3)
arange(3, 0, -0.7)|range(1, 4)|range(1, 4, 0.5)|range(3, 1, -1)
linspace(0, 1, 5)|linspace(0, 1, 1)|linspace(0, 1, 0)|linspace(3, -2, 7)|linspace(0, 10, 5, dtype=T.int64)
linspace(-3, 4, 5, dtype=T.int64)|linspace(0, 1, 3, dtype=T.complex64)|linspace(0, 1j, 3)
linspace(T.tensor(0), T.tensor(1), 3)
linspace(start=0, end=1, steps=3)|linspace(0, 1, 3, dtype=T.float16)|linspace(0, 1, 3, dtype=T.uint8)
linspace(-1e6, 1e6, 11)
logspace(0, 2, 3)|logspace(0, 2, 3, base=2)|logspace(0, 2, 5, base=2, dtype=T.int64)|logspace(0, 2, 1)
logspace(-1, 1, 4, base=-2)
logspace(0, 1, 3, base=0)|eye(3)|eye(2, 3)|eye(2, 3, dtype=T.bool)|eye(0)|eye(n=2, m=1)|eye(3, dtype=T.int64)
tril_indices(3, 3)|tril_indices(3, 4, 1)|triu_indices(3, 4, -1)|tril_indices(3, 3, dtype=T.int32)
triu_indices(2, 2, offset=5)
scalar_tensor(3)|scalar_tensor(True)|scalar_tensor(3, dtype=T.int64)|asarray([1, 2])|asarray(np.ones(2))|asarray(3.)
asarray(T.ones(2), dtype=T.int32)|asarray([1., 2], requires_grad=True)|asarray(b"ab", dtype=T.uint8)
asarray(np.float32(2))
asarray(T.ones(2), copy=True)|frombuffer(bytearray(b"abcd"), dtype=T.uint8)
frombuffer(bytearray(b"abcdefgh"), dtype=T.int32, offset=4)
frombuffer(bytearray(b"abcdefgh"), dtype=T.int32, count=1)|zeros_like(X)|zeros_like(X.permute(2, 0, 1))
zeros_like(X.expand(2, 2, 3, 4))
zeros_like(X[..., ::2])|zeros_like(X, dtype=T.int64)
zeros_like(X, memory_format=T.channels_last) if X.ndim == 4 else zeros_like(X)
ones_like(X.permute(2, 0, 1), memory_format=T.contiguous_format)|ones_like(X, requires_grad=True)|full_like(X, 3)
full_like(X.int(), 3.7)
full_like(X, T.tensor(3))|full_like(X.permute(2, 1, 0), 1)|X.new_zeros(2, 3)|X.new_zeros((2, 3))|X.new_zeros(size=(2,))
X.new_zeros([2], dtype=T.int32)|X.new_zeros(())|X.new_ones(2, requires_grad=True)|X.new_full((2,), 3)
X.int().new_full((2,), 3.5)
X.new_full((2,), 3, dtype=T.bool)|X.new_tensor([1, 2])|X.int().new_tensor([1.5, 2])|X.new_tensor(T.ones(2))
X.new_empty(2, 0)
X.new_tensor(5, dtype=T.int64)|X.new([1, 2])|X.new(0, 3)|zeros(2, out=T.ones(3))|zeros(2, out=T.ones(2, dtype=T.int32))
full((2,), 1.5, out=T.zeros(2, dtype=T.int32))|arange(3, out=T.zeros(5))|linspace(0, 1, 3, out=T.zeros(1))
eye(2, out=T.zeros(1))
zeros(2, device="cpu")|ones(2, dtype=None)|zeros(np.int64(2))|zeros(2, 3, dtype=T.bfloat16)
"""
CASES = [case for line in MADE.strip().splitlines() for case in line.split("|")]
STRIDED = """empty(())|empty_strided((2, 3), (1, 2))|empty_strided((2, 3), (1, 4))|empty_strided((2, 3), (0, 1))
empty_strided((2, 3), (3, 1))
empty_strided((0, 3), (3, 1))|empty_permuted((2, 3), (1, 0))|empty_permuted((2, 3, 4), (2, 0, 1))
empty_like(X.permute(2, 0, 1))
empty((1, 2, 3, 4), memory_format=T.channels_last)|X.new_empty_strided((2, 3), (1, 2))|empty((2, 3), device="meta")
zeros(2, device="meta")|full((2,), 3, device="meta")|arange(3, device="meta")|zeros_like(X, device="meta")"""


def made(lib, case):
    X = lib.arange(24.0).reshape(2, 3, 4)
    name = case.partition("(")[0].partition(".")[0]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return eval(case, {"np": np, "T": lib, "X": X, name: X if name == "X" else getattr(lib, name)})


@pytest.mark.parametrize("case", CASES)
def test_values(case):
    ours, theirs = made(torchlike, case), made(torch, case)
    for a, b in zip(flatten(ours), flatten(theirs), strict=True):
        assert_same(a, b, stride=True)
        assert a.requires_grad == b.requires_grad


@pytest.mark.parametrize("case", [c for line in STRIDED.splitlines() for c in line.split("|")])
def test_geometry(case):
    ours, theirs = made(torchlike, case), made(torch, case)
    assert ours.shape == tuple(theirs.shape)
    assert ours.stride() == theirs.stride()
    assert str(ours.dtype) == narrowed(str(theirs.dtype))
    assert str(ours.device) == str(theirs.device)


def test_random_ranges():
    rng = np.random.RandomState(0)
    for _ in range(200):
        first, last, steps = float(rng.randn() * 10), float(rng.randn() * 10), int(rng.randint(0, 40))
        step = float(rng.rand() + 0.1) * (1 if last > first else -1)
        for f in (lambda t: t.arange(first, last, step), lambda t: t.linspace(first, last, steps)):  # noqa: B023
            assert_same(f(torchlike), f(torch), f"{first} {last} {steps}")


def test_defaults():
    """The default dtype is that of what is made without one."""
    for lib in (torch, torchlike):
        lib.set_default_dtype(lib.float64)
        try:
            assert str(lib.zeros(1).dtype) == str(lib.linspace(0, 1, 2).dtype) == "torch.float64"
            assert str(lib.arange(2.0).dtype) == str(lib.full((1,), 0.5).dtype) == "torch.float64"
            assert str(lib.full((1,), 1j).dtype) == "torch.complex128"
            lib.set_default_dtype(lib.float16)
            assert str(lib.full((1,), 1j).dtype) == "torch.complex64"
        finally:
            lib.set_default_dtype(lib.float32)


def test_an_output_that_is_to_require_grad():
    """``requires_grad=`` holds for ``out=``, too."""
    for make in (lambda t: t.zeros(2, out=t.ones(2), requires_grad=True),
                 lambda t: t.eye(2, out=t.ones(2), requires_grad=True),
                 lambda t: t.rand(2, out=t.ones(2), requires_grad=True)):  # fmt: skip
        assert make(torchlike).requires_grad is make(torch).requires_grad is True


ERRORS = [
    (lambda t: t.zeros(), "size"), (lambda t: t.zeros(-1), "negative|non-negative"),
    (lambda t: t.zeros(2.5), "tuple of ints, not float"),
    (lambda t: t.zeros("a"), "tuple of ints, not str"),
    (lambda t: t.zeros(2, dtype="float"), "must be torch.dtype, not str"),
    (lambda t: t.zeros(2, dtype=t.int64, requires_grad=True), "floating point and complex"),
    (lambda t: t.zeros(True), "not bool"),
    (lambda t: t.ones(2, size=(3,)), "multiple values"), (lambda t: t.full(2, 3), "tuple of ints, not int"),
    (lambda t: t.zeros(2, out=t.ones(2, dtype=t.int32), dtype=t.float32), "Float does not match dtype of out"),
    *[(f, "does not match layout of out") for f in (
        lambda t: t.zeros(2, out=t.ones(2), layout=t.sparse_coo),
        lambda t: t.rand(2, out=t.ones(2), layout=t.sparse_coo),
        lambda t: t.full((2,), 1, out=t.ones(2), layout=t.sparse_coo))],
    *[(f, "meta does not match device type of out") for f in (
        lambda t: t.zeros(2, out=t.ones(2), device="meta"), lambda t: t.arange(2, out=t.ones(2), device="meta"),
        lambda t: t.randn(2, out=t.ones(2), device="meta"))],
    *[(f, "automatic differentiation|cannot resize variables that require grad") for f in (
        lambda t: t.zeros(2, out=t.ones(2, requires_grad=True)), lambda t: t.rand(2, out=t.ones(2, requires_grad=True)),
        lambda t: t.arange(2, out=t.ones(2, requires_grad=True)),
        lambda t: t.randn(2, out=t.ones(2, requires_grad=True)))],
    (lambda t: t.full((2,), "a"), "must be Number, not str"),
    (lambda t: t.full((2,), None), "must be Number, not NoneType"),
    (lambda t: t.full((2,), 300, dtype=t.uint8), "without overflow"),
    (lambda t: t.full((-2,), 1), "negative dimension -2"),
    (lambda t: t.arange(5, 1), "inconsistent with step sign"), (lambda t: t.arange(1, 5, 0), "step must be nonzero"),
    (lambda t: t.arange(0, 3, 0.6, dtype=t.int64), "step must be nonzero"),
    (lambda t: t.arange(3, requires_grad=True), "floating point"),
    (lambda t: t.arange(float("inf")), "unsupported range"), (lambda t: t.arange(float("nan")), "unsupported range"),
    (lambda t: t.arange(3, dtype=t.bool), "not implemented for 'Bool'"),
    (lambda t: t.arange(3j), "double without overflow"),
    (lambda t: t.arange(3, step=2), "invalid combination"), (lambda t: t.arange("a"), "must be Number, not str"),
    (lambda t: t.arange(), "invalid combination"), (lambda t: t.linspace(0, 1, -1), "steps must be non-negative"),
    (lambda t: t.linspace(0, 1), "steps"), (lambda t: t.linspace(t.tensor([0]), 1, 3), "0-dimensional start and end"),
    (lambda t: t.linspace(0, 1, 3, dtype=t.bool), "not implemented for 'Bool'"),
    (lambda t: t.linspace(0, 1, 3.0), "steps"),
    (lambda t: t.logspace(0, 2, -3), "non-negative"), (lambda t: t.eye(-1), "n must be greater or equal to 0, got -1"),
    (lambda t: t.eye(2, -1), "m must be greater or equal to 0"), (lambda t: t.eye(2.0), "must be int, not float"),
    (lambda t: t.eye(2, None), "eye"), (lambda t: t.eye(2, m=None), "eye"),
    (lambda t: t.tril_indices(-1, 3), "row must be non-negative"),
    (lambda t: t.tril_indices(3, 3, dtype=t.float32), "not implemented"),
    (lambda t: t.scalar_tensor(1j), "without overflow"), (lambda t: t.zeros_like(3), "must be Tensor, not int"),
    (lambda t: t.asarray(t.ones(2), copy=False, dtype=t.int32), "alias tensor with dtype 'Float' into dtype 'Int'"),
    (lambda t: t.asarray([1, 2], copy=False), "can't alias arbitrary sequence"),
    (lambda t: t.frombuffer(bytearray(b"abcd"), dtype=t.int32, count=3), "requested buffer length"),
    (lambda t: t.frombuffer(bytearray(b"abc"), dtype=t.int32), "multiple of element size .4."),
    (lambda t: t.frombuffer(bytearray(b"abc"), dtype=t.uint8, offset=5), "offset .5 bytes."),
    (lambda t: t.frombuffer(bytearray(b""), dtype=t.uint8), "must not be 0"),
    (lambda t: t.frombuffer(3, dtype=t.uint8), "buffer protocol"),
    (lambda t: t.empty_strided((2, 3), (1,)), "must match dimensionality of strides"),
    (lambda t: t.ones(2).new_zeros(-1), "negative"),
    (lambda t: t.empty((2, 3), memory_format=t.channels_last), "required rank 4"),
    (lambda t: t.ones(2).new_zeros(), "size"),
]  # fmt: skip


@pytest.mark.parametrize(("f", "match"), ERRORS)
def test_errors(f, match):
    check_error(f, match=match)
