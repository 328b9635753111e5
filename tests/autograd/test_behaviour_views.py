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


FEW_VIEWS, FEW_CHANGES = ("slice", "t", "as_strided", "view of a view", "detached"), ("mul_", "setitem")
EACH = [(v, c) for v in VIEWS for c in CHANGES if v in FEW_VIEWS or c in FEW_CHANGES]


@pytest.mark.parametrize(("view", "change"), EACH)
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
