"""Behaviours of autograd around views and changes in place, one small story each."""

import pytest
from both import agree, attempt
from story_kit import grid, leaf, said, story

VIEWS = {
    "select": lambda t, b: b[1],
    "slice": lambda t, b: b[:, 1:],
    "step": lambda t, b: b[:, ::2],
    "t": lambda t, b: b.t(),
    "transpose": lambda t, b: b.transpose(0, 1),
    "permute": lambda t, b: b.permute(1, 0),
    "view": lambda t, b: b.view(3, 2),
    "reshape": lambda t, b: b.reshape(6),
    "flatten": lambda t, b: b.flatten(),
    "unsqueeze": lambda t, b: b.unsqueeze(1),
    "squeeze": lambda t, b: b.unsqueeze(0).squeeze(0),
    "narrow": lambda t, b: b.narrow(1, 0, 2),
    "diagonal": lambda t, b: b.diagonal(),
    "unfold": lambda t, b: b.unfold(1, 1, 2),
    "as_strided": lambda t, b: b.as_strided((2, 2), (3, 1), 1),
    "view_as": lambda t, b: b.view_as(t.zeros(6, 1)),
    "movedim": lambda t, b: b.movedim(0, 1),
    "swapaxes": lambda t, b: b.swapaxes(0, 1),
    "mT": lambda t, b: b.mT,
    "ellipsis": lambda t, b: b[..., 0],
    "newaxis": lambda t, b: b[None, :, 1],
    "unflatten": lambda t, b: b.unflatten(1, (3, 1)),
    "ravel": lambda t, b: b.ravel(),
    "view of a view": lambda t, b: b.view(3, 2)[1:].t()[0],
    "detached": lambda t, b: b.detach(),
    "data": lambda t, b: b.data,
    "alias": lambda t, b: b.view_as(b),
    "hsplit": lambda t, b: t.hsplit(b, 3)[1],
    "expand_as": lambda t, b: b.expand_as(b),
    "real": lambda t, b: b.real,
    "swapdims": lambda t, b: t.swapdims(b, 0, 1),
    "adjoint": lambda t, b: b.adjoint(),
}
CHANGES = {
    "mul_": lambda t, v, x: v.mul_(3),
    "add_ a requiring one": lambda t, v, x: v.add_(x.sum()),
    "zero_": lambda t, v, x: v.zero_(),
    "exp_": lambda t, v, x: v.exp_(),
    "copy_": lambda t, v, x: v.copy_(x.sum().expand_as(v)),
    "fill_": lambda t, v, x: v.fill_(x.sum()),
    "setitem": lambda t, v, x: v.__setitem__(0, x.sum()),
    "mul_ by itself": lambda t, v, x: v.mul_(v),
    "sigmoid_ twice": lambda t, v, x: v.sigmoid_().sigmoid_(),
    "pow_": lambda t, v, x: v.pow_(2),
}


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("view", VIEWS)
def test_a_view_changed_in_place(view, change):
    def f(t):
        x = grid(t) / 4
        x = x.detach().requires_grad_()
        base = x * 2
        v = VIEWS[view](t, base)
        got = attempt(lambda: CHANGES[change](t, v, x))
        if isinstance(got, Exception):
            return got, base
        out = base.sum() + (v**2).sum()
        outcome = attempt(lambda: out.backward())
        return outcome, base, v, x.grad, base.grad_fn, v.grad_fn, v._version, base._version, v._base is base, v.is_leaf

    agree(f)


@pytest.mark.parametrize("change", ["mul_", "add_ a requiring one", "zero_", "fill_"])
@pytest.mark.parametrize(
    "view", ["select", "t", "view", "diagonal", "as_strided", "view of a view", "detached", "expand_as"]
)
def test_a_base_changed_under_its_view(view, change):
    def f(t):
        x = grid(t)
        base = x * 2
        v = VIEWS[view](t, base)
        CHANGES[change](t, base, x)
        outcome = attempt(lambda: (v**2).sum().backward())
        return outcome, v, x.grad, v.grad_fn

    agree(f)


@pytest.mark.parametrize("change", ["add_ a requiring one", "copy_", "fill_", "setitem"])
@pytest.mark.parametrize("view", ["select", "slice", "t", "view", "diagonal", "unfold", "view of a view"])
def test_a_view_of_a_constant_begins_to_require_grad(view, change):
    def f(t):
        x = grid(t)
        base = t.ones(2, 3, dtype=t.float64)
        v = VIEWS[view](t, base)
        before = base.requires_grad, v.requires_grad
        CHANGES[change](t, v, x)
        seen = base.requires_grad, base.grad_fn, v.grad_fn, base.is_leaf
        (base * 2).sum().backward()
        return before, seen, x.grad, base

    agree(f)


@pytest.mark.parametrize("mode", ["no_grad", "inference_mode", "enable_grad"])
@pytest.mark.parametrize("where", ["leaf", "result", "constant"])
def test_views_made_in_another_mode(mode, where):
    def f(t):
        x = {"leaf": lambda: grid(t), "result": lambda: grid(t) * 2, "constant": lambda: t.ones(2, 3)}[where]()
        with getattr(t, mode)():
            v = x[0]
            seen = v.requires_grad, v.is_leaf, v._is_view(), v.is_inference()
        first = said(lambda: v.mul_(2), "(A view was created in \\w+|a view of a leaf|Inplace update to inference)")
        if isinstance(first, str):
            return seen, first
        return seen, v, x, x.grad_fn

    agree(f)


UNSAFE = {
    "unbind": lambda t, b: b.unbind(0),
    "split": lambda t, b: b.split(1, 1),
    "chunk": lambda t, b: b.chunk(2),
    "split_with_sizes": lambda t, b: b.split([1, 2], 1),
    "tensor_split": lambda t, b: b.tensor_split(2, 1),
    "iteration": lambda t, b: tuple(b),
    "vsplit": lambda t, b: t.vsplit(b, 2),
    "unsafe_chunk": lambda t, b: t.unsafe_chunk(b, 2),
    "unsafe_split": lambda t, b: t.unsafe_split(b, 1),
}


@pytest.mark.parametrize("name", UNSAFE)
def test_in_place_on_one_of_several_views(name):
    def f(t):
        x = grid(t)
        parts = UNSAFE[name](t, x * 2)
        refused = said(lambda: parts[0].mul_(2), "Output 0 of \\w+ is a view and is being modified inplace")
        (parts[-1] ** 2).sum().backward()
        return refused if isinstance(refused, str) else "fine", [p._is_view() for p in parts], x.grad

    agree(f)


@pytest.mark.parametrize("name", ["unbind", "split", "chunk"])
def test_in_place_on_several_views_without_recording(name):
    def f(t):
        x = t.arange(6.0).reshape(2, 3)
        with t.no_grad():
            for p in UNSAFE[name](t, x):
                p.add_(1)
        parts = UNSAFE[name](t, x)
        parts[0].mul_(10)
        y = grid(t) * 1
        with t.no_grad():
            UNSAFE[name](t, y)[0].zero_()
        return x, y, y._version, y.requires_grad

    agree(f)


@story
def test_changes_of_base_and_view_in_turn(t):
    x = leaf(t)
    base = x.clone()
    v = base[:2]
    v.mul_(2)
    base.add_(1)
    v.exp_()
    base[2] = v[0]
    base.mul_(base.detach())
    refused = said(base.sum().backward, "modified by an inplace operation")
    c = x.clone()
    w = c[:2]
    w.mul_(2)
    c.add_(1)
    w.neg_()
    c[2] = w[0]
    c.sum().backward()
    return refused, base, v, c, w, x.grad


@story
def test_a_view_keeps_its_new_history(t):
    x = leaf(t)
    base = x * 2
    v = base[1:]
    names = [v.grad_fn]
    base.mul_(2)
    names.append(v.grad_fn)
    v.mul_(2)
    names += [v.grad_fn, base.grad_fn]
    w = v[0]
    w.add_(1)
    names += [w.grad_fn, v.grad_fn, base.grad_fn]
    return names, base, t.autograd.grad(base.sum(), x)


@story
def test_in_place_on_a_view_of_a_leaf(t):
    x = leaf(t)
    refused = [
        said(lambda: x[0].mul_(2), "a view of a leaf Variable that requires grad"),
        said(lambda: x.view(3, 1)[1].add_(2), "a view of a leaf Variable"),
        said(lambda: x.__setitem__(0, 1.0), "a leaf Variable that requires grad"),
        said(lambda: x.__iadd__(1), "a leaf Variable that requires grad"),
        said(lambda: x.detach().mul_(2).requires_grad),
        said(lambda: x.data[0].mul_(2).item()),
    ]
    with t.no_grad():
        x[0].mul_(3)
        x += 1
    return refused, x, x._version, x.is_leaf


@story
def test_a_view_made_without_grad_of_a_leaf(t):
    x = leaf(t)
    with t.no_grad():
        v = x[:2]
        v.zero_()
    return v.requires_grad, x, x._version, said(lambda: v.add_(1), "A view was created in no_grad mode")


@story
def test_a_leaf_view(t):
    base = t.zeros(4)
    v = base[:2].requires_grad_()
    seen = v.is_leaf, v.requires_grad, v._is_view(), base.requires_grad
    (v * 3).sum().backward()
    return seen, v.grad, base.grad, said(lambda: v.mul_(2), "leaf"), said(lambda: base.mul_(2).requires_grad)


@story
def test_a_view_of_a_detached_tensor_is_not_a_view_of_the_tensor(t):
    x = leaf(t)
    y = x * 2
    d = y.detach()
    v = d[:1]
    v.fill_(100)
    return y, y._version, d._is_view(), v._base is d, said((y * y.exp()).sum().backward)


@story
def test_is_view_and_base(t):
    x = t.zeros(2, 3)
    y = leaf(t)
    vs = [
        x,
        x[0],
        x.clone(),
        x.t(),
        x.contiguous(),
        x.t().contiguous(),
        x.detach(),
        x.expand(2, 2, 3),
        x + 0,
        x.data,
        y[0],
        y * 1,
    ]
    vs += [
        x[[0, 1]],
        x[x > 5],
        x.reshape(-1),
        x.t().reshape(-1),
        x.view(-1).view(2, 3),
        x.narrow(0, 0, 1),
        x.flatten(),
        x.real,
    ]
    return [(v._is_view(), v._base is x, v._base is None) for v in vs]


@story
def test_reshapes_that_copy_and_that_do_not(t):
    x = grid(t)
    y = x * 1
    a, b = y.reshape(3, 2), y.t().reshape(6)
    return a._is_view(), b._is_view(), a.grad_fn, b.grad_fn, b.grad_fn.next_functions[0][0], y.t().contiguous().grad_fn


@story
def test_the_versions(t):
    x = t.zeros(3)
    seen = [x._version]
    for change in (
        lambda: x.add_(1),
        lambda: x[0].mul_(2),
        lambda: x.__setitem__(0, 1),
        lambda: x.view(3, 1).zero_(),
        lambda: x.detach().add_(1),
        lambda: x.data.add_(1),
        lambda: x.copy_(t.ones(3)),
        lambda: x.requires_grad_(),
        lambda: x.requires_grad_(False),
        lambda: x.numpy(),
        lambda: t.add(x, 1, out=x),
        lambda: x.clone().add_(1),
        lambda: x.resize_(3),
        lambda: x.t_(),
        lambda: x.unsqueeze_(0),
        lambda: x.squeeze_(),
        lambda: x.uniform_(),
        lambda: x.set_(t.ones(3)),
        lambda: x.masked_fill_(x > 0, 1),
        lambda: x.index_fill_(0, t.tensor([0]), 1),
        lambda: t.nn.init.zeros_(x),
        lambda: x.detach_(),
        lambda: x.clamp_(0, 1),
        lambda: x.__iadd__(1),
        lambda: t.relu_(x),
        lambda: x.sort()[0].add_(1),
        lambda: t.nn.functional.relu(x, inplace=True),
        lambda: t.nn.functional.dropout(x, 0.5, False, True),
        lambda: x.to(t.float32).add_(1),
    ):
        change()
        seen.append(x._version)
    return seen


@story
def test_versions_of_views(t):
    x = t.zeros(4)
    a, b, d, e = x[:2], x[2:], x.detach(), x.data
    a.add_(1)
    seen = [v._version for v in (x, a, b, d, e)]
    e.add_(1)
    b.add_(1)
    return seen, [v._version for v in (x, a, b, d, e)]


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
    match = "one of the variables needed .* inplace operation: \\[torch.DoubleTensor \\[[\\d, ]+\\]\\], .*is at version \\d; expected version \\d"
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
    match = "backward calculation is triggered with a negative slope which is not supported.*call out-of-place version instead"
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
