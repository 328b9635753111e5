"""Matrix products and convolutions over a mapped axis; tangents of views of views."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from both import agree

import torchlike
from torchlike._decl.products import for_each
from torchlike._transforms.levels.jvp import JvpLevel


def numbers(lib, *shape):
    """The same small integers in both libraries, whose products are exact."""
    return lib.from_numpy(np.random.default_rng(sum(shape)).integers(-4, 5, shape).astype(np.float32))


def mapped(f, first, second):
    """``f`` over each axis of its second argument."""

    def run(lib):
        x, found = numbers(lib, *first), []
        for d in range(len(second) + 1):
            for n in (1, 64):
                y = numbers(lib, *second[:d], n, *second[d:])
                found.append(lib.func.vmap(lambda x, y: f(lib, x, y), (None, d))(x, y))
        return found

    return run


@pytest.mark.parametrize(
    ("f", "first", "second"),
    [
        (lambda lib, x, w: x @ w, (3, 4), (4, 5)),
        (lambda lib, x, w: w @ x, (5, 3), (4, 5)),
        (lambda lib, x, w: w.mT @ x, (5, 3), (5, 4)),
        (lambda lib, x, w: w.mT @ x, (5,), (5, 4)),
        (lambda lib, x, w: (w.mT @ x).mT.clone(), (5, 3), (5, 4)),
        (lambda lib, x, w: lib.nn.functional.linear(x, w), (2, 3, 4), (5, 4)),
        (lambda lib, x, w: lib.func.vjp(lambda w: x @ w, w)[1](lib.ones(3, 5))[0], (3, 4), (4, 5)),
        (lambda lib, x, g: lib.func.vjp(lambda w: x @ w, lib.ones(4, 5))[1](g)[0], (3, 4), (3, 5)),
        (lambda lib, x, g: lib.func.vjp(lambda a: a @ x, lib.ones(3, 4))[1](g)[0], (4,), (3,)),
        (lambda lib, x, t: lib.func.jvp(lambda w: x @ w, (lib.ones(4, 5),), (t,)), (3, 4), (4, 5)),
        (lambda lib, x, t: lib.func.jvp(lambda w: (x @ w) @ w.mT, (lib.ones(4, 5),), (t,)), (3, 4), (4, 5)),
        (lambda lib, x, t: lib.func.jvp(lib.func.grad(lambda w: (x @ w).pow(2).sum()), (lib.ones(4, 5),), (t,)),
         (3, 4), (4, 5)),
        (lambda lib, w, x: lib.func.vjp(lambda x: lib.nn.functional.conv2d(x, w), x)[1](lib.ones(1, 3, 4, 4))[0],
         (3, 2, 3, 3), (1, 2, 6, 6)),
    ],
)  # fmt: skip
def test_mapped(f, first, second):
    agree(mapped(f, first, second))


def primitives(f, *values):
    return [e.primitive.name for e in jax.make_jaxpr(f)(*values).jaxpr.eqns]


def test_nothing_moves():
    shared, each = jnp.ones((3, 4)), jnp.ones((64, 4, 5))
    f = jax.vmap(lambda a, b: a @ b, (None, 0))
    assert "transpose" in primitives(f, shared, each)
    names = primitives(for_each(f), shared, each)
    assert names.count("dot_general") == 1 and names[-1] == "dot_general"


def test_a_large_operand_is_not_repeated():
    f = for_each(jax.vmap(lambda a, b: a @ b, (None, 0)))
    assert "broadcast_in_dim" not in primitives(f, jnp.ones((64, 64)), jnp.ones((100, 64, 2)))


def views_of_views(lib):
    def f(w):
        a = w[:6].reshape(2, 3)
        b = a.mT[1:]
        return b.sin() @ a + w[6:].unsqueeze(0).expand(2, 3), b[0]

    def changed(w):
        v = w * 1
        v[:6].reshape(2, 3)[1].mul_(v[6:])
        part = v.view(3, 3)[1:]
        part[0].copy_(v[:3])
        return v, part

    w, t = lib.linspace(0, 1, 9), lib.arange(9.0)
    return [lib.func.jvp(g, (w,), (t,)) for g in (f, changed)], lib.func.jacfwd(f)(w)


def test_tangents_of_views_of_views():
    def rounded(lib):
        flat = lib.utils._pytree.tree_leaves(views_of_views(lib))
        return [(x * 1e4).round() for x in flat]

    agree(rounded)


def test_the_tangent_of_a_view_is_the_same_view():
    """Not one by strides, which is read as a gather."""
    level, steps = JvpLevel(), []
    with level:
        w = level.dual(torchlike.zeros(6), torchlike.arange(6.0))
        dot = level.of(w[2:].view(2, 2)[1])
        steps += [step[0].name for step in dot._view.steps]
    assert dot.tolist() == [4, 5] and "as_strided" not in steps


def test_contiguous_examples():
    agree(lambda lib: [
        (y.stride(), y.is_contiguous(), y.clone().stride())
        for n in (1, 2)
        for f in (lambda w: w.mT.contiguous(), lambda w: w.mT * 1)
        for y in [lib.vmap(f)(lib.ones(n, 5, 4))]
    ])  # fmt: skip


def test_products_beside_functions_with_derivatives_of_their_own():
    """What is run again equation by equation keeps jax's custom derivatives."""
    agree(lambda lib: [
        lib.vmap(lambda a, b: lib.func.jvp(lib.linalg.cholesky, (a,), (b,))[1].round(decimals=4), (None, 0))(
            4 * lib.eye(3), lib.stack([lib.eye(3), 2 * lib.eye(3)])),
    ])  # fmt: skip


def view_and_change(weight, x):
    y = x.mm(weight)
    head = y[0]
    y.mul_(2)
    return head.sum()


def views_and_changes(weight, x):
    y = x.mm(weight)
    head = y[0]
    first = head[:1]
    head.mul_(3)
    y.exp_()
    return (first * head).sum() + y.sin().sum()


@pytest.mark.parametrize("loss", [view_and_change, views_and_changes])
def test_a_view_from_before_a_change_in_place(loss):
    def f(t):
        weight, x = t.arange(6.0).reshape(3, 2) / 10, t.arange(12.0).reshape(4, 1, 3) / 10
        each = [t.vmap(change(loss), (None, 0))(weight, x) for change in (t.func.grad, t.func.jacrev)]
        twice = t.func.grad(lambda w: t.func.grad(lambda w: loss(w, x[1]))(w).pow(2).sum())(weight)
        return [g.round(decimals=3) + 0.0 for g in (*each, twice)]

    agree(f)
