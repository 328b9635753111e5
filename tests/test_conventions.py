"""torchlike.conventions: what it reports is what PyTorch and JAX give."""

from __future__ import annotations

import importlib
import subprocess
import sys
from xml.etree import ElementTree

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import torchlike
from torchlike import conventions
from torchlike._decl.op import REGISTRY, pointwise

# name: (function of a library and its argument, W, CW), the derivatives worked out by hand
FUNCTIONS = {
    "square": (lambda t, z: z * z, lambda z: 2 * z, lambda z: 0 * z),
    "conj": (lambda t, z: z.conj(), lambda z: 0 * z, lambda z: 1 + 0 * z),
    "conj times itself": (lambda t, z: z * z.conj() + z, lambda z: np.conj(z) + 1, lambda z: z),
    "exp": (lambda t, z: t.exp(z), np.exp, lambda z: 0 * z),
    "reciprocal": (lambda t, z: 1 / z, lambda z: -1 / z**2, lambda z: 0 * z),
    "rotation": (lambda t, z: z / t.abs(z), lambda z: 0.5 / abs(z), lambda z: -0.5 * z**2 / abs(z) ** 3),
    "squared size": (lambda t, z: t.abs(z) ** 2, np.conj, lambda z: z),
    "abs": (lambda t, z: t.abs(z), lambda z: 0.5 * np.conj(z) / abs(z), lambda z: 0.5 * z / abs(z)),
    "real": (lambda t, z: z.real, lambda z: 0.5 + 0 * z, lambda z: 0.5 + 0 * z),
    "imag": (lambda t, z: z.imag, lambda z: -0.5j + 0 * z, lambda z: 0.5j + 0 * z),
    "angle": (lambda t, z: t.angle(z), lambda z: -0.5j / z, lambda z: 0.5j / np.conj(z)),
    "through real parts": (lambda t, z: t.complex(z.real * z.imag, z.imag), lambda z: (z.imag - 1j * z.real + 1) / 2,
                           lambda z: (z.imag + 1j * z.real - 1) / 2),
}  # fmt: skip
POINTS = (1 + 2j, -0.5 + 0.25j, 3 - 1j)
COTANGENT = 0.5 - 2j


def theirs(f, z, v):
    """PyTorch's gradient, by PyTorch."""
    z = torch.tensor(np.asarray(z)).requires_grad_()
    out = f(torch, z)
    (grad,) = torch.autograd.grad(out, z, torch.as_tensor(np.asarray(v), dtype=out.dtype).expand(out.shape))
    return grad.resolve_conj().numpy()


def cotangent_of(r):
    return COTANGENT if np.iscomplexobj(r.value) else 1.5


def same(a, b, tol=1e-10):
    np.testing.assert_allclose(a, b, rtol=tol, atol=tol)


@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize("z", POINTS)
def test_a_report_of_one_number(name, z):
    f, w, cw = FUNCTIONS[name]
    plain = conventions.report(lambda z: f(torchlike, z), z)
    v = cotangent_of(plain)
    r = conventions.report(lambda z: f(torchlike, z), z, cotangent=v)
    same(r.w, w(z))
    same(r.cw, cw(z))
    same(r.forward, (r.w + r.cw, 1j * (r.w - r.cw)))
    same(r.pytorch, theirs(f, z, v))
    same(r.jax, np.conj(theirs(f, z, np.conj(v))))
    same(r.pytorch, np.conj(v) * r.cw + v * np.conj(r.w))
    same(r.jax, v * r.w + np.conj(v * r.cw))
    same(plain.pytorch, theirs(f, z, 1))
    assert r.holomorphic is (name in ("square", "exp", "reciprocal"))
    assert r.differentiable and not r.kink and r.residual == pytest.approx(abs(cw(z)))


@pytest.mark.parametrize("z", POINTS)
def test_what_jax_says_of_its_own_function(z):
    f, _, _ = FUNCTIONS["conj times itself"]
    r = conventions.report(lambda z: f(torchlike, z), z, cotangent=COTANGENT)
    same(r.jax, jax.vjp(lambda z: f(jnp, z), z)[1](jnp.asarray(COTANGENT))[0])
    holomorphic = conventions.report(torchlike.exp, z)
    same(holomorphic.jax, jax.grad(jnp.exp, holomorphic=True)(z))
    real = conventions.report(torchlike.abs, z)
    same(real.jax, jax.grad(jnp.abs)(z))


@given(*(st.complex_numbers(max_magnitude=9, allow_subnormal=False) for _ in range(4)))
def test_every_real_linear_map(a, b, v, z):
    r = conventions.report(lambda z: a * z + b * z.conj(), z, cotangent=v, order=1)
    same([r.w, r.cw], [a, b])
    same([r.pytorch, r.jax], [np.conj(v) * b + v * np.conj(a), v * a + np.conj(v * b)])


MATRIX = np.array([[1 + 1j, -2], [0.5j, 3], [1, 1j]])
# name: (function, argument, kind)
KINDS = {
    "real to real": (lambda t, x: t.sin(x), 0.7, "R -> R"),
    "real to complex": (lambda t, x: t.exp(2j * x), 0.7, "R -> C"),
    "vectors": (lambda t, z: z.cumsum(0) * z.conj(), np.array([1 + 1j, 2, -1j]), "C[3] -> C[3]"),
    "vector to number": (lambda t, z: (z.abs() ** 2).sum(), np.array([1 + 1j, 2, -1j]), "C[3] -> R"),
    "number to vector": (lambda t, z: t.stack([z, z.conj() ** 2]), 1 - 1j, "C -> C[2]"),
    "matrix": (lambda t, z: (z.conj().T @ z).sum(0), MATRIX, "C[3, 2] -> C[2]"),
    "real vector": (lambda t, x: t.complex(x, x**2), np.array([1.0, -2]), "R[2] -> C[2]"),
    "constant": (lambda t, z: t.ones(2, dtype=t.float64) + 0 * z.real, 1j, "C -> R[2]"),
}


@pytest.mark.parametrize("name", KINDS)
def test_kinds_of_functions(name):
    f, x, kind = KINDS[name]
    r = conventions.report(lambda x: f(torchlike, x), x)
    v = cotangent_of(r) * np.arange(1, 1 + np.size(r.value)).reshape(np.shape(r.value))
    r = conventions.report(lambda x: f(torchlike, x), x, cotangent=v)
    assert r.kind == kind and r.differentiable and not r.kink
    same(r.pytorch, theirs(f, x, v))
    same(r.jax, np.conj(theirs(f, x, np.conj(v))))
    shape = np.shape(r.value) + np.shape(x)
    assert np.shape(r.forward[0]) == shape and np.shape(r.pytorch) == np.shape(r.jax) == np.shape(x)
    if np.iscomplexobj(x):
        assert np.shape(r.w) == np.shape(r.cw) == np.shape(r.forward[1]) == shape
        outer = np.tensordot(np.conj(v), r.cw, np.ndim(v)) + np.tensordot(v, np.conj(r.w), np.ndim(v))
        same(r.pytorch, outer)
    else:
        assert r.w is r.cw is r.forward[1] is r.holomorphic is r.residual is None


@pytest.mark.parametrize("make", [
    complex, np.complex128, np.array, jnp.asarray, torchlike.tensor,
    lambda z: np.complex64(z), lambda z: torchlike.tensor(z, requires_grad=True).cdouble(),
])  # fmt: skip
def test_a_point_may_come_from_anywhere(make):
    r = conventions.report(torchlike.square, make(1 + 2j))
    same([r.w, r.pytorch], [2 + 4j, 2 - 4j], 1e-6)
    assert r.holomorphic


def test_several_arguments():
    def f(a, z):
        return a * z.abs()

    assert conventions.report(f, 2.0, 3 + 4j, argnum=1).pytorch == pytest.approx(2 * (0.6 + 0.8j))
    assert conventions.report(f, 2.0, 3 + 4j, argnum=-1).kind == "C -> R"
    assert conventions.report(f, 2.0, 3 + 4j).pytorch == pytest.approx(5)


def test_modules_and_calls_that_change_their_tensors():
    def doubled(z):
        w = z * 1
        w.mul_(2)
        return w

    assert conventions.report(doubled, 1j).w == 2
    layer = torchlike.nn.Linear(2, 3)
    r = conventions.report(layer, torchlike.ones(2))
    same(r.forward[0], layer.weight.detach().numpy(), 1e-6)
    assert str(r).startswith("Linear: R[2] -> R[3] at x = [1, 1] (float32), cotangent v = [1, 1, 1]")
    assert layer.weight.grad is None


@pytest.mark.parametrize("f, z, differentiable, kink, pytorch, theirs", [
    (torchlike.abs, 0.0, False, True, 0, 1),
    (torchlike.abs, 0j, False, False, 0, 0),
    (torchlike.abs, 2.0, True, False, 1, 1),
    (lambda x: x.clamp(min=0), 0.0, False, False, 1, 1),
    (torchlike.sqrt, 0.0, False, False, np.inf, np.inf),
    (lambda z: z.abs() ** 2, 0j, True, False, 0, 0),
    (lambda x: x.abs() * x, 0.0, True, False, 0, 0),
])  # fmt: skip
def test_where_there_is_no_derivative(f, z, differentiable, kink, pytorch, theirs):
    r = conventions.report(f, z)
    assert (r.differentiable, r.kink, r.pytorch, r.jax) == (differentiable, kink, pytorch, theirs)
    assert ("fails: a kink" in str(r)) is kink


def test_cauchy_riemann_at_one_point_only():
    assert conventions.report(lambda z: z * z.conj(), 0j).holomorphic
    assert not conventions.report(lambda z: z * z.conj(), 1e-3 + 0j).holomorphic
    assert not conventions.report(torchlike.abs, 0j).holomorphic


TABLE = """f: C -> R at z = 3-4j (complex128), cotangent v = 1
quantity                           formula                           value
---------------------------------  --------------------------------  ---------------
f(z)                                                                 25
df/dx                              forward mode along 1              6
df/dy                              forward mode along 1j             -8
W = df/dz                          (df/dx - 1j df/dy) / 2            3+4j
CW = df/dz*                        (df/dx + 1j df/dy) / 2            3-4j
PyTorch gradient                   2 v CW                            6-8j
JAX gradient (torchlike's kernel)  2 v W                             6+8j
PyTorch second derivative          gradient of Re(gradient)          2
JAX second derivative              gradient of Re(gradient)          2
Differentiable                     f(z+t) - f(z) ~ W t + CW conj(t)  holds
Cauchy-Riemann                     CW = 0                            fails: |CW| = 5
Conversion                         PyTorch = conj(JAX)               holds"""


def test_the_table():
    r = conventions.report(lambda z: (z * z.conj()).real, 3 - 4j)
    assert str(r) == TABLE
    assert repr(r) == "<Report f: C -> R, PyTorch 6-8j, JAX 6+8j (torchlike's kernel)>"
    page = ElementTree.fromstring(r._repr_html_())
    assert page.find("caption").text == TABLE.splitlines()[0]
    cells = [tuple(cell.text or "" for cell in row) for row in page.iter("tr")]
    assert cells == [("quantity", "formula", "value"), *r.rows()]
    assert cells[6] == ("PyTorch gradient", "2 v CW", "6-8j")


def test_tables_of_arrays():
    small, large = (str(conventions.report(torchlike.square, np.ones(n) * 1j)) for n in (2, 20))
    assert "sum(conj(v) CW + v conj(W))" in small and "[[2j, 0], [0, 2j]]" in small
    assert "shape [20, 20], norm 8.9443" in large


ERRORS = {
    "no argument": (lambda: conventions.report(abs), ValueError, "argnum is 0, but the point has 0"),
    "argnum": (lambda: conventions.report(abs, 1j, argnum=1), ValueError, "argnum is 1.*1 argument"),
    "a text": (lambda: conventions.report(abs, ["z"]), TypeError, "argument 0 is of type str.*expected a number"),
    "order": (lambda: conventions.report(torchlike.abs, 1.0, order=3), ValueError, "order is 3; expected 1, or 2"),
    "no argnum": (lambda: conventions.report(torchlike.abs, 1.0, argnum=()), ValueError, "argnum is empty"),
    "another shape": (lambda: conventions.report(torchlike.abs, 1.0, jax_function=lambda x: jnp.ones(2)), ValueError,
                      r"jax_function gives float64 of shape \(2,\), the function float64 of shape \(\)"),
    "many numbers": (lambda: conventions.derivation(torchlike.abs, np.ones(2)), ValueError, "expected one number"),
    "an integer": (lambda: conventions.report(torchlike.abs, 1), TypeError, r"argument 0 has dtype int64.*float\(x\)"),
    "nothing": (lambda: conventions.report(torchlike.abs, np.ones(0)), ValueError, "at least one element"),
    "a number": (lambda: conventions.report(lambda z: 1.0, 1j), TypeError, "returned float; expected one torchlike"),
    "a bool": (lambda: conventions.report(lambda z: z == 1, 1j), TypeError, "returned dtype torch.bool"),
    "shape": (lambda: conventions.report(torchlike.abs, 1j, cotangent=np.ones(1)), ValueError, r"shape \(1,\).*\(\)"),
    "complex": (lambda: conventions.report(torchlike.abs, 1j, cotangent=1j), ValueError, "complex128.*is real"),
    "leaf": (lambda: conventions.to_jax({"a": ["x"]}), TypeError, r"to_jax: .*got str at \['a'\]\[0\]"),
    "integers": (lambda: conventions.from_jax(np.arange(2)), TypeError, "from_jax: .*int64"),
    "loss": (lambda: conventions.descent_fields(lambda z: z), TypeError, "complex128.*expected a real number"),
    "no tensor": (lambda: conventions.descent_fields(lambda z: 1.0), TypeError, "returned float"),
    "grid": (lambda: conventions.descent_fields(torchlike.abs, n=0), ValueError, "n=0"),
    "starts": (lambda: conventions.descent_fields(torchlike.abs, starts=[]), ValueError, "0 starts"),
    "operator": (lambda: conventions.kinks("abs", "foo"), ValueError, r"\['foo'\] are not among"),
}  # fmt: skip


@pytest.mark.parametrize("name", ERRORS)
def test_errors(name):
    call, error, message = ERRORS[name]
    with pytest.raises(error, match=message):
        call()


def test_conversion_of_trees():
    grads = {"z": torchlike.tensor([1 + 2j, -1j]), "x": [torchlike.tensor(2.0), None], "n": np.float32(3)}
    ours = conventions.to_jax(grads)
    assert isinstance(ours["z"], jax.Array) and ours["z"].dtype == jnp.complex64 and ours["x"][1] is None
    same(ours["z"], [1 - 2j, 1j])
    back = conventions.from_jax(ours)
    assert isinstance(back["z"], torchlike.Tensor) and torchlike.equal(back["z"], grads["z"])
    assert back["x"][0].dtype is torchlike.float32 and back["n"].item() == 3


@pytest.mark.parametrize("v", [1.0, COTANGENT])
def test_conversion_takes_a_vjp_from_one_library_to_the_other(v):
    z, t = 1 - 3j, torchlike.tensor(1 - 3j, dtype=torchlike.complex128, requires_grad=True)
    (t.exp() * t.conj()).backward(torchlike.tensor(v, dtype=torchlike.complex128))
    pull = jax.vjp(lambda z: jnp.exp(z) * jnp.conj(z), jnp.asarray(z))[1]
    same(conventions.to_jax(t.grad), pull(conventions.to_jax(jnp.asarray(v + 0j)))[0])


def test_a_gradient_from_jax_drives_an_optimizer():
    def loss(z):
        return jnp.abs(z - (1 + 2j)) ** 2

    z = torchlike.tensor(0j, requires_grad=True)
    opt = torchlike.optim.SGD([z], lr=0.25)
    for _ in range(30):
        z.grad = conventions.from_jax(jax.grad(loss)(z.detach().jax()))
        opt.step()
    assert abs(z.item() - (1 + 2j)) < 1e-4


# -- kinks ---------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def found():
    return conventions.kinks("abs", "amax", "atan2", "exp", "linalg_vector_norm", "max", "sin", "std")


def entry(found, operator, point):
    (kink,) = [k for k in found if (k.operator, k.argument) == (operator, "self") and point in k.points]
    return kink.pytorch, kink.jax, kink.compared


@pytest.mark.parametrize("operator, point, function, at", [
    ("abs", "self=0", "abs", [0.0]),
    ("atan2", "self=0, other=0", "atan2", [0.0, 0.0]),
    ("linalg_vector_norm", "self=[0, 0, 0], ord=2", "linalg.vector_norm", [[0.0, 0.0, 0.0]]),
    ("std", "self=[0, 0, 0]", "std", [[0.0, 0.0, 0.0]]),
])  # fmt: skip
def test_both_columns_are_what_the_libraries_say(found, operator, point, function, at):
    def gradient(library, x):
        for name in function.split("."):
            library = getattr(library, name)
        return library(x, *at[1:])

    x = torch.tensor(at[0], dtype=torch.float64, requires_grad=True)
    if operator == "std":
        torch.std(x, correction=0).backward()
        assert entry(found, operator, point)[0] == "[0, 0, 0]"
    else:
        (torch.atan2(x, torch.zeros_like(x)) if operator == "atan2" else gradient(torch, x)).backward()
    expected = jax.grad(lambda x: gradient(jnp, x))(jnp.asarray(at[0]))
    pytorch, theirs, compared = entry(found, operator, point)
    as_text = "[{}, {}, {}]" if expected.ndim else "{}"
    assert pytorch == as_text.format(*(f"{v:g}" for v in x.grad.ravel().tolist()))
    assert theirs == as_text.format(*(f"{v:g}" for v in expected.ravel().tolist()))
    assert compared == f"jax.numpy.{function}"


def test_smooth_operators_are_not_in_the_list(found):
    assert not {"exp", "sin"} & set(found.operators)
    assert found.operators == list(dict.fromkeys(k.operator for k in found))


def test_the_list_is_a_sequence_and_a_table(found):
    assert len(found[:2]) == 2 and found[0] in found and isinstance(found[:2], conventions.Kinks)
    assert "jax.numpy.linalg.vector_norm" in str(found)
    page = ElementTree.fromstring(found._repr_html_())
    assert len(list(page.iter("tr"))) == len(found) + 1


def test_kinks_are_found_by_running(monkeypatch):
    """An operator declared here, with one value of its own at 2, is reported there and only there."""
    slope = 2 / np.sqrt(np.pi)
    pointwise(
        "bent(Tensor self) -> Tensor",
        vjp={"self": lambda grad, self: grad * jnp.where(self == 2, 7, slope * jnp.exp(-self * self))},
    )(lambda self: jax.lax.erf(self))
    monkeypatch.setitem(REGISTRY, "bent", REGISTRY.pop("bent"))
    (kink,) = conventions.kinks("bent")
    assert kink == conventions.Kink("bent", "self", "7", f"{slope * np.exp(-4):.5g}", ("self=2",), kink.compared)
    assert kink.compared == "torchlike's kernel"


# -- descent -------------------------------------------------------------------------------------


def distance(t, z):
    return t.abs(z * z - (1 + 1j)) ** 2


@pytest.fixture(scope="module")
def fields():
    return conventions.descent_fields(
        lambda z: distance(torchlike, z), center=0.5j, radius=1.5, n=7, step=0.02, steps=99
    )


def test_fields_are_the_gradients_of_both_libraries(fields):
    assert fields.z.shape == (7, 7) and fields.z[0, 0] == -1.5 - 1j and fields.z[6, 0] == -1.5 + 2j
    z = torch.tensor(fields.z, requires_grad=True)
    loss = distance(torch, z)
    loss.sum().backward()
    same(fields.loss, loss.detach().numpy())
    same(fields.pytorch, z.grad.resolve_conj().numpy())
    same(fields.jax, jax.vmap(jax.vmap(jax.grad(lambda z: distance(jnp, z))))(jnp.asarray(fields.z)))


def test_only_one_field_descends(fields):
    assert fields.paths["pytorch"].shape == (5, 100)
    assert (fields.end_losses["pytorch"] < 1e-3).all()
    assert not (fields.end_losses["jax"] < fields.start_losses).any()
    start = fields.paths["jax"][:, 0]
    z = torch.tensor(start, requires_grad=True)
    distance(torch, z).sum().backward()
    same(fields.paths["pytorch"][:, 1], start - 0.02 * z.grad.resolve_conj().numpy())
    same(fields.paths["jax"][:, 1], start - 0.02 * z.grad.conj().resolve_conj().numpy())


def test_the_picture(fields, monkeypatch):
    pytest.importorskip("matplotlib", reason="matplotlib draws the picture").use("agg")
    figure = fields.plot()
    left, right = figure.axes
    assert "PyTorch" in left.get_title() and "fell on 5 of 5" in left.get_title()
    assert "JAX" in right.get_title() and "fell on 0 of 5" in right.get_title()
    assert fields.plot([left, right]) is figure
    with pytest.raises(ValueError, match="expected two axes, got 1"):
        fields.plot([left])
    importlib.import_module("matplotlib.pyplot").close(figure)
    monkeypatch.setitem(sys.modules, "matplotlib.pyplot", None)
    with pytest.raises(ImportError, match="pip install matplotlib"):
        fields.plot()


def test_nothing_is_imported_that_is_not_needed():
    code = (
        "import sys, torchlike; assert 'torchlike.conventions' not in sys.modules\n"
        "import torchlike.conventions; assert not {'torch', 'matplotlib', 'scipy'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=120)
