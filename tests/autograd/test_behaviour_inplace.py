"""Behaviours of autograd around what a backward needs unchanged, and changes in place, one small story each."""

import pytest
from both import agree
from story_kit import grid, leaf, said, story

SAVED = {
    "exp": lambda t, b: b.exp(),
    "mul": lambda t, b: b * b,
    "pow": lambda t, b: b**2,
    "div": lambda t, b: 1 / b,
    "sin": lambda t, b: b.sin(),
    "add": lambda t, b: b + b,
    "sum": lambda t, b: b.sum(),
    "mul by a number": lambda t, b: b * 3,
    "relu": lambda t, b: b.relu(),
    "max": lambda t, b: b.max(),
    "amax": lambda t, b: b.amax(0),
    "softmax": lambda t, b: b.softmax(0)[1:],
    "matmul": lambda t, b: b @ b,
    "prod": lambda t, b: b.prod(),
    "where": lambda t, b: t.where(b > 1, b, 2 * b),
    "abs": lambda t, b: b.abs(),
    "sqrt": lambda t, b: b.sqrt(),
    "norm": lambda t, b: b.norm(),
    "clamp": lambda t, b: b.clamp(0, 2),
    "view": lambda t, b: b.view(3, 1),
    "index": lambda t, b: b[[0, 1]],
    "cumsum": lambda t, b: b.cumsum(0),
    "cumprod": lambda t, b: b.cumprod(0),
    "sort": lambda t, b: b.sort()[0],
    "var": lambda t, b: b.var(),
    "logsumexp": lambda t, b: b.logsumexp(0),
    "tanh": lambda t, b: b.tanh(),
    "sigmoid": lambda t, b: b.sigmoid(),
    "log": lambda t, b: b.log(),
    "mean": lambda t, b: b.mean(),
    "maximum": lambda t, b: t.maximum(b, b * 2),
    "addcmul": lambda t, b: t.addcmul(b, b, b),
    "lerp": lambda t, b: b.lerp(b * 2, 0.5),
    "masked_fill": lambda t, b: b.masked_fill(b > 1, 0),
    "gather": lambda t, b: b.gather(0, t.tensor([0])),
    "mse": lambda t, b: t.nn.functional.mse_loss(b, b.detach() * 0),
    "gelu": lambda t, b: t.nn.functional.gelu(b),
    "layer_norm": lambda t, b: t.nn.functional.layer_norm(b, (3,))[1:],
    "std": lambda t, b: b.std(),
    "atan2": lambda t, b: t.atan2(b, b),
    "cat": lambda t, b: t.cat([b, b]),
    "stack": lambda t, b: t.stack([b, b]),
    "neg": lambda t, b: -b,
    "floor": lambda t, b: b.floor(),
    "flip": lambda t, b: b.flip(0),
    "outer": lambda t, b: t.outer(b, b),
    "log_softmax": lambda t, b: b.log_softmax(0),
    "reciprocal": lambda t, b: b.reciprocal(),
}


@pytest.mark.parametrize("which", ["input", "result"])
@pytest.mark.parametrize("name", SAVED)
def test_what_a_backward_needs_unchanged(name, which):
    def f(t):
        x = leaf(t)
        b = x * 1
        y = SAVED[name](t, b)
        total = y.sum()
        (b if which == "input" else y.detach()).add_(1)
        got = said(total.backward, "modified by an inplace operation")
        return got, x.grad

    agree(f)


@story
def test_the_message_of_a_changed_tensor(t):
    x = leaf(t)
    y = x.exp()
    y.mul_(2)
    z = (x * 1).reshape(3, 1)
    w = z * z
    z.add_(1)
    match = "inplace operation: .torch.DoubleTensor .[\\d, ]+.., .*is at version \\d; expected version \\d"
    return said(y.sum().backward, match), said(w.sum().backward, match)


@story
def test_in_place_on_unused_outputs(t):
    x = grid(t)
    values, indices = x.max(dim=1)
    indices.add_(1)
    return said(values.sum().backward, "inplace"), x.grad


@story
def test_in_place_keeps_the_old_result_out(t):
    x = leaf(t)
    y = x * 2
    z = y + 1
    y.mul_(3)
    (y + z).sum().backward()
    return x.grad, y.grad_fn, y.grad_fn.next_functions[0][0]


@story
def test_in_place_on_what_requires_no_grad(t):
    x = leaf(t)
    a = t.zeros(3, dtype=t.float64)
    b = a + 0
    b.add_(x)
    c = a.add_(1)
    return b.grad_fn, b.requires_grad, a.requires_grad, c is a, t.autograd.grad(b.sum(), x)


@story
def test_out_arguments_and_grad(t):
    x, y = leaf(t), t.zeros(3, dtype=t.float64)
    match = "don't support automatic differentiation, but one of the arguments requires grad"
    refused = [
        said(lambda: t.add(x, 1, out=y), match),
        said(lambda: t.mul(y, y, out=x), match),
        said(lambda: t.exp(y, out=x), match),
        said(lambda: t.cat([x, x], out=t.zeros(6, dtype=t.float64)), match),
        said(lambda: t.mm(grid(t), grid(t).t(), out=t.zeros(2, 2, dtype=t.float64)), match),
    ]
    with t.no_grad():
        t.add(x, 1, out=y)
        t.mul(y, 2, out=x)
    return refused, y, x, y._version, x._version, x.requires_grad


@story
def test_in_place_dtype_rules(t):
    x = t.ones(2, requires_grad=True) * 1
    i = t.ones(2, dtype=t.int64)
    return [
        said(lambda: i.add_(x), "can't be cast"),
        said(lambda: i.mul_(1.5), "can't be cast"),
        said(lambda: x.add_(t.ones(2).double())),
        said(lambda: x.mul_(t.ones(3, 2)), "doesn't match the broadcast shape"),
        x.grad_fn,
    ]


@story
def test_expanded_tensors_in_place(t):
    x = leaf(t)
    e = (x * 1).expand(2, 3)
    e2 = t.ones(1).expand(3)
    match = "unsupported operation: more than one element of the written-to tensor refers to a single memory location"
    return (
        said(lambda: e.add_(1), match),
        said(lambda: e2.mul_(2), match),
        said(lambda: e.copy_(t.ones(2, 3)), match),
        e,
    )


@story
def test_in_place_on_overlapping_windows(t):
    x = leaf(t, 1, 2, 3, 4)
    b = x * 1
    b.as_strided((2, 2), (2, 1)).mul_(3)
    y = x * 1
    w = y.as_strided((3, 2), (1, 1))
    (w**2).sum().backward()
    return b, x.grad


@story
def test_strided_gradients_of_zero_stride(t):
    x = t.ones(5, 5, requires_grad=True)
    y = t.ones(5, requires_grad=True)
    out = x.mv(y)
    out.sum().backward()
    out2 = (x @ t.ones(5, 5)).t()
    out2.backward(t.ones(1).expand(5, 5))
    return x.grad, y.grad


@story
def test_diagonals_and_selections_of_expanded_gradients(t):
    out = []
    for f in (
        lambda x: x.diagonal(),
        lambda x: x.select(0, 1),
        lambda x: x[1:],
        lambda x: x.unfold(0, 1, 1),
        lambda x: x.t()[0],
        lambda x: x.trace(),
        lambda x: x.as_strided((2,), (1,)),
        lambda x: x.permute(1, 0).narrow(0, 1, 1),
    ):
        x = grid(t, 3, 3)
        y = f(x)
        out.append(
            t.autograd.grad(
                y, x, t.full((1,), 2.0, dtype=t.float64).expand(y.shape) if y.ndim else t.tensor(2.0, dtype=t.float64)
            )
        )
    return out


@story
def test_copies(t):
    x = leaf(t)
    b = t.zeros(2, 3)
    b.copy_(x)
    seen = b.grad_fn, b.requires_grad
    b.sum().backward()
    c = t.ones(3, dtype=t.complex128, requires_grad=True)
    d = c * 1
    d.copy_(x)
    d.real.sum().backward()
    return seen, x.grad, c.grad, d


@story
def test_a_copy_to_a_view_and_back(t):
    x, y = leaf(t), leaf(t, 4, 5, 6)
    b = x.clone()
    b[1:].copy_(y[:2])
    b.detach()
    (b**2).sum().backward()
    return x.grad, y.grad


@story
def test_complex_views(t):
    z = t.tensor([1 + 2j, 3 - 1j], dtype=t.complex128, requires_grad=True)
    w = z * 1
    w.real.mul_(2)
    t.view_as_real(w)[:, 1].add_(1)
    names = w.grad_fn, w.real.grad_fn, w.imag._is_view(), w.conj().is_conj(), w.conj()._is_view()
    w.imag.exp_()
    (w.abs() ** 2).sum().backward()
    return w, z.grad, names


@story
def test_in_place_on_a_conjugate_view(t):
    z = t.tensor([1 + 2j, 3 - 1j], dtype=t.complex128, requires_grad=True)
    w = z * 1
    c = w.conj()
    c.mul_(2j)
    (w * w).sum().abs().backward()
    return w, c, z.grad, c.grad_fn


@story
def test_unsqueeze_in_place_and_others(t):
    x = grid(t)
    y = x * 2
    y.unsqueeze_(0)
    y.transpose_(0, 1)
    y.squeeze_()
    y.t_()
    name = y.grad_fn
    (y**2).sum().backward()
    return y, name, x.grad, said(lambda: grid(t).t_(), "leaf"), said(lambda: t.ones(2, 3).t_().shape)


@story
def test_detach_in_place_of_a_base_with_views(t):
    x = leaf(t)
    b = x * 2
    v = b[:1]
    b.detach_()
    return b.requires_grad, v.requires_grad, v.grad_fn, said(lambda: v.sum().backward()), x.grad


@story
def test_random_changes_in_place(t):
    x = leaf(t)
    out = []
    for name in (
        "normal_",
        "uniform_",
        "zero_",
        "bernoulli_",
        "exponential_",
        "log_normal_",
        "geometric_",
        "random_",
        "cauchy_",
    ):
        b = x * 1
        args = (0.5,) if name == "geometric_" else ()
        getattr(b, name)(*args)
        out.append(
            (
                b.grad_fn,
                b.requires_grad,
                t.autograd.grad(b.sum(), x),
                said(lambda n=name, a=args: getattr(x, n)(*a), "leaf Variable"),
            )
        )
    return out


@story
def test_modules_in_place(t):
    F = t.nn.functional
    out = []
    for f in (
        lambda v: F.relu_(v),
        lambda v: F.relu(v, inplace=True),
        lambda v: F.leaky_relu_(v, 0.1),
        lambda v: F.elu_(v),
        lambda v: F.hardtanh_(v),
        lambda v: F.threshold_(v, 1.5, 0.0),
        lambda v: t.nn.ReLU(inplace=True)(v),
        lambda v: F.celu_(v),
        lambda v: F.selu_(v),
        lambda v: F.silu(v, inplace=True),
        lambda v: F.hardswish(v, inplace=True),
        lambda v: F.relu6(v, inplace=True),
        lambda v: F.mish(v, inplace=True),
        lambda v: F.dropout(v, 1.0, inplace=True),
    ):
        x = leaf(t, -1, 0.5, 2)
        b = x * 2
        got = f(b)
        b.sum().backward()
        out.append((b, got is b, x.grad, b.grad_fn))
    return out


@story
def test_in_place_activations_with_a_negative_slope(t):
    F = t.nn.functional
    x = leaf(t, -1, 0.5)
    match = "triggered with a negative slope which is not supported.*call out-of-place version instead"
    out = []
    for f in (F.leaky_relu_, F.elu_, F.celu_, t.celu_):
        y = f(x * 1, -2.0)
        out.append(
            (y, said(y.sum().backward, "backward calculation .* not supported"), bool(said(y.sum().backward, match)))
        )
    y = F.rrelu_(x * 1, -5.0, 1.0)
    with t.no_grad():
        F.leaky_relu_(x * 1, -2.0)
    F.leaky_relu(x * 1, -2.0).sum().backward()
    return out, said(y.sum().backward, "backward calculation .* not supported"), x.grad


@story
def test_leaf_views_of_parameters(t):
    p = t.nn.Parameter(t.arange(6.0).reshape(2, 3))
    v = p.view(3, 2)
    v.retain_grad()
    (v**2).sum().backward()
    with t.no_grad():
        p[0].fill_(9)
    return p.grad, v.grad, type(v).__name__, type(p.data).__name__, v


@story
def test_flattened_parameters_share_memory(t):
    flat = t.zeros(6)
    a, b = t.nn.Parameter(flat[:4].view(2, 2)), t.nn.Parameter(flat[4:])
    flat.fill_(3)
    ((a * 2).sum() + (b * 3).sum()).backward()
    with t.no_grad():
        b -= b.grad
    return flat, a, a.grad, b.grad, a.is_leaf, a._is_view()


@story
def test_set_and_swap_data(t):
    a, b = t.ones(2), t.zeros(3)
    v = a[:1]
    a.data = b
    a.add_(1)
    b.add_(1)
    return a, b, v, a.data_ptr() == b.data_ptr(), a._version, b._version


@story
def test_hooks_on_views_changed_in_place(t):
    x = leaf(t)
    b = x * 2
    v = b[:2]
    seen = []
    v.register_hook(lambda g: seen.append(("before", g.clone())))
    v.mul_(3)
    v.register_hook(lambda g: seen.append(("after", g.clone())))
    b.register_hook(lambda g: seen.append(("base", g.clone())))
    (b.sum() + v.sum()).backward()
    return seen, x.grad


@story
def test_a_function_with_a_view_and_a_change(t):
    def f(x):
        y = x.clone()
        y[0] += y[1] * 2
        y[1:] *= y[0].clone()
        y.view(-1)[2] = 0
        return y.sum() ** 2

    x = leaf(t)
    return t.autograd.functional.jacobian(f, x), t.autograd.functional.hessian(f, x)


@story
def test_second_order_through_changes_in_place(t):
    x = leaf(t)
    y = x**2
    y[1:].mul_(x[:2])
    y.sin_()
    (g,) = t.autograd.grad(y.sum(), x, create_graph=True)
    (h,) = t.autograd.grad((g**2).sum(), x, create_graph=True)
    return g, h, t.autograd.grad(h.sum(), x)
