"""Custom functions under vmap and forward mode: their ``vmap`` and ``jvp``, the generated rule, and what is refused."""

from __future__ import annotations

import functools

import function_kit
import pytest
from both import agree, agree_error

import torchlike


@functools.cache
def functions(t):
    """A namespace of Functions of the library ``t``."""

    class Product(t.autograd.Function):
        @staticmethod
        def forward(x, y, k):
            return x * y * k, x + y, "aux"

        @staticmethod
        def setup_context(ctx, inputs, output):
            x, y, ctx.k = inputs
            ctx.save_for_backward(x, y)
            ctx.save_for_forward(x, y)

        @staticmethod
        def backward(ctx, g, h, _):
            x, y = ctx.saved_tensors
            return g * y * ctx.k + h, g * x * ctx.k + h, None

        @staticmethod
        def jvp(ctx, dx, dy, dk):
            assert dk is None
            x, y = ctx.saved_tensors
            return (dx * y + x * dy) * ctx.k, dx + dy, None

    class Generated(Product):
        generate_vmap_rule = True

    class Mapped(Product):
        seen: list = []

        @staticmethod
        def vmap(info, in_dims, x, y, k):
            Mapped.seen.append((tuple(info), info.batch_size, info.randomness, in_dims, tuple(x.shape), tuple(y.shape)))
            x = x.movedim(in_dims[0], 0) if in_dims[0] is not None else x
            y = y.movedim(in_dims[1], 0) if in_dims[1] is not None else y
            return Mapped.apply(x, y, k), (0, 0, None)

    return {c.__name__: c for c in (Product, Generated, Mapped)} | {"Plain": function_kit.doubled(t)}


def get(t, name):
    return functions(t)[name]


def data(t, grad=False):
    x = (t.arange(6.0, dtype=t.float64).reshape(3, 2) - 2).requires_grad_(grad)
    return x, t.tensor([0.5, 3.0], dtype=t.float64).requires_grad_(grad)


@pytest.mark.parametrize("name", ["Generated", "Mapped"])
@pytest.mark.parametrize("dims", [(0, None), (1, None), (0, 0), (None, 0)])
def test_vmap(name, dims):
    def f(t):
        x, y = data(t)
        y = y if dims[1] is None else x if dims[0] is not None else x[:, :1] * y
        get(t, "Mapped").seen.clear()
        if dims[0] == 1:
            y = t.ones(3, dtype=t.float64)
        got = t.vmap(lambda a, b: get(t, name).apply(a, b, 3.0)[:2], in_dims=dims)(x, y)
        return got, list(get(t, "Mapped").seen)

    agree(f)


@pytest.mark.parametrize("name", ["Generated", "Mapped"])
def test_gradients_through_vmap(name):
    def f(t):
        x, y = data(t, grad=True)
        out = t.vmap(lambda a, b: get(t, name).apply(a, b, 3.0)[0], in_dims=(0, None))(x, y)
        (g,) = t.autograd.grad((out**2).sum(), x, create_graph=True, retain_graph=True)
        return out, g, t.autograd.grad(g.sum(), (x, y))

    agree(f)


def test_the_generated_node_has_a_name():
    agree(lambda t: t.vmap(lambda a: get(t, "Generated").apply(a, a, 2.0)[0])(data(t, True)[0]).grad_fn.name())


@pytest.mark.parametrize("name", ["Generated", "Mapped"])
def test_nested_vmaps(name):
    agree(lambda t: t.vmap(t.vmap(lambda a: get(t, name).apply(a, a * 2, 3.0)[:2]))(t.ones(2, 3, 2) + t.arange(2.0)))


def test_shared_arguments_only():
    agree(lambda t: t.vmap(lambda a: get(t, "Generated").apply(t.ones(2), t.ones(2), 2.0)[0] * a)(data(t)[0].float()))
    agree(lambda t: t.vmap(lambda a: get(t, "Mapped").apply(t.ones(2), t.ones(2), 2.0)[0] * a)(data(t)[0].float()))


def test_shapes_are_reduced_for_each_example():
    def f(t):
        class Scaled(t.autograd.Function):
            generate_vmap_rule = True

            @staticmethod
            def forward(x, s):
                return x * s

            @staticmethod
            def setup_context(ctx, inputs, output):
                ctx.save_for_backward(*inputs)

            @staticmethod
            def backward(ctx, g):
                x, s = ctx.saved_tensors
                return g * s, (g * x).sum()

        x, _ = data(t, grad=True)
        s = t.tensor([1.0, 2.0, 3.0], dtype=t.float64, requires_grad=True)
        return t.autograd.grad(t.vmap(Scaled.apply)(x, s).sum(), (x, s))

    agree(f)


def returned(t, make):
    """A Function whose ``vmap`` gives what ``make(x)`` gives, mapped."""

    class Bad(t.autograd.Function):
        @staticmethod
        def forward(x):
            return x * 2

        @staticmethod
        def setup_context(ctx, inputs, output):
            pass

        @staticmethod
        def vmap(info, in_dims, x):
            return make(x)

    return t.vmap(Bad.apply)(t.ones(3, 2))


def test_what_vmap_may_return():
    agree(lambda t: returned(t, lambda x: (x.t() * 2, 1)))
    agree(lambda t: returned(t, lambda x: (x.t() * 2, -1)))
    agree(lambda t: returned(t, lambda x: (x[0] * 2, None)))
    agree(lambda t: returned(t, lambda x: ((x, x * 3), 0)))
    agree_error(lambda t: returned(t, lambda x: x * 2), "the vmap staticmethod to have two returns.*Got a <class")
    agree_error(lambda t: returned(t, lambda x: (x, 0, 0)), "to have two returns.*Got 3 returns")
    agree_error(lambda t: returned(t, lambda x: ((x, x), (0,))), "incompatible .output, out_dims. tuple")


def test_refusals():
    agree_error(lambda t: t.vmap(get(t, "Plain").apply)(t.ones(2)), "it must override the setup_context staticmethod")
    agree_error(lambda t: t.func.jvp(get(t, "Plain").apply, (t.ones(2),), (t.ones(2),)), "override the setup_context")
    agree_error(lambda t: t.vmap(lambda a: get(t, "Product").apply(a, a, 2.0)[0])(t.ones(2)),
                "tried to vmap over Product, but it does not have vmap support")  # fmt: skip

    def both(t):
        cls = type("Both", (get(t, "Mapped"),), {"generate_vmap_rule": True})
        return t.vmap(lambda a: cls.apply(a, a, 2.0)[0])(t.ones(2))

    agree_error(both, "it has both generate_vmap_rule=True and an overridden vmap staticmethod")


# -- forward mode ------------------------------------------------------------------------------------


def test_jvp():
    def f(t):
        x, v = data(t)[0], t.ones(3, 2, dtype=t.float64)
        g = lambda a: get(t, "Product").apply(a, a * 2, 3.0)[:2]  # noqa: E731
        h = lambda a: get(t, "Product").apply(a, t.ones(2), 3.0)[:2]  # noqa: E731
        return t.func.jvp(g, (x,), (v,)), t.func.jvp(h, (x,), (v,))

    agree(f)


def test_jvp_with_vmap():
    def f(t):
        x, v = data(t)[0], t.ones(3, 2, dtype=t.float64)
        g = lambda a: get(t, "Generated").apply(a, a, 3.0)[0]  # noqa: E731
        return t.func.jvp(t.vmap(g), (x,), (v,)), t.vmap(lambda r: t.func.jvp(g, (x,), (r,)))(t.stack([v, v * 2]))

    agree(f)


def test_gradients_of_jvp():
    def f(t):
        x, v = data(t, grad=True)[0], t.ones(3, 2, dtype=t.float64)
        out, dot = t.func.jvp(lambda a: get(t, "Product").apply(a, a, 3.0)[0], (x,), (v,))
        return out, dot, t.autograd.grad((out * dot).sum(), x)

    agree(f)


def dual(forward, jvp, run=None):
    """Primal and tangent of the outputs of an old-style Function of a dual tensor."""

    def f(t):
        fw = t.autograd.forward_ad
        static = {"forward": staticmethod(forward), "jvp": staticmethod(jvp)}
        cls = type("Custom", (t.autograd.Function,), static)
        with fw.dual_level():
            v = t.tensor([1.0, 0.0, 2.0])
            x = fw.make_dual(t.tensor([1.0, 2.0, 3.0]), v)
            out = cls.apply(x) if run is None else run(t, cls, x)
            outs = out if isinstance(out, tuple) else (out,)
            return out is x, v, [tuple(fw.unpack_dual(o)) if isinstance(o, t.Tensor) else o for o in outs]

    return f


def doubled(ctx, x):
    return x * 2


def changed(ctx, x):
    x.mul_(2)
    ctx.mark_dirty(x)
    return x


def marked(ctx, x):
    y = x * 2
    ctx.mark_non_differentiable(y)
    return y


@pytest.mark.parametrize(
    ("forward", "jvp"),
    [
        (doubled, lambda ctx, d: d * 2),
        (doubled, lambda ctx, d: d),
        (doubled, lambda ctx, d: d.mul_(2)),
        (changed, lambda ctx, d: d.mul_(2)),
        (marked, lambda ctx, d: None),
        (lambda ctx, x: x.argmax(), lambda ctx, d: None),
        (lambda ctx, x: (x * 2, 3), lambda ctx, d: (d * 2, None)),
        (lambda ctx, x: x[1:], lambda ctx, d: d[1:]),
        (lambda ctx, x: x.view_as(x), lambda ctx, d: d.view_as(d)),
        (lambda ctx, x: x, lambda ctx, d: d.view_as(d)),
    ],
)
def test_outputs(forward, jvp):
    agree(dual(forward, jvp))


@pytest.mark.parametrize(
    ("forward", "jvp", "match"),
    [
        (doubled, lambda ctx, d: (d, d), r"invalid number of forward gradients \(expected 1 but got 2\)"),
        (doubled, lambda ctx, d: (), r"invalid number of forward gradients \(expected 1 but got 0\)"),
        (lambda ctx, x: (x, x * 2), lambda ctx, d: d, r"invalid number of forward gradients \(expected 2 but got 1\)"),
        (doubled, lambda ctx, d: 3.0, r"expected Variable or None \(got float\) for grad output 0"),
        (doubled, lambda ctx, d: d[:2], "different size than that of the original Tensor"),
        (marked, lambda ctx, d: d, "gradient at position 0, but  the corresponding forward output is not a diff"),
        (lambda ctx, x: x.long(), lambda ctx, d: d, "gradient at position 0"),
        (changed, lambda ctx, d: d * 2, "not modifying the forward mode gradients inplace"),
        (changed, lambda ctx, d: None, "not modifying the forward mode gradients inplace"),
        (lambda ctx, x: x[1:], lambda ctx, d: d[1:] * 1, "the jvp is not returning a view"),
        (lambda ctx, x: x, lambda ctx, d: d, "the jvp is not returning a view"),
        (doubled, torchlike.autograd.Function.jvp, "You must implement the jvp function"),
    ],
)
def test_outputs_that_are_refused(forward, jvp, match):
    agree_error(dual(forward, jvp), match)


def keeping(ctx, x, y):
    ctx.save_for_backward(x * 5)
    ctx.save_for_forward(x * 7, y)
    ctx.foo = x * 10
    return x * y


def test_what_jvp_finds_on_ctx():
    seen = []

    def jvp(ctx, dx, dy):
        a, b = ctx.saved_tensors
        seen.append((a.sum().item(), b.item(), ctx.foo.sum().item(), dy if dy is None else dy.item()))
        del ctx.foo
        return dx * b

    agree(dual(keeping, jvp, lambda t, cls, x: cls.apply(x, t.tensor(2.0))))
    assert set(seen) == {(42.0, 2.0, 60.0, 0.0)}


def test_tangents_that_are_not_materialized():
    seen = []

    def forward(ctx, x, y, n, k):
        ctx.set_materialize_grads(False)
        return x * y

    def jvp(ctx, dx, dy, dn, dk):
        seen.append((dy, dn, dk))
        return dx * 2

    agree(dual(forward, jvp, lambda t, cls, x: cls.apply(x, t.tensor(2.0), t.tensor(1), "k")))
    assert set(seen) == {(None, None, None)}


def test_no_tangent_for_an_output():
    f = dual(lambda ctx, x: (x * 2, x * 3), lambda ctx, d: (d, None))
    assert f(torchlike)[2][1][1] is None
