"""``torch.fft``: values, memory order, derivatives of both orders, the calls they are made of, errors."""

import numpy as np
import pytest
import torch
from both import agree
from oracle import check, check_error

import torchlike

rng = np.random.RandomState(3)
REAL, COMPLEX = rng.randn(3, 4, 6), rng.randn(3, 4, 6) + 1j * rng.randn(3, 4, 6)
SINGLE, INTS, BOOLS = REAL.astype(np.float32), np.arange(12).reshape(3, 4), REAL > 0
ONE = ["fft", "ifft", "rfft", "irfft", "hfft", "ihfft"]
OF_REAL = ("rfft", "rfft2", "rfftn", "ihfft", "ihfft2", "ihfftn")
ONES = ["{}(x, 5)", "{}(x, n=9, dim=1, norm='ortho')", "{}(x.mT, norm='forward')"]
TWO = ["{}(x, (5, 8))", "{}(x, (3, -1), dim=(1, 0), norm='forward')"]
MANY = ["{}(x)", "{}(x, dim=(2, 0, 1), norm='ortho')", "{}(x, s=(7,), norm='backward')"]


def lam(text):
    return eval(f"lambda t, x: {text}")


def calls():
    for name in ONE:
        for ending, forms in (("", ONES), ("2", TWO), ("n", MANY)):
            for form in forms:
                yield "t.fft." + form.format(name + ending)


@pytest.mark.parametrize("case", [*calls()])
def test_transforms(case):
    second = "ortho" not in case
    check(lam(case), REAL, gradgrad=second)
    if case.split("(")[0].split(".")[2] not in OF_REAL:
        check(lam(case), COMPLEX, gradgrad=second)


@pytest.mark.parametrize("array", [SINGLE, COMPLEX.astype(np.complex64), INTS, BOOLS], ids=lambda a: str(a.dtype))
@pytest.mark.parametrize("name", [n + e for n in ONE for e in ("", "2", "n")])
def test_types(name, array):
    if array.dtype.kind == "c" and name in OF_REAL:
        check_error(lam(f"t.fft.{name}(x)"), array, match="rfftn? expects a real|ihfft expects a real|Only supports")
    else:
        check(lam(f"t.fft.{name}(x)"), array, gradgrad=False, jit=False)


EDGES = """t.fft.fftn(x, dim=())
t.fft.fft(x, 1) | t.fft.rfft(x, 1) | t.fft.irfft(x, 1) | t.fft.irfft(x, 2) | t.fft.rfft(x[0, 0]) | t.fft.fftn(x.sum())
t.fft.fftn(x[None, None, None], dim=(3, 4, 5, 2)) | t.fft.irfftn(x[None, None], dim=(2, 3, 1, 4))
t.fft.fftshift(x) | t.fft.fftshift(x, 1) | t.fft.ifftshift(x, (0, -1)) | t.fft.ifftshift(x)
t.fft.ifft(t.fft.fft(x)) | t.fft.irfft(t.fft.rfft(x)) | t.fft.hfft(t.fft.ihfft(x)) | t.fft.ifftn(t.fft.fftn(x))"""


@pytest.mark.parametrize("case", [c.strip() for line in EDGES.split("\n") for c in line.split("|")])
def test_edges(case):
    check(lam(case), REAL)


def test_empty_batches():
    """PyTorch on the CPU has no plan for them ("MKL FFT error") and refuses; here they are empty."""
    x = torchlike.zeros(3, 0, 6)
    shapes = [tuple(getattr(torchlike.fft, name)(x).shape) for name in ONE]
    assert shapes == [(3, 0, 6), (3, 0, 6), (3, 0, 4), (3, 0, 10), (3, 0, 10), (3, 0, 4)]


FREQUENCIES = """fftfreq(5) | fftfreq(4, 0.5) | fftfreq(0) | fftfreq(7, dtype=t.float64) | fftfreq(5, dtype=t.half)
fftfreq(3, d=0.1, requires_grad=True) | rfftfreq(5) | rfftfreq(4, 2) | rfftfreq(0) | rfftfreq(9, dtype=t.float64)
fftfreq(5, out=t.empty(0)) | rfftfreq(6, 3.0, out=t.empty(0, dtype=t.float64))"""


@pytest.mark.parametrize("case", [c.strip() for line in FREQUENCIES.split("\n") for c in line.split("|")])
def test_frequencies(case):
    agree(eval(f"lambda t: t.fft.{case}"))


def test_nodes():
    """The graph of each is that of PyTorch's three operators, with what they save."""

    def graph(t):
        x = t.ones(4, 6, requires_grad=True)
        z = t.ones(4, 6, dtype=t.complex64, requires_grad=True)
        for name in ONE:
            for leaf in (x, z) if name not in OF_REAL else (x,):
                node = getattr(t.fft, name)(leaf, 5).grad_fn
                while node is not None:
                    yield node.name(), {k: getattr(node, k) for k in dir(node) if k.startswith("_saved_")}
                    node = node.next_functions[0][0] if node.next_functions else None

    def plain(t):
        return [(n, {k: tuple(v.shape) if k == "_saved_self" else v for k, v in s.items()}) for n, s in graph(t)]

    agree(plain)


def out(name, dtype, n=None):
    def run(t, x):
        into = t.empty(0, dtype=getattr(t, dtype))
        got = getattr(t.fft, name)(x.detach(), n, out=into)
        assert got is into
        return got

    return run


@pytest.mark.parametrize("name", [n + e for n in ONE for e in ("", "n")])
def test_out(name):
    real = name.startswith(("irfft", "hfft"))
    check(out(name, "float64" if real else "complex128"), REAL, grad=False, jit=False, stride=name != "ihfftn")
    kind = "floating point" if real else "complex"
    check_error(out(name, "complex128" if real else "float64"), REAL, match=f"expects a {kind} output tensor, but got")


ERRORS = [
    ("t.fft.fft(x, 0)", r"Invalid number of data points \(0\) specified"),
    ("t.fft.irfft(x, -1)", r"Invalid number of data points \(-1\) specified"),
    ("t.fft.irfft(x[..., :1])", r"Invalid number of data points \(0\) specified"),
    ("t.fft.fftn(x, (0, 2))", r"Invalid number of data points \(0\) specified"),
    ("t.fft.fft(x, dim=5)", "Dimension out of range .*got 5"),
    ("t.fft.fft(x[0, 0, 0])", "Dimension specified as -1 but tensor has no dimensions"),
    ("t.fft.fft2(x[0, 0, 0])", "Dimension specified as -2 but tensor has no dimensions"),
    ("t.fft.fft(x, norm='no')", 'Invalid normalization mode: "no"'),
    ("t.fft.fft(x.half())", "Unsupported dtype Half"),
    ("t.fft.rfftn(x.bfloat16())", "Unsupported dtype BFloat16"),
    ("t.fft.fft(x, 2.5)", "must be int, not float"),
    ("t.fft.fft([1.0])", r"argument 'input' \(position 1\) must be Tensor, not list"),
    ("t.fft.fft(x, norm=3)", r"argument 'norm' \(position 4\) must be str, not int"),
    ("t.fft.fft2(x, dim=(0, 0))", "FFT dims must be unique"),
    ("t.fft.fftn(x, (1, 2), (0,))", "dim and shape arguments must have the same length"),
    ("t.fft.fftn(x, (1, 2, 3, 4))", "Got shape with 4 values but input tensor only has 3 dimensions"),
    ("t.fft.rfftn(x, dim=())", "rfftn must transform at least one axis"),
    ("t.fft.irfft2(x, dim=())", "irfftn must transform at least one axis"),
    ("t.fft.fft2(x, dim=None)", "argument 'dim'.* must be tuple of ints, not NoneType"),
    ("t.fft.fftfreq(-1)", "negative dimension -1"),
    ("t.fft.fftfreq(3, dtype=t.int64)", "fftfreq requires a floating point or complex dtype"),
    ("t.fft.rfftfreq(3, dtype=t.complex64)", "not implemented for 'ComplexFloat'"),
    ("t.fft.fftshift(x, ())", "`shifts` required"),
    ("t.fft.fft(x, out=t.empty(0, dtype=t.complex64).requires_grad_())", "don't support automatic differentiation"),
]  # fmt: skip


@pytest.mark.parametrize("case, match", ERRORS)
def test_errors(case, match):
    check_error(lam(case), SINGLE, match=match)


@pytest.mark.parametrize("name", ["fft", "ifft", "rfft", "irfft", "hfft", "ihfft", "fft2", "rfftn"])
def test_transforms_of_functions(name):
    """vmap, jvp and the gradient of a compiled call are those of PyTorch."""

    def run(t):
        x = t.tensor(REAL)
        f = getattr(t.fft, name)
        y, dot = t.func.jvp(lambda x: f(x), (x,), (x.cos(),))
        return t.func.vmap(lambda x: f(x), in_dims=2)(x).resolve_conj(), y.resolve_conj(), dot.resolve_conj()

    for ours, theirs in zip(run(torchlike), run(torch), strict=True):
        np.testing.assert_allclose(ours.numpy(), theirs.numpy(), rtol=1e-10, atol=1e-10)


def test_names():
    assert set(torchlike.fft.__all__) >= {n for n in torch.fft.__all__ if n != "Tensor"}
    for name in torchlike.fft.__all__:
        ours, theirs = (getattr(t.ops.aten, f"fft_{name}") for t in (torchlike, torch))
        assert set(ours.overloads()) == set(theirs.overloads())
        for overload in theirs.overloads():
            assert str(getattr(ours, overload)._schema) == str(getattr(theirs, overload)._schema)
