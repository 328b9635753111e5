"""torch.autograd.forward_ad: dual tensors, compared with PyTorch."""

from __future__ import annotations

import pytest
from both import agree, agree_error

import torchlike


def inside(f):
    """``f(t, fwAD, x, v)`` in a dual level, on both libraries."""

    def run(t):
        x, v = t.tensor([1.0, 2.0, 3.0]), t.tensor([1.0, 0.0, 2.0])
        with t.autograd.forward_ad.dual_level():
            return f(t, t.autograd.forward_ad, x, v)

    return run


def unpacked(t, f):
    """Primal and tangent of ``f`` of a dual tensor."""
    return tuple(t.autograd.forward_ad.unpack_dual(f))


@pytest.mark.parametrize(
    "f",
    [
        lambda t, d: d * 2 + d.sin(),
        lambda t, d: d.sum() * d[1:],
        lambda t, d: d.clone(),
        lambda t, d: d.detach(),
        lambda t, d: d.argmax(),
        lambda t, d: d > 1,
        lambda t, d: t.ones(3) * 2,
        lambda t, d: t.nn.functional.softplus(d).view(3, 1),
        lambda t, d: d.clone().mul_(3),
        lambda t, d: d.clone().zero_(),
        lambda t, d: t.no_grad()(lambda: d * 3)(),
        lambda t, d: t.vmap(lambda y: y * 2)(d),
    ],
)
def test_results_carry_tangents(f):
    agree(inside(lambda t, fw, x, v: unpacked(t, f(t, fw.make_dual(x, v)))))


def test_what_make_dual_gives():
    def f(t, fw, x, v):
        d = fw.make_dual(x, v)
        u = fw.unpack_dual(d)
        expanded = fw.make_dual(x, t.ones(1).expand(3))
        return (d._is_view(), d._base is x, u.tangent is v, u.primal is d, u._fields, type(u).__name__,
                unpacked(t, x), fw.unpack_dual(expanded).tangent.stride(), repr(d), repr(u))  # fmt: skip

    agree(inside(f))


def test_assignment():
    def f(t, fw, x, v):
        d, z = fw.make_dual(x, v), t.zeros(4)
        z[0], z[2:] = d[2], d[:2]
        d[1] = 7.0
        return unpacked(t, z), unpacked(t, z[2:]), unpacked(t, d), x, v

    agree(inside(f))


def test_reverse_mode_over_both_parts():
    def f(t, fw, x, v):
        x.requires_grad_()
        y = fw.make_dual(x, v).sin()
        primal, dot = fw.unpack_dual(y)
        (first,) = t.autograd.grad(primal.sum(), x, retain_graph=True)
        (second,) = t.autograd.grad(dot.sum(), x, retain_graph=True)
        return y.requires_grad, primal, dot, first, second

    agree(inside(f))


@pytest.mark.parametrize("create", [False, True])
def test_forward_over_reverse(create):
    def f(t, fw, x, v):
        d = fw.make_dual(x.requires_grad_(), v)
        (g,) = t.autograd.grad((d**3).sum() + d.prod(), d, create_graph=create)
        return unpacked(t, g.detach() if False else g)

    agree(inside(f))


def test_backward_accumulates_as_ever():
    def f(t, fw, x, v):
        d = fw.make_dual(x.requires_grad_(), v)
        (d * d).sum().backward()
        return t.autograd.forward_ad.unpack_dual(x.grad).primal

    agree(inside(f))


def test_tangents_end_with_the_level():
    def f(t):
        fw = t.autograd.forward_ad
        with fw.dual_level():
            d = fw.make_dual(t.ones(2), t.ones(2)) * 2
        with fw.dual_level():
            return unpacked(t, d), unpacked(t, d * 3), d

    agree(f)


def test_switch_and_functions():
    def f(t):
        fw = t.autograd.forward_ad
        level = fw.enter_dual_level()
        d = fw.make_dual(t.ones(2), t.ones(2))
        with fw._set_fwd_grad_enabled(False):
            off = fw._is_fwd_grad_enabled(), unpacked(t, d * 2)
        fw.exit_dual_level(level=level)
        return level, off, fw._is_fwd_grad_enabled(), unpacked(t, d)

    agree(f)


@pytest.mark.parametrize(
    ("f", "match"),
    [
        (lambda t, fw, x, v: fw.enter_dual_level(), "Nested forward mode AD is not supported"),
        (lambda t, fw, x, v: fw.make_dual(x, v[:2]), "different size than that of the original Tensor"),
        (lambda t, fw, x, v: fw.make_dual(x.long(), v), "Expected primal to be floating point"),
        (lambda t, fw, x, v: fw.make_dual(x, v.long()), "Expected tangent to be floating point"),
        (lambda t, fw, x, v: fw.make_dual(fw.make_dual(x, v), v), "already has a forward gradient"),
        (lambda t, fw, x, v: fw.make_dual(x, fw.make_dual(v, v)), "forward grad that itself has a forward gradient"),
        (lambda t, fw, x, v: fw.make_dual(x, v, level=3), "Invalid level given to _make_dual"),
        (lambda t, fw, x, v: fw.exit_dual_level(level=2), "was not the last one that was created"),
        (lambda t, fw, x, v: t.vmap(lambda r: fw.make_dual(x, r))(t.eye(3)), "aten::_make_dual"),
    ],
)
def test_refusals(f, match):
    agree_error(inside(f), match)


def test_without_a_level():
    agree_error(lambda t: t.autograd.forward_ad.make_dual(t.ones(1), t.ones(1)), "no level exists")
    agree_error(lambda t: t.autograd.forward_ad.exit_dual_level(), "Dual level must be a positive number")
    agree(lambda t: unpacked(t, t.ones(1)))


def test_a_level_inside_of_vmap():
    fw = torchlike.autograd.forward_ad
    x = torchlike.tensor([1.0, 2.0, 3.0])

    @fw.dual_level()
    def directional(v):
        return fw.unpack_dual(fw.make_dual(x, v).sin()).tangent

    torchlike.testing.assert_close(torchlike.vmap(directional)(torchlike.eye(3)), torchlike.diag(x.cos()))


def test_detach_in_place_drops_the_tangent():
    def script(t):
        with t.autograd.forward_ad.dual_level():
            x = t.autograd.forward_ad.make_dual(t.ones(2), t.ones(2)) * 3
            before = t.autograd.forward_ad.unpack_dual(x).tangent
            return before, x.detach_() is x, t.autograd.forward_ad.unpack_dual(x).tangent, x * 2

    agree(script)


@pytest.mark.parametrize("primal", [
    lambda t: t.ones(4), lambda t: t.ones(5)[:4], lambda t: t.ones(5)[1:], lambda t: t.ones(8)[::2],
    lambda t: t.ones(4).to(t.complex64).real])  # fmt: skip
@pytest.mark.parametrize("tangent", [
    lambda t: t.ones(4), lambda t: t.ones(5)[:4], lambda t: t.ones(5)[1:], lambda t: t.ones(8)[::2]])  # fmt: skip
def test_a_tangent_lies_as_its_primal(primal, tangent):
    """A tangent that lies elsewhere in its storage is copied, so that nothing is shared with what was given."""

    def script(t):
        fw, dot = t.autograd.forward_ad, tangent(t)
        with fw.dual_level():
            dual = fw.make_dual(primal(t), dot)
            got = fw.unpack_dual(dual).tangent
            got *= 2
            window = fw.unpack_dual(dual.as_strided((2,), (1,), 0)).tangent
            return dot, got is dot, got.stride(), got.storage_offset(), window

    agree(script)


@pytest.mark.parametrize("change", [lambda x: x.conj(), lambda x: x._neg_view()])
def test_a_tangent_that_is_conjugate_is_copied(change):
    def script(t):
        fw, x, dot = t.autograd.forward_ad, t.ones(2) + 1j, change(t.ones(2) + 1j)
        with fw.dual_level():
            got = fw.unpack_dual(fw.make_dual(x, dot)).tangent
            got *= 2
            return dot, got

    agree(script)


FLAGS = [lambda x: x, lambda x: x.conj(), lambda x: x._neg_view(), lambda x: x.conj()._neg_view()]


@pytest.mark.parametrize("primal", FLAGS)
@pytest.mark.parametrize("tangent", FLAGS)
def test_a_tangent_is_conjugate_where_its_primal_is(primal, tangent):
    """Or the views that only a conjugate tensor has would have none of its tangent."""

    def script(t):
        fw, x = t.autograd.forward_ad, t.tensor([1 + 2j, 3 - 1j])
        with fw.dual_level():
            dual = fw.make_dual(primal(x), tangent(x * 2j))
            dots = [fw.unpack_dual(d).tangent for d in (dual, dual.real, dual.imag, dual.conj(), dual * 2)]
            return [(d.is_conj(), d.is_neg(), d.resolve_conj().resolve_neg()) for d in dots]

    agree(script)


@pytest.mark.parametrize("view", [
    lambda t, z: z.real, lambda t, z: z.imag, lambda t, z: z.conj().imag, lambda t, z: t.view_as_real(z),
    lambda t, z: z.reshape(2, 1).mH, lambda t, z: z.conj(), lambda t, z: z._neg_view(),
    lambda t, z: z.conj()._neg_view()[1:], lambda t, z: t.view_as_complex(t.view_as_real(z)[:, ::1]),
    lambda t, z: z.real[1:], lambda t, z: z.detach().imag])  # fmt: skip
@pytest.mark.parametrize("dual", [False, True])
def test_a_tangent_written_to_a_view_is_that_of_its_base(view, dual):
    def script(t):
        fw, z = t.autograd.forward_ad, t.tensor([1 + 2j, 3 - 1j])
        with fw.dual_level():
            z = fw.make_dual(z, z * 3) if dual else z
            x = view(t, z)
            dot = t.arange(1.0, 1 + x.numel()).reshape(x.shape).to(x.dtype) * (1j if x.is_complex() else 1)
            x.mul_(fw.make_dual(t.ones_like(x), dot))
            found = fw.unpack_dual(z)
            return found.primal, found.tangent, fw.unpack_dual(view(t, z) * 1).tangent

    agree(script)


def test_a_tangent_written_to_a_view_of_floats_as_complex_numbers_is_that_of_its_base():
    def script(t):
        fw, r = t.autograd.forward_ad, t.arange(6.0)
        with fw.dual_level():
            z = t.view_as_complex(r[:4].view(2, 2)).conj()
            z.copy_(fw.make_dual(t.ones(2) + 0j, t.tensor([1 + 2j, 3j])))
            return r, fw.unpack_dual(r).tangent

    agree(script)
