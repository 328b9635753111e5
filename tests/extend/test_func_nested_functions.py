"""A custom Function under several vmaps: its backward and tangents, seen from outside."""

import pytest
from both import agree


def cube(t):
    class Cube(t.autograd.Function):
        generate_vmap_rule = True

        @staticmethod
        def forward(x, w):
            return x**3 * w

        @staticmethod
        def setup_context(ctx, inputs, output):
            ctx.save_for_backward(*inputs)
            ctx.save_for_forward(*inputs)

        @staticmethod
        def backward(ctx, g):
            x, w = ctx.saved_tensors
            return g * 3 * x**2 * w, g * x**3

        @staticmethod
        def jvp(ctx, dx, dw):
            x, w = ctx.saved_tensors
            return dx * 3 * x**2 * w + x**3 * dw

    return Cube.apply


@pytest.mark.parametrize("axes", [(0, 0), (0, 1), (1, 0), (1, 1), (0, None), (0, 1, 0), (0, 0, 0)])
@pytest.mark.parametrize("tape", [True, False])
def test_derivatives_around_nested_vmaps(axes, tape):
    def run(t):
        x = (t.arange(1.0, 49.0, dtype=t.float64) / 20).reshape(2, 3, 2, 4).requires_grad_(tape)
        w = (t.arange(1.0, 5.0, dtype=t.float64) / 4).requires_grad_(tape)
        f = cube(t)
        for axis in axes:
            if axis is not None:
                f = t.vmap(f, in_dims=(axis, None))
        if not tape:
            return t.func.grad(lambda x, w: (f(x, w) ** 2).sum(), (0, 1))(x, w), t.func.jvp(f, (x, w), (x, w))
        first = t.autograd.grad((f(x, w) ** 2).sum(), (x, w), create_graph=True)
        return first, t.autograd.grad(sum(g.sum() for g in first), (x, w))

    agree(run)
