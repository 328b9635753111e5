"""Autograd of complex numbers: the convention, mixed real and complex operands, lazy conjugates, optimizers."""

from __future__ import annotations

import math
import re

import numpy as np
import pytest
import torch
from both import agree, agree_error, attempt
from oracle import check, close, host

import torchlike

RNG = np.random.RandomState(3)


def numbers(*shape):
    return RNG.standard_normal(shape) + 1j * RNG.standard_normal(shape)


ARRAYS = {
    "x": numbers(2, 3), "y": numbers(2, 3), "v": numbers(3), "w": numbers(3), "s": numbers(3, 3), "b": numbers(2, 3, 3),
    "m": numbers(3, 2), "z": np.array(1.5 - 0.5j), "r": RNG.standard_normal((2, 3)), "q": RNG.standard_normal(3),
    "i": numbers(1, 2, 6), "k": numbers(2, 2, 3),
}  # fmt: skip


def split(text):
    return [case.strip() for line in text.strip().split("\n") for case in line.split("|")]


def run(case, **options):
    """Compare an expression of ``t`` (the library) and the arrays it names, with first and second gradients."""
    names = [n for n in ARRAYS if re.search(rf"(?<![\w.\"]){n}(?![\w\"=(])", case)]
    check(eval(f"lambda t, {', '.join(names)}: ({case})"), *(ARRAYS[n] for n in names), **options)


# -- the convention ------------------------------------------------------------------------------

Z = [1 + 2j, -3 + 0.5j, -1j]


def tensor(t, values=Z, grad=True):
    return t.tensor(values, dtype=t.complex128, requires_grad=grad)


def gradient(t, loss):
    z = tensor(t)
    return t.autograd.grad(loss(z), z)[0]


REAL_LOSSES = {
    "of a holomorphic function": lambda t, z: (z**3 + 2j * z).real.sum(),
    "imaginary part of one": lambda t, z: (z.exp() / (z - 4)).imag.sum(),
    "squared size": lambda t, z: (z * z.conj()).real.sum(),
    "size": lambda t, z: z.abs().sum(),
    "angle": lambda t, z: (z.angle() ** 2).sum(),
    "neither": lambda t, z: (z.conj() ** 2 * z + 3 * z.real * 1j).abs().sum(),
    "through reals": lambda t, z: t.complex(z.real * z.imag, z.imag.exp()).sgn().real.sum(),
    "through view_as_real": lambda t, z: (t.view_as_real(z)[:, 0] * t.view_as_real(z * 2j)[:, 1]).sum(),
    "of a real function with complex inside": lambda t, z: ((z.abs() * 1j).exp() * (1 - 2j)).real.sum(),
    "a constant imaginary part": lambda t, z: (z * z.conj()).imag.sum(),
}


@pytest.mark.parametrize("name", REAL_LOSSES)
def test_the_gradient_of_a_real_loss_is_dx_plus_i_dy(name):
    """And it is 2 dL/dz*: checked against the two real gradients."""
    loss = REAL_LOSSES[name]
    agree(lambda t: gradient(t, lambda z: loss(t, z)))
    x, y = (torchlike.tensor(np.array(part), requires_grad=True) for part in (np.real(Z), np.imag(Z)))
    dx, dy = torchlike.autograd.grad(loss(torchlike, torchlike.complex(x, y)), (x, y))
    close(host(gradient(torchlike, lambda z: loss(torchlike, z))), host(dx) + 1j * host(dy), name)


# s: function of z; W = ds/dz and CW = ds/dz* by hand
SMOOTH = {
    "holomorphic": (lambda z: z * z * 1j, lambda z: 2j * z, lambda z: 0 * z),
    "antiholomorphic": (lambda z: z.conj() ** 2, lambda z: 0 * z, lambda z: 2 * np.conj(z)),
    "both": (lambda z: z * z.conj() * (1 + 1j), lambda z: np.conj(z) * (1 + 1j), lambda z: z * (1 + 1j)),
    "cross-domain to the reals": (lambda z: z.abs() ** 2, np.conj, lambda z: z),
}


@pytest.mark.parametrize("name", SMOOTH)
def test_the_chain_rule_with_a_cotangent(name):
    """grad_in = conj(grad_out) ds/dz* + grad_out conj(ds/dz)."""
    s, w, cw = SMOOTH[name]
    z = tensor(torchlike)
    out = s(z)
    v = np.array([2.0, -1, 0.5]) + (np.array([1j, 3j, -2j]) if out.is_complex() else 0)
    out.backward(torchlike.tensor(v))
    close(host(z.grad), np.conj(v) * cw(np.array(Z)) + v * np.conj(w(np.array(Z))), name)


@pytest.mark.parametrize("v", [1, 1j, 2 - 3j])
def test_a_real_leaf_gets_the_real_part(v):
    """Of s: R -> C the gradient is Re(conj(grad_out) ds/dx)."""
    x = torchlike.tensor([0.5, -2.0], dtype=torchlike.float64, requires_grad=True)
    (x * x * (1 + 2j)).backward(torchlike.full((2,), v, dtype=torchlike.complex128))
    assert x.grad.dtype is torchlike.float64
    close(host(x.grad), np.real(np.conj(v) * 2 * host(x) * (1 + 2j)), "gradient")


def test_a_step_against_the_gradient_descends():
    def path(t):
        z, losses = tensor(t), []
        for _ in range(5):
            loss = (z * z - (1 + 1j)).abs().square().sum()
            losses.append(loss.item())
            (g,) = t.autograd.grad(loss, z)
            z = (z - 0.01 * g).detach().requires_grad_()
        return losses

    agree(path)
    assert path(torchlike) == sorted(path(torchlike), reverse=True)


def test_a_function_of_ones_own():
    """C -> C, C -> R and R -> C with hand-written backwards, as in a custom Function."""

    def script(t):
        class Scaled(t.autograd.Function):
            @staticmethod
            def forward(ctx, z, a):
                ctx.save_for_backward(z)
                ctx.a = a
                return a * z * z.conj() + z**2

            @staticmethod
            def backward(ctx, grad):
                (z,) = ctx.saved_tensors
                w, cw = ctx.a * z.conj() + 2 * z, ctx.a * z
                return grad.conj() * cw + grad * w.conj(), None

        class Size(t.autograd.Function):
            @staticmethod
            def forward(ctx, z):
                ctx.save_for_backward(z)
                return z.abs() ** 2

            @staticmethod
            def backward(ctx, grad):
                return 2 * grad * ctx.saved_tensors[0]

        class Lift(t.autograd.Function):
            @staticmethod
            def forward(ctx, x):
                return t.complex(x, 2 * x)

            @staticmethod
            def backward(ctx, grad):
                return grad.real + 2 * grad.imag

        z, x = tensor(t), t.tensor([1.0, 2, 3], dtype=t.float64, requires_grad=True)
        Size.apply(Scaled.apply(z, 1 - 2j) * Lift.apply(x)).sum().backward()
        mine = z.grad, x.grad
        z, x = tensor(t), t.tensor([1.0, 2, 3], dtype=t.float64, requires_grad=True)
        (((1 - 2j) * z * z.conj() + z**2) * t.complex(x, 2 * x)).abs().square().sum().backward()
        return mine, z.grad, x.grad

    agree(script)
    (z, x), plain_z, plain_x = script(torchlike)
    close(host(z), host(plain_z), "z")
    close(host(x), host(plain_x), "x")


def test_derivatives_of_higher_order():
    def script(t):
        z = tensor(t)
        (g,) = t.autograd.grad((z.exp() * z.conj()).abs().sum(), z, create_graph=True)
        (h,) = t.autograd.grad((g * g).imag.sum(), z, create_graph=True)
        return g, h, t.autograd.grad(h.abs().sum(), z)

    agree(script)


# -- seeds, dtypes of gradients, errors -----------------------------------------------------------

SCRIPTS = {
    "a seed": lambda t, z: ((z * z).sum().backward(t.tensor(1 - 2j, dtype=t.complex128)), z.grad),
    "a complex64 seed": lambda t, z: ((z * z).sum().backward(t.tensor(1 + 2j)), z.grad),
    "of each element": lambda t, z: ((z * z).backward(t.tensor([1j, 1, 1 - 1j], dtype=t.complex128)), z.grad),
    "real and imaginary": lambda t, z: (z.real.sum().backward(), (z.imag * 3).sum().backward(), z.grad),
    "hooks of the parts": lambda t, z: parts_hooked(t, z),
    "a hook that conjugates": lambda t, z: (bool(z.register_hook(lambda g: g.conj())), (z * z).real.sum().backward(),
                                            z.grad),
    "from a real leaf": lambda t, z: real_leaf(t, lambda x: (x * z.detach()).abs().sum()),
    "cast to complex": lambda t, z: real_leaf(t, lambda x: (x.to(t.complex64) ** 2 * (1 + 1j)).sum().abs()),
    "a real seed of a complex product": lambda t, z: real_leaf(t, lambda x: (x * z.detach()).sum().real),
    "complex seed, real leaf": lambda t, z: real_leaf(t, lambda x: (x * z.detach()).sum(), 2 - 1j),
    "accumulates": lambda t, z: ((z * 1j).real.sum().backward(), z.conj().imag.sum().backward(), z.grad),
    "copied into a real tensor": lambda t, z: copied(t, z),
    "cast to real": lambda t, z: ((z * z).to(t.float64).sum().backward(), z.grad),
    "assigned": lambda t, z: [attempt(lambda d=d: setattr(z, "grad", t.ones(3, dtype=d)))
                              for d in (t.float64, t.complex64, t.complex128)],
    "retained in the middle": lambda t, z: retained(t, z),
    "batched": lambda t, z: t.autograd.grad(z * z.conj() * 1j, z, t.eye(3, dtype=t.complex128), is_grads_batched=True),
    "polar": lambda t, z: ((t.polar(z.abs(), z.angle()) ** 2).imag.sum().backward(), z.grad),
    "sgn and abs at zero": lambda t, z: zero_gradients(t),
    "outer": lambda t, z: (t.outer(z, z.exp()).abs().sum().backward(), z.grad),
    "matrix norm": lambda t, z: (t.linalg.norm(z[:, None] * z).backward(), z.grad),
}  # fmt: skip


def parts_hooked(t, z):
    seen = []
    r = z.real
    r.register_hook(lambda g: seen.append((g.dtype, g.clone())))
    (r * z.imag).sum().backward()
    return seen, z.grad


def real_leaf(t, loss, seed=None):
    x = t.tensor([1.0, -2.0, 0.5], requires_grad=True)
    loss(x).backward(None if seed is None else t.tensor(seed, dtype=t.complex128))
    return x.grad


def copied(t, z):
    y = t.zeros(3)
    y.copy_(z)
    y.sum().backward()
    return z.grad, y


def retained(t, z):
    w = z * 2j
    w.retain_grad()
    w.abs().sum().backward()
    return w.grad, z.grad


def zero_gradients(t):
    z = t.zeros(2, dtype=t.complex64, requires_grad=True)
    return [t.autograd.grad(f(z).sum(), z) for f in (t.abs, t.angle, lambda u: u.sgn().real)]


@pytest.mark.parametrize("name", SCRIPTS)
def test_gradients_and_their_dtypes(name):
    agree(lambda t: SCRIPTS[name](t, tensor(t)))


@pytest.mark.parametrize("f, match", [
    (lambda t, z: (z * z).sum().backward(), "implicitly created only for real scalar outputs.*complex128"),
    (lambda t, z: (z * z).backward(), "grad can be implicitly created only for"),
    (lambda t, z: t.autograd.grad((z * z).sum(), z), "only for real scalar outputs"),
    (lambda t, z: z.abs().sum().backward(t.tensor(1 + 2j)), "ismatch in dtype"),
    (lambda t, z: t.autograd.grad(z[0] * z[0], z, t.tensor([1.0])), "ismatch in shape"),
    (lambda t, z: (z * z).sum().backward(t.tensor(1.0)), "ismatch in dtype"),
    (lambda t, z: setattr(z, "grad", t.ones(3)), "assign.*dtype"),
    (lambda t, z: z.add_(1), "leaf Variable that requires grad"),
    (lambda t, z: z.real.add_(1), "view of a leaf Variable that requires grad"),
    (lambda t, z: z.conj().mul_(2), "view of a leaf Variable that requires grad"),
    (lambda t, z: t.ones(3).add_(z), "ComplexDouble can't be cast to the desired output type Float"),
    (lambda t, z: t.ones(3).imag, "imag is not implemented for tensors with non-complex dtypes"),
    (lambda t, z: t.view_as_real(z.real), "only supported for complex tensors"),
    (lambda t, z: t.view_as_complex(z), "only supported for half, float and double"),
    (lambda t, z: t.view_as_complex(t.zeros(3)), "last dimension of size 2"),
    (lambda t, z: t.view_as_complex(t.zeros(())), "one or more dimensions"),
    (lambda t, z: t.view_as_complex(t.zeros(4, 3)[:, :2]), "stride divisible by 2"),
    (lambda t, z: t.view_as_complex(t.zeros(4, 4)[:, ::2]), "last dimension with stride 1"),
    (lambda t, z: z < z, "lt.*not implemented for 'ComplexDouble'"),
    (lambda t, z: z.max(), "max.*not implemented for 'ComplexDouble'"),
    (lambda t, z: z.sort(), "does not support complex"),
])  # fmt: skip
def test_errors(f, match):
    agree_error(lambda t: f(t, tensor(t)), match)


# -- operators: first and second gradients --------------------------------------------------------

MIXED = split("""
x + r | r - x | x * r | r / x | x / r | x ** r | r.abs() ** x | x * q | r * 2j | (r + 1j) ** 2 | 2 ** x | (1 + 1j) ** x
3j - x | t.add(x, r, alpha=1 - 2j) | t.rsub(r, x, alpha=2) | t.polar(r.abs(), r) | t.complex(r, r * r) | t.cat([x, r])
t.lerp(x, y, 0.3) | t.lerp(x, y, x) | t.addcmul(x, r, y, value=1j) | t.addcdiv(x, y, x, value=2 - 1j) | t.stack([r, y])
x.masked_fill(r > 0, 2j) | t.float_power(x, y) | t.logaddexp(x, y) | z * r | r ** z | x.real * x | x.abs() / x
x.mul(r).add(1j) | r.to(t.complex128) * x
""")
PRODUCTS = split("""
x @ m | x @ v | t.vdot(v, w) | t.dot(v, w) | t.inner(x, y) | t.outer(v, w) | t.kron(x, m) | x.mH @ y | s.H @ s.conj()
t.baddbmm(b, b, b, beta=1j, alpha=2 - 1j) | t.addmm(s, m, x, beta=2j, alpha=1 + 1j) | t.addmv(v, s, w, alpha=1j)
t.einsum("ij,kj->ik", x, y.conj()) | t.linalg.vecdot(x, y) | t.linalg.cross(s, s.t()) | t.linalg.multi_dot([x, m, x])
t.block_diag(x, s) | t.trace(s @ s) | t.nn.functional.linear(x, s, v) | t.nn.functional.conv1d(i, k) | t.dist(x, y)
t.nn.functional.l1_loss(x, y)
""")
REDUCED = split("""
x.prod(1) | x.cumprod(1) | x.var(1) | x.norm(3, 1) | t.linalg.vector_norm(x, 1) | t.linalg.matrix_norm(x) | t.cov(x)
t.linalg.matrix_norm(s, "nuc") | t.nn.functional.normalize(x) | x.sgn() | x.angle() | t.sinc(x) | x.sigmoid()
""")
SYSTEMS = split("""
t.linalg.inv(s) | t.linalg.det(s) | s.slogdet()[1] | s.logdet() | t.linalg.solve(s, m) | t.linalg.matrix_power(s, -2)
t.linalg.cholesky(s @ s.mH + 3 * t.eye(3)) | t.linalg.qr(s).R.abs() | t.linalg.svdvals(s) | t.linalg.pinv(m)
t.linalg.eigvalsh(s + s.mH) | t.linalg.eigvals(s).abs().sum() | t.linalg.solve_triangular(s.triu(), m, upper=True)
(t.linalg.eigh(s + s.mH)[1][:, :1].mH @ v).abs()
""")
MOVED = split("""
x[t.tensor([0, 1, 0])] | x[r > 0] | x.gather(1, t.tensor([[0, 1], [2, 2]])) | x.index_add(0, t.tensor([1, 1]), y)
t.tril(s) | t.diag_embed(v) | s.diagonal() | x.masked_select(r > 0) | x.put(t.tensor([0, 5]), v[:2]) | x.flip(0)
x.as_strided((2, 2), (1, 2)) | t.nn.functional.pad(x, (1, 2)) | t.view_as_complex(t.view_as_real(x) * 2)
t.view_as_real(x * y) | x.conj().imag | x.conj().T.real | t.diagonal_scatter(s, v) | x.conj()[1:].conj() * x.mH.mH[0]
x.conj().as_strided((2, 2), (1, 2))
""")


@pytest.mark.parametrize("case", MIXED + PRODUCTS)
def test_operands(case):
    run(case, jit=False, stride=False)


@pytest.mark.parametrize("case", REDUCED + MOVED)
def test_reductions_and_views(case):
    run(case, jit=False, stride=False, gradgrad=case not in ("x.angle()",))


@pytest.mark.parametrize("case", SYSTEMS)
def test_linear_algebra(case):
    run(case, jit=False, stride=False, tol=10)


# -- lazy conjugates and negatives, and other views -------------------------------------------------

VIEWS = {
    "conj": lambda t, z: (c := z.conj(), c.is_conj(), c._is_view(), c._base is z, c.stride(),
                          c.data_ptr() == z.data_ptr()),
    "write": lambda t, z: (c := z.conj(), c.__setitem__(0, 5 + 6j), z, c, z._version, c._version),
    "twice": lambda t, z: (c := z.conj().conj(), c.is_conj(), c.add_(1j), z),
    "real tensors": lambda t, z: [r := t.ones(2), r.conj() is r, r.resolve_conj() is r, r.resolve_neg() is r,
                                  r.real is r, r.is_conj(), r.is_neg()],
    "resolve_conj": lambda t, z: [z.resolve_conj() is z, (c := z.conj().resolve_conj()).is_conj(), c._is_view(), c],
    "conj_physical": lambda t, z: [z.conj_physical().is_conj(), z.conj().conj_physical().is_conj(), z.conj_physical()],
    "conj_physical_": lambda t, z: (c := z.conj(), c.conj_physical_(), z, c, c.is_conj(), z._version),
    "kept by": lambda t, z: [f(z.conj()).is_conj() for f in (
        lambda c: c.view(3, 1), lambda c: c[1:], lambda c: c[0], lambda c: c.t(), lambda c: c.detach(),
        lambda c: c.data, lambda c: c.unsqueeze(0), lambda c: c.expand(2, 3), lambda c: c.as_strided((2,), (1,)),
        lambda c: c.chunk(3)[0],
        lambda c: c.unfold(0, 2, 1), lambda c: c.cpu(), lambda c: c.to(t.complex128), lambda c: c.contiguous())],
    "dropped by": lambda t, z: [f(z.conj()).is_conj() for f in (
        lambda c: c.clone(), lambda c: c + 1, lambda c: c.flip(0), lambda c: c.to(t.complex64), lambda c: t.cat([c, c]),
        lambda c: c[t.tensor([0])], lambda c: t.zeros_like(c), lambda c: c.neg(), lambda c: c.exp(),
        lambda c: c.repeat(2))],
    "matrices": lambda t, z: [f(z[:, None]).is_conj() for f in (
        lambda m: m.mH, lambda m: m.H, lambda m: m.adjoint(), lambda m: m.mT, lambda m: m.mH.mH)],
    "as_strided": lambda t, z: (s := z.conj().as_strided((2,), (2,)), s, s.is_conj(), s.zero_(), z),
    "imag": lambda t, z: (i := z.conj().imag, i, i.is_neg(), z.conj().real.is_neg(), z.imag.is_neg(), i.stride(),
                          i.storage_offset(), i.__setitem__(0, 7.0), z, i._version),
    "resolve_neg": lambda t, z: (i := z.conj().imag, i.resolve_neg().is_neg(), i.resolve_neg()._is_view(),
                                 i.resolve_neg(), z.imag.resolve_neg()._is_view(), t.is_neg(i),
                                 t.resolve_neg(i).is_neg()),
    "negatives kept by": lambda t, z: [f(z.conj().imag).is_neg() for f in (
        lambda i: i[1:], lambda i: i.view(3, 1), lambda i: i.detach(), lambda i: i.expand(2, 3), lambda i: i.clone(),
        lambda i: i * 2, lambda i: -i, lambda i: i.contiguous(), lambda i: i.as_strided((2,), (2,)))],
    "_neg_view": lambda t, z: (n := t._neg_view(z), n, n.is_neg(), n._is_view(), n.__setitem__(0, 1), z,
                               n.conj().imag.is_neg(),
                               n.imag.is_neg(), n.real.is_neg(), t._neg_view(n).is_neg(), n.add_(1), z),
    "numpy": lambda t, z: [attempt(z.conj().numpy), attempt(z.conj().imag.numpy),
                           z.conj().resolve_conj().numpy().tolist(),
                           z.conj().imag.resolve_neg().numpy().tolist(), z.conj().numpy(force=True).tolist()],
    "refusals": lambda t, z: [attempt(lambda: t.view_as_real(z.conj())), attempt(lambda: z.conj().view(t.float64)),
                              attempt(lambda: t._neg_view(z.real).view(t.int64)),
                              t.view_as_real(z.conj().resolve_conj())],
    "parts are assigned": lambda t, z: (setattr(z, "real", t.tensor([1.0, 2, 3])), setattr(z, "imag", 4), z,
                                        z._version),
    "parts are views": lambda t, z: [t.view_as_real(z).stride(), z.real.stride(), z[1:].imag.storage_offset(),
                                     z.imag.zero_(), z.real.copy_(t.ones(3)), z],
    "view_as_complex": lambda t, z: (p := t.zeros(2, 2), t.view_as_complex(p).__setitem__(0, 1 + 5j), p,
                                     t.view_as_complex(p).conj().imag.fill_(3), p, p._version),
    "printed": lambda t, z: [str(z.conj()), str(z.conj().imag), z.conj().tolist(), z.conj()[0].item()],
    "compared": lambda t, z: [t.equal(z.conj(), z), t.equal(z.conj(), z.conj_physical()), z.conj() == z],
    "products": lambda t, z: [t.dot(z.conj(), z), t.vdot(z, z), z.conj() @ z, z.mul(z.conj()), z.conj().sum(),
                              z.conj().abs()],
    "copied": lambda t, z: (z.copy_(z.conj()), z.conj().copy_(z + 1), z),
}  # fmt: skip


@pytest.mark.parametrize("name", VIEWS)
def test_views_alias(name):
    agree(lambda t: VIEWS[name](t, tensor(t, grad=False)))


def written(t, view, change, loss=lambda w: (w * w * w.conj()).imag.sum()):
    """Gradients and histories after ``change`` in place of ``view`` of an intermediate result."""
    leaf = tensor(t)
    w = leaf * (1 + 1j)
    v = view(w)
    change(v, leaf)
    grads = t.autograd.grad(loss(w) + (v * v).abs().sum(), leaf)
    return grads, w, v, type(w.grad_fn).__name__, type(v.grad_fn).__name__, w._version


WRITES = {
    "conj, product": (lambda w: w.conj(), lambda v, z: v.mul_(2j)),
    "conj, by another tensor": (lambda w: w.conj(), lambda v, z: v.mul_(z)),
    "conj, element": (lambda w: w.conj(), lambda v, z: v.__setitem__(0, z[1] * 2j)),
    "conj of a slice": (lambda w: w[1:].conj(), lambda v, z: v.add_(z[:2])),
    "slice of a conj": (lambda w: w.conj()[1:], lambda v, z: v.copy_(z[:2])),
    "conj, filled": (lambda w: w.conj(), lambda v, z: v.fill_(1j)),
    "imag": (lambda w: w.imag, lambda v, z: v.mul_(z.real)),
    "imag of a conj": (lambda w: w.conj().imag, lambda v, z: v.add_(z.real)),
    "real of a conj": (lambda w: w.conj().real, lambda v, z: v.copy_(z.abs())),
    "view_as_real": (lambda w: torch_of(w).view_as_real(w), lambda v, z: v[:, 0].mul_(3)),
}


def torch_of(w):
    return torch if isinstance(w, torch.Tensor) else torchlike


@pytest.mark.parametrize("name", WRITES)
def test_gradients_through_a_write(name):
    agree(lambda t: written(t, *WRITES[name]))


def test_a_write_through_view_as_complex():
    def script(t):
        x = t.arange(6.0, dtype=t.float64, requires_grad=True)
        y = (x * 1).view(3, 2)
        c = t.view_as_complex(y)
        c.mul_(1j)
        return y, c, t.autograd.grad((y**3).sum(), x), type(c.grad_fn).__name__

    agree(script)


def test_histories_of_views():
    def script(t):
        z = tensor(t)
        found = [v.grad_fn for v in (z.conj(), z.real, z.conj().imag, t.view_as_real(z), t._neg_view(z))]
        return found, [v.grad_fn.next_functions[0][0] for v in (z.real, z.conj().imag)]

    agree(script)


# -- optimizers ------------------------------------------------------------------------------------

OPTIMIZERS = [
    ("SGD", {"lr": 0.05, "momentum": 0.9, "nesterov": True}),
    ("SGD", {"lr": 0.05, "weight_decay": 0.1, "maximize": True}),
    ("Adam", {"lr": 0.1, "amsgrad": True}),
    ("Adam", {"lr": 0.1, "weight_decay": 0.1}),
    ("AdamW", {"lr": 0.1}),
    ("Adagrad", {"lr": 0.2, "lr_decay": 0.1}),
    ("RMSprop", {"lr": 0.05, "centered": True, "momentum": 0.5}),
    ("Adadelta", {"lr": 2.0}),
    ("Adamax", {"lr": 0.1}),
    ("NAdam", {"lr": 0.1}),
    ("RAdam", {"lr": 0.1}),
    ("Rprop", {"lr": 0.1}),
    ("ASGD", {"lr": 0.01, "t0": 2}),
]


def fit(t, name, options, as_reals=False, steps=8):
    """The parameter and the loss after each step of minimizing |z^2 - (1 + i)|^2 + |z|."""
    start = tensor(t, grad=False)
    p = (t.view_as_real(start) if as_reals else start).clone().requires_grad_()
    optimizer = getattr(t.optim, name)([p], **options)
    seen = []

    def closure():
        optimizer.zero_grad()
        z = t.view_as_complex(p) if as_reals else p
        loss = ((z * z - (1 + 1j)).abs().square() + 0.1 * z.abs()).sum()
        loss.backward()
        return loss

    for _ in range(steps):
        seen.append(optimizer.step(closure).detach().clone())
    return p.detach(), t.stack(seen)


@pytest.mark.parametrize("name, options", OPTIMIZERS, ids=[f"{name}-{i}" for i, (name, _) in enumerate(OPTIMIZERS)])
def test_optimizers(name, options):
    ours, theirs = fit(torchlike, name, options), fit(torch, name, options)
    for a, b, what in zip(ours, theirs, ("parameter", "losses"), strict=True):
        close(host(a), host(b), what)
    reals = fit(torchlike, name, options, as_reals=True)[0]
    close(host(ours[0]), host(torchlike.view_as_complex(reals)), "the same as on (real, imaginary) pairs")


@pytest.mark.parametrize("options", [{}, {"line_search_fn": "strong_wolfe"}])
def test_lbfgs(options):
    ours, theirs = (fit(t, "LBFGS", {"lr": 0.5, "max_iter": 4} | options, steps=3) for t in (torchlike, torch))
    for a, b, what in zip(ours, theirs, ("parameter", "losses"), strict=True):
        close(host(a), host(b), what, tol=100)


def test_clipping_counts_both_parts():
    def script(t):
        z = tensor(t)
        (z * z).real.sum().backward()
        return t.nn.utils.clip_grad_norm_([z], 1.0), z.grad

    agree(script)


AXES = [complex(a, b) for a in (-2.5, -1.0, -0.5, 0.5, 2.5) for b in (-0.0, 0.0)]
AXES += [complex(a, b) for a in (-0.0, 0.0) for b in (-2.5, -0.5, 0.5, 2.5)]
CUT = ("sqrt", "rsqrt", "log", "log2", "log1p", "asin", "acos", "atan", "asinh", "acosh", "atanh", "angle")


@pytest.mark.parametrize("name", [*CUT, 0.5, -0.5, 1.5])
def test_both_sides_of_branch_cuts(name):
    """The sign of a part that is 0 says on which side of the cut a number lies."""
    found = []
    for t in (torch, torchlike):
        x = t.tensor(AXES, dtype=t.complex128).requires_grad_()
        y = x**name if isinstance(name, float) else getattr(x, name)()
        (y * t.arange(1, len(AXES) + 1)).abs().sum().backward()
        found.append((y.detach().numpy(), x.grad.numpy()))
    (value, grad), (ours, our_grad) = found
    finite = np.isfinite(value)
    assert (np.isfinite(ours) == finite).all()
    np.testing.assert_allclose(ours[finite], value[finite], rtol=1e-13, atol=1e-15)
    kept = np.isfinite(grad)
    np.testing.assert_allclose(our_grad[kept], grad[kept], rtol=1e-12, atol=1e-14)


WITH_SIGNS = "exp exp2 expm1 log1p sin cos tan sinh cosh tanh asin atan asinh atanh".split()
FAR = [np.inf, -np.inf, np.nan]
ENDS = [complex(a, b) for a in (0.0, -0.0, 1.0, -2.0, *FAR) for b in (0.0, -0.0, 1.0, np.inf, np.nan)]
OF_ONE = (
    "abs sgn exp exp2 expm1 log log2 log10 log1p sqrt rsqrt square reciprocal sigmoid sin cos tan asin acos atan sinh "
    "cosh tanh asinh acosh atanh"
).split()
OF_TWO = {
    "mul": lambda t, a, b: a * b,
    "div": lambda t, a, b: a / b,
    "pow": lambda t, a, b: a**b,
    "addcmul": lambda t, a, b: t.addcmul(t.ones_like(a), a, b),
    "addcmul, value": lambda t, a, b: t.addcmul(t.ones_like(a), a, b, value=2),
    "addcdiv": lambda t, a, b: t.addcdiv(t.ones_like(a), a, b),
    "addr": lambda t, a, b: t.addr(a[:, None], b, t.ones(1, dtype=b.dtype)),
    "number / x": lambda t, a, b: 2 / a,
    **{f"x ** {n}": (lambda t, a, b, n=n: a**n) for n in (2, 3, -1, -2, 0.5, -0.5, 2.5, np.inf, -np.inf, 1j)},
    **{f"{n} ** x": (lambda t, a, b, n=n: n**a) for n in (0, 2, -1, 0.5, np.inf, 1j)},
    **{f"x / {n}": (lambda t, a, b, n=n: a / n) for n in (2, np.inf, 1 + 2j)},
}


def _same_parts(run):
    wanted, got = (run(t).numpy() for t in (torch, torchlike))
    for a, b in ((wanted.real, got.real), (wanted.imag, got.imag)):
        np.testing.assert_allclose(b, a, rtol=1e-12, atol=1e-15)


@pytest.mark.parametrize("name", WITH_SIGNS)
def test_signs_of_zeros(name):
    x = np.array([*AXES, *(complex(a, b) for a in (-0.0, 0.0) for b in (-0.0, 0.0))])
    wanted, got = (getattr(t, name)(t.from_numpy(x.copy())).numpy() for t in (torch, torchlike))
    for a, b in ((wanted.real, got.real), (wanted.imag, got.imag)):
        assert np.signbit(b).tolist() == np.signbit(a).tolist()


@pytest.mark.parametrize("name", OF_ONE)
def test_complex_numbers_that_are_not_finite(name):
    _same_parts(lambda t: getattr(t, name)(t.from_numpy(np.array(ENDS))))


@pytest.mark.parametrize("name", OF_TWO)
def test_two_complex_numbers_of_which_one_is_not_finite(name):
    a, b = (x.ravel() for x in np.meshgrid(ENDS, ENDS))
    _same_parts(lambda t: OF_TWO[name](t, t.from_numpy(a.copy()), t.from_numpy(b.copy())))


@pytest.mark.parametrize("name", ["sinh", "cosh"])
def test_hyperbolic_functions_near_the_axes(name):
    tiny = np.geomspace(1e-15, 1e-3, 20)
    x = np.concatenate([tiny + 1j * tiny[::-1], tiny + 0.5j, 0.5 + 1j * tiny, 1j * (np.pi / 2 - tiny) + tiny])
    for dtype in (np.complex64, np.complex128):
        wanted = getattr(np, name)(x.astype(dtype).astype(np.complex128))
        got = getattr(torchlike, name)(torchlike.tensor(x.astype(dtype))).numpy()
        np.testing.assert_allclose(got.real, wanted.real, rtol=20 * np.finfo(dtype).eps)
        np.testing.assert_allclose(got.imag, wanted.imag, rtol=20 * np.finfo(dtype).eps)


@pytest.mark.parametrize("name", ["sgn", "angle", "sinc"])
def test_tangents_at_zero(name):
    def tangents(t):
        z = t.tensor([0j, complex(-0.0, 0), 1 + 1j, 3 - 4j, -2, 2j, complex(math.nan, 0)], dtype=t.complex128)
        dot = t.ones_like(z) * (1 - 2j)

        def first(x):
            return t.func.jvp(getattr(t, name), (x,), (dot,))[1]

        return (first(z) + 0, *([] if name == "sinc" else [t.func.jvp(first, (z,), (dot,))[1] + 0]))

    agree(tangents)


def test_the_slope_of_sinc_beside_zero():
    def slopes(t):
        x = t.tensor([1e-300, 1e-160, -1e-9, 1e-3, 0.5], dtype=t.float64, requires_grad=True)
        return t.func.jvp(t.sinc, (x.detach(),), (t.ones_like(x),))[1], t.autograd.grad(t.sinc(x).sum(), x)[0]

    agree(slopes)
