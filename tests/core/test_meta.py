"""Tensors on meta: shapes, dtypes and graphs without numbers, and clear refusals where numbers are asked for."""

import pytest
from both import agree, agree_error, attempt

import torchlike


def facts(x):
    """What can be compared of a tensor without numbers."""
    if isinstance(x, tuple | list):
        return [facts(v) for v in x]
    if not hasattr(x, "is_meta"):
        return type(x).__name__ if isinstance(x, Exception) else x
    return list(x.shape), x.stride(), str(x.dtype), str(x.device), x.is_meta, x.requires_grad, x._is_view()


def meta(t, *shape, **options):
    return t.empty(*shape, device="meta", **options)


SHAPES = {
    "creation": lambda t: [f(2, 3, device="meta") for f in (t.empty, t.zeros, t.ones, t.rand, t.randn)],
    "creation of numbers": lambda t: [t.tensor([1, 2], device="meta"), t.full((2,), 3.5, device="meta")],
    "ranges": lambda t: [t.arange(3, device="meta"), t.linspace(0, 1, 5, device="meta"), t.eye(2, device="meta")],
    "like": lambda t: [t.zeros_like(meta(t, 2)), meta(t, 2).new_ones(3), t.ones_like(t.ones(2), device="meta")],
    "arithmetic": lambda t: (meta(t, 2, 3) + meta(t, 3)) * 2 - 1,
    "0-dim tensors with numbers": lambda t: [meta(t, 2) + t.tensor(1.5), t.tensor(2.0) * meta(t, 2)],
    "promotion": lambda t: [meta(t, 2, dtype=t.int32) + 1.5, meta(t, 2, dtype=t.int32) / 2, meta(t, 2) > 0],
    "reductions": lambda t: [meta(t, 2, 3).sum(0), meta(t, 2, 3).mean(), tuple(meta(t, 2, 3).max(1))],
    "products": lambda t: [meta(t, 2, 3) @ meta(t, 3, 4), meta(t, 5, 2, 3) @ meta(t, 3)],
    "joining": lambda t: [t.cat([meta(t, 2), meta(t, 3)]), t.stack([meta(t, 2)] * 3)],
    "views": lambda t: [meta(t, 2, 3).t()[1:], meta(t, 4).view(2, 2), meta(t, 2).expand(3, 2), meta(t, 4).unbind(0)[1]],
    "indexing": lambda t: [meta(t, 4, 3)[1], meta(t, 4, 3)[:, None, ::2], meta(t, 4)[t.tensor([1, 0])]],
    "casts": lambda t: [meta(t, 2).half(), meta(t, 2).to(t.int64), meta(t, 2, dtype=t.complex64).real],
    "copies": lambda t: [meta(t, 3, 2).t().clone(), meta(t, 3, 2).t().contiguous(), meta(t, 2).detach()],
    "moves": lambda t: [t.ones(2).to("meta"), t.ones(2, requires_grad=True).to("meta"), t.ones(2).to(meta(t, 1))],
    "onto the cpu": lambda t: [t.empty_like(meta(t, 2), device="cpu"), meta(t, 2).new_zeros(2, device="cpu")],
    "elementwise": lambda t: [f(meta(t, 2, 3)) for f in (t.exp, t.tanh, t.abs, t.sign, t.isnan)],
    "sorting": lambda t: [tuple(meta(t, 2, 3).sort(1)), tuple(meta(t, 5).topk(2)), meta(t, 4).cumsum(0)],
}


@pytest.mark.parametrize("name", SHAPES)
def test_shapes_are_inferred(name):
    agree(lambda t: facts(SHAPES[name](t)))


def test_in_place():
    def f(t):
        x = meta(t, 2, 3)
        view = x[0]
        x.add_(1).mul_(x.clone())
        view.zero_()
        x[1] = 2.0
        x.copy_(t.ones(3))
        return facts([x, view]), x._version, view._version, view._base is x

    agree(f)


def test_a_graph_without_numbers():
    def f(t):
        w, x = meta(t, 3, 2, requires_grad=True), meta(t, 4, 3)
        y = (x @ w) * 2
        y[0].mul_(2)
        loss = (y * y).sum()
        loss.backward()
        (g,) = t.autograd.grad((w**3).sum(), w, create_graph=True)
        return facts([y, loss, w.grad, g]), loss.grad_fn, y.grad_fn

    agree(f)


ERRORS = {
    "item": (lambda t: meta(t, 1).item(), "item.. cannot be called on meta tensors"),
    "float": (lambda t: float(meta(t, 1)), "cannot be called on meta tensors"),
    "truth": (lambda t: bool(meta(t, 1)), "cannot be called on meta tensors"),
    "if": (lambda t: 1 if meta(t, 2).sum() > 0 else 2, "cannot be called on meta tensors"),
    "tolist": (lambda t: meta(t, 2).tolist(), "Cannot copy out of meta tensor; no data!"),
    "numpy": (lambda t: meta(t, 2).numpy(), "can't convert meta device type tensor to numpy"),
    "cpu": (lambda t: meta(t, 2).cpu(), "Cannot copy out of meta tensor; no data!"),
    "to": (lambda t: meta(t, 2).to("cpu"), "Cannot copy out of meta tensor; no data!"),
    "copied from": (lambda t: t.ones(2).copy_(meta(t, 2)), "meta"),
    "with numbers": (lambda t: meta(t, 2) + t.ones(2), "Tensor on device .* is not on the expected device meta"),
    "several elements": (lambda t: meta(t, 2).item(), "Tensor with 2 elements cannot be converted to Scalar"),
    "shapes": (lambda t: meta(t, 2) + meta(t, 3), "must match|broadcast"),
    "view": (lambda t: meta(t, 2).view(3), "invalid for input of size 2"),
    "index": (lambda t: meta(t, 2)[5], "index 5 is out of bounds for dimension 0 with size 2"),
    "matrix product": (lambda t: meta(t, 2, 3) @ meta(t, 2, 3), ""),
}


@pytest.mark.parametrize("name", ERRORS)
def test_errors(name):
    script, match = ERRORS[name]
    agree_error(script, match)


@pytest.mark.parametrize("script", [
    lambda t: meta(t, 2).nonzero(), lambda t: meta(t, 2)[meta(t, 2) > 0], lambda t: meta(t, 2).unique(),
    lambda t: t.equal(meta(t, 2), meta(t, 2)),
])  # fmt: skip
def test_what_depends_on_values_is_refused(script):
    assert isinstance(attempt(lambda: script(torchlike)), RuntimeError)  # NotImplementedError is one


def test_numbers_never_become_meta():
    """A refused in-place operation leaves the tensor with its numbers."""
    x = torchlike.ones(2)
    assert isinstance(attempt(lambda: x.add_(meta(torchlike, 2))), RuntimeError)
    assert x.tolist() == [1.0, 1.0] and x._version == 0


def test_it_prints():
    agree(lambda t: repr(meta(t, 2, 3, dtype=t.float64, requires_grad=True)))


def test_no_memory_is_used():
    x = torchlike.empty(1 << 20, 1 << 20, device="meta")
    assert (x @ x.t()).shape == (1 << 20, 1 << 20) and x.nbytes == 1 << 42 and x.data_ptr() == 0
