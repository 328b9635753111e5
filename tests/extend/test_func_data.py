"""``x.data`` inside transforms: without the derivative of the innermost one, with those of the others around."""

import copy
import pickle

import jax
import numpy as np
import pytest
import torch as pytorch

import torchlike


def both_factors(t, v):
    return (v * v * v.data).sum()


def changed_in_place(t, v):
    w = v * 1
    w.data.mul_(2)
    return (w * w).sum()


def of_what_is_saved(t, v):
    y = v.exp()
    y.data.mul_(2)
    return (y * y).sum()


def of_views(t, v):
    y = v * 1
    z = y[1:]
    return (z.data * z).sum() + (y.data[:2] * y[:2]).sum() + (y.data.split(2)[1] * y[2:]).sum()


def of_the_argument(t, v):
    v.data.mul_(1.0)
    return (v * v.data).sum()


def reshaped(t, v):
    return (v.data.reshape(3, 1) @ v.reshape(1, 3)).sum()


def its_versions(t, v):
    y = v * 1
    before = y._version
    y.data.add_(1)
    return (v * (y._version - before) + y.data._version).sum()


NESTS = {
    "grad": lambda F, f, v: F.grad(f)(v),
    "vjp": lambda F, f, v: F.vjp(f, v)[1](v.new_ones(())),
    "jvp": lambda F, f, v: F.jvp(f, (v,), (v,)),
    "jacfwd": lambda F, f, v: F.jacfwd(f)(v),
    "grad of grad": lambda F, f, v: F.grad(lambda v: F.grad(f)(v).sum())(v),
    "jvp of jvp": lambda F, f, v: F.jvp(lambda v: F.jvp(f, (v,), (v,))[1], (v,), (v,)),
    "grad of jvp": lambda F, f, v: F.grad(lambda v: F.jvp(f, (v,), (v,))[1])(v),
    "jvp of grad": lambda F, f, v: F.jvp(F.grad(f), (v,), (v,)),
    "hessian": lambda F, f, v: F.hessian(f)(v),
    "jacobian of jacobian": lambda F, f, v: F.jacrev(F.jacfwd(f))(v),
    "vmap of grad": lambda F, f, v: F.vmap(F.grad(f))(v.expand(2, 3) * 1),
}
TAPES = {
    "backward through grad": lambda F, f, v: F.grad(f)(v),
    "backward through jvp": lambda F, f, v: F.jvp(f, (v,), (v.detach(),))[1],
}
PROGRAMS = (both_factors, changed_in_place, of_what_is_saved, of_views, of_the_argument, reshaped)


def numbers(x):
    return [numbers(y) for y in x] if isinstance(x, tuple) else (x.detach() + 0).tolist()


def result(t, run, f, leaf=False):
    v = t.tensor([1.0, -2.0, 0.5], dtype=t.float64, requires_grad=leaf)
    out = run(t.func, lambda v: f(t, v), v)
    return numbers(t.autograd.grad(out.sum(), v) if leaf else out)


def agree(*args):
    try:
        expected = result(pytorch, *args)
    except RuntimeError:  # it changes what a level around saves, or its leaf
        with pytest.raises(RuntimeError, match="in-?place operation"):
            result(torchlike, *args)
        return
    np.testing.assert_allclose(jax.tree.leaves(result(torchlike, *args)), jax.tree.leaves(expected), rtol=1e-12)


@pytest.mark.parametrize("f", PROGRAMS)
@pytest.mark.parametrize("nest", NESTS)
def test_nested(nest, f):
    agree(NESTS[nest], f)


@pytest.mark.parametrize("f", PROGRAMS[:1] + PROGRAMS[3:4] + PROGRAMS[5:])
@pytest.mark.parametrize("tape", TAPES)
def test_within_a_tape(tape, f):
    agree(TAPES[tape], f, True)


@pytest.mark.parametrize("nest", ["grad", "jvp"])
def test_its_versions(nest):
    agree(NESTS[nest], its_versions)


def test_a_view_of_a_primal_has_no_tangent():
    def f(t):
        with t.autograd.forward_ad.dual_level():
            x = t.autograd.forward_ad.make_dual(t.ones(3), t.arange(3.0))
            primal = t.autograd.forward_ad.unpack_dual(x).primal
            views = primal, primal[:2], *primal.split(1)
            return [t.autograd.forward_ad.unpack_dual(y).tangent is None for y in views]

    assert f(torchlike) == f(pytorch)


COPIES = {"copy": copy.copy, "deepcopy": copy.deepcopy, "pickle": lambda x: pickle.loads(pickle.dumps(x))}


@pytest.mark.parametrize("make", COPIES)
@pytest.mark.parametrize("transform", ["grad", "jvp", "vmap", "jvp of grad"])
def test_copies_of_memory_are_refused(transform, make):
    """A copy would have no tangent, and no gradient: it was a constant in silence, but where it was refused."""

    def run(t):
        def f(x):
            return (COPIES[make](x) * 2).sum()

        x = t.ones(3)
        transforms = {
            "grad": lambda: t.func.grad(f)(x), "jvp": lambda: t.func.jvp(f, (x,), (x,)),
            "vmap": lambda: t.func.vmap(f)(x), "jvp of grad": lambda: t.func.jvp(t.func.grad(f), (x,), (x,)),
        }  # fmt: skip
        with pytest.raises(NotImplementedError, match="Cannot access storage of"):
            transforms[transform]()

    run(pytorch)
    run(torchlike)
