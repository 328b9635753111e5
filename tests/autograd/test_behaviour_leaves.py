"""Behaviours of autograd, one small story each: leaves, and who requires grad."""

import warnings

from both import attempt
from story_kit import grid, leaf, said, story, warned


@story
def test_requires_grad_of_results(t):
    x, c = leaf(t), t.ones(3, dtype=t.float64)
    r = [x + c, c + c, x.detach() * 2, x > 0, x.argmax(), t.zeros_like(x), x.new_ones(3), x.round(), x.int(), x.sign()]
    r += [
        t.ones_like(x),
        x.data * 2,
        t.where(c > 0, x, c),
        t.where(x > 0, c, c),
        x.isnan(),
        x.long().double(),
        x.floor(),
    ]
    r += [t.empty_like(x).fill_(1), t.rand_like(x) * 0, x.bool(), t.eq(x, c), t.full_like(x, 3.0), x.nonzero(), x.any()]
    return [(v.requires_grad, v.is_leaf, v.grad_fn is None) for v in r]


@story
def test_requires_grad_of_parts_of_results(t):
    x = grid(t)
    values, indices = x.sort(dim=1)
    top = x.topk(2)
    mx = x.max(dim=0)
    med = x.median(dim=1)
    u, inverse = t.unique(x.detach(), return_inverse=True)
    return [v.requires_grad for v in (values, indices, *top, *mx, *med, u, inverse, x.cummax(0)[0], x.cummax(0)[1])]


@story
def test_switching_requires_grad(t):
    x = t.ones(2)
    r = [x.requires_grad, x.requires_grad_().requires_grad, x.requires_grad_(False).requires_grad]
    y = (x.requires_grad_() * 2).detach()
    r.append(y.requires_grad)
    r.append(said(lambda: (x * 2).requires_grad_(False), "you can only change requires_grad flags of leaf variables"))
    r.append((x * 2).requires_grad_().requires_grad)
    r.append(said(lambda: t.ones(2, dtype=t.int64).requires_grad_(), "only Tensors of floating point"))
    r.append(said(lambda: setattr(t.ones(2, dtype=t.bool), "requires_grad", True), "only Tensors of floating point"))
    r.append(said(lambda: setattr(x, "requires_grad", 1), "requires_grad must be a bool"))
    x.requires_grad = False
    return [*r, x.requires_grad]


@story
def test_constructors_that_require_grad(t):
    r = [t.zeros(2, requires_grad=True), t.tensor(1.0, requires_grad=True), t.randn(2, requires_grad=True) * 0]
    r += [
        t.zeros_like(r[0], requires_grad=True),
        t.ones(2).new_zeros(1, requires_grad=True),
        t.eye(2, requires_grad=True),
    ]
    r += [
        t.arange(3.0, requires_grad=True),
        t.linspace(0, 1, 3, requires_grad=True),
        t.full((2,), 1.0, requires_grad=True),
    ]
    r += [t.ones(2, dtype=t.complex64, requires_grad=True)]
    bad = [
        lambda: t.ones(2, dtype=t.int32, requires_grad=True),
        lambda: t.arange(3, requires_grad=True),
        lambda: t.tensor([1], requires_grad=True),
        lambda: t.zeros(2, dtype=t.bool, requires_grad=True),
        lambda: t.ones(2).new_zeros(1, dtype=t.int64, requires_grad=True),
        lambda: t.randint(3, (2,), requires_grad=True),
        lambda: t.full((1,), 3, requires_grad=True),
    ]
    return r, [said(f, "nly Tensors of floating point and complex dtype can require gradients") for f in bad]


@story
def test_every_dtype_and_requires_grad(t):
    out = []
    for name in (
        "float16",
        "bfloat16",
        "float32",
        "float64",
        "complex64",
        "complex128",
        "int8",
        "uint8",
        "int64",
        "bool",
    ):
        x = t.ones(2, dtype=getattr(t, name))
        out.append(type(attempt(lambda x=x: x.requires_grad_())).__name__)
        out.append(said(lambda n=name: t.ones(2, requires_grad=True).to(getattr(t, n)).requires_grad))
    return out


@story
def test_tensor_of_a_tensor(t):
    x = leaf(t)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        y = t.tensor(x)
    return y, y.is_leaf, len(caught), t.as_tensor(x) is x, t.as_tensor(x, dtype=t.float32).grad_fn


@story
def test_numbers_of_tensors_that_require_grad(t):
    x = leaf(t, 2)
    return [
        said(
            lambda: x.numpy(),
            "Can't call numpy\\(\\) on Tensor that requires grad. Use tensor.detach\\(\\).numpy\\(\\) instead.",
        ),
        x.detach().numpy().tolist(),
        x.numpy(force=True).tolist(),
        x.item(),
        x.tolist(),
        float(x.detach()),
        bool(x > 1),
        int(x.detach()),
        f"{x.item():.2f}",
        (x * 2).tolist(),
    ]


@story
def test_conversions_of_scalars_that_require_grad_warn(t):
    x = leaf(t, 2)
    t.set_warn_always(True)
    try:
        return [
            len(warned(lambda f=f: f(x))) for f in (float, int, complex, bool, t.Tensor.item)
        ], t.is_warn_always_enabled()
    finally:
        t.set_warn_always(False)


@story
def test_deletions_are_refused(t):
    x = leaf(t)
    out = []
    for name in ("requires_grad", "data", "_grad_fn", "_backward_hooks", "grad_fn", "is_leaf", "shape", "_version"):
        out.append(type(attempt(lambda n=name: delattr(x, n))).__name__)
    (x * 2).sum().backward()
    del x.grad
    return out, x.grad


@story
def test_attributes_that_cannot_be_set(t):
    x = leaf(t)
    names = (
        "is_leaf",
        "output_nr",
        "_version",
        "shape",
        "dtype",
        "device",
        "layout",
        "retains_grad",
        "ndim",
        "is_cuda",
    )
    return [type(attempt(lambda n=n: setattr(x, n, 1))).__name__ for n in names]


@story
def test_detach(t):
    x = leaf(t)
    y = x + 2
    z = y.detach()
    before = z.requires_grad, z.is_leaf, z.grad_fn is None
    z.fill_(7)
    w = x * 3
    w.detach_()
    v = x * 4
    kept = v.grad_fn is not None
    v.detach_().add_(1)
    return before, y, w, w.is_leaf, w.requires_grad, kept, v, said(lambda: (x * 2)[0].detach_(), "Can't detach views")


@story
def test_a_detached_middle(t):
    x = leaf(t)
    y = x * 2
    z = y.detach() * y
    z.sum().backward()
    z2 = y.detach().requires_grad_()
    (z2**2).sum().backward()
    return x.grad, z2.grad


@story
def test_leaf_assignment(t):
    x = t.zeros(4, dtype=t.float64)
    y, z = leaf(t, 1, 2), leaf(t, 5, 6)
    x[0], x[1] = y[0] * 2, z[1]
    x[2:] = y * z
    seen = x.requires_grad, x.is_leaf, x.grad_fn
    x.sum().backward()
    return seen, y.grad, z.grad, x


@story
def test_assignment_without_recording(t):
    x, y = leaf(t, 1, 2, 3), leaf(t, 5)
    with t.no_grad():
        x[0] = y[0]
    return x, x.grad_fn is None, x.is_leaf, x._version


@story
def test_a_leaf_changed_in_place(t):
    x = leaf(t)
    match = "a leaf Variable that requires grad is being used in an in-place operation"
    fs = [
        x.add_,
        x.mul_,
        x.copy_,
        x.fill_,
        x.sub_,
        lambda _: x.zero_(),
        lambda v: x.__setitem__(0, v),
        lambda _: x.exp_(),
    ]
    view = "a view of a leaf Variable that requires grad is being used in an in-place operation"
    vs = [lambda: x[0].add_(1), lambda: x.view(3, 1).zero_(), lambda: x.expand(2, 3).mul_(2), lambda: x.t().add_(1)]
    return (
        [said(lambda f=f: f(2.0) if f != x.copy_ else f(t.ones(3)), match) for f in fs],
        [said(v, view) for v in vs],
        x,
    )


@story
def test_in_place_with_a_requiring_argument(t):
    c, x = t.ones(3, dtype=t.float64), leaf(t)
    seen = [c.requires_grad]
    c.mul_(x)
    seen += [c.requires_grad, c.is_leaf, c.grad_fn]
    c.sum().backward()
    i = t.ones(3, dtype=t.int64)
    return seen, x.grad, said(lambda: i.mul_(x), "can't be cast"), i.requires_grad


@story
def test_no_gradient_through_in_place_without_one(t):
    x = leaf(t)
    a = t.ones(3, dtype=t.float64)
    a += 1
    a.exp_()
    (x * a).sum().backward()
    a.zero_()
    return x.grad, a.requires_grad


@story
def test_switching_requires_grad_of_results(t):
    x = t.ones(2, requires_grad=True)
    out = []
    for v in (x * 2, x.view(2), x[:1], (x * 2).detach()):
        out.append(
            said(lambda v=v: setattr(v, "requires_grad", True), "only change requires_grad flags of leaf variables")
        )
        out.append(said(lambda v=v: setattr(v, "requires_grad", False), "only change .* use var_no_grad = var.detach"))
        out += [said(lambda v=v: v.requires_grad_().requires_grad), v.requires_grad]
    return out
