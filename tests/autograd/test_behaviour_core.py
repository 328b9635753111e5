"""Behaviours of autograd, one small story each: accumulation, roots and inputs, nodes, modes, conversions."""

import asyncio
import contextlib
import copy
import io
import pickle
import warnings

import numpy as np
import pytest
from both import agree, agree_error, attempt
from oracle import check
from story_kit import grid, leaf, said, story, warned

# -- backward and grad -------------------------------------------------------------------------------


@story
def test_a_polynomial_of_three_leaves(t):
    x, y, z = leaf(t, 1, 2), leaf(t, 3, -4), leaf(t, 5, 0.5)
    (x * 3 + x * 2 * y**2 + x * 4 * z**3).backward(t.ones(2, dtype=t.float64))
    return x.grad, y.grad, z.grad


@story
def test_two_roots_with_seeds_and_without(t):
    x, y = leaf(t, 2), leaf(t, 3)
    t.autograd.backward([x[0] ** 2 * y[0], x * y], [None, t.tensor([3.0], dtype=t.float64)])
    return x.grad, y.grad


@story
def test_a_root_given_twice(t):
    x = leaf(t)
    y = x**2
    t.autograd.backward([y, y], [t.ones(3, dtype=t.float64)] * 2)
    return x.grad


@story
def test_a_root_that_depends_on_another(t):
    x, y = leaf(t), leaf(t, 4, 5, 6)
    z = x**2
    r = y * z
    t.autograd.backward([z, r], [t.ones(3, dtype=t.float64), t.ones(3, dtype=t.float64) * 2])
    return x.grad, y.grad


@story
def test_one_root_without_history_among_others(t):
    x = leaf(t)
    return said(lambda: t.autograd.backward([t.ones(3), x * 2], [t.ones(3), t.ones(3)]), "element 0 of tensors does not")


@story
def test_a_leaf_as_its_own_root(t):
    x = leaf(t, 2)
    x.backward()
    x.backward(t.tensor([5.0], dtype=t.float64))
    return x.grad, t.autograd.grad(x, x), t.autograd.grad(x.sum(), x)


@story
def test_seeds(t):
    x = leaf(t)
    y = x * 2
    return [
        said(y.backward, "grad can be implicitly created only for scalar outputs"),
        said(lambda: y.backward(t.ones(2)), "Mismatch in shape: grad_output\\[0\\] has a shape of .* and output\\[0\\]"),
        said(lambda: y.backward(t.ones(3, dtype=t.complex128)), "For complex Tensors, both grad_output and output"),
        said(lambda: y.backward(2.0), "gradients can be either Tensors or None"),
        said(lambda: t.autograd.backward([y, y], [t.ones(3)]), "got 2 tensors and 1 gradients"),
        said(lambda: t.autograd.grad(y, [], t.ones(3)), "grad requires non-empty inputs."),
        said(lambda: t.autograd.grad([], x), ".*"),
        said(lambda: t.autograd.backward(y, t.ones(3), grad_variables=t.ones(3)), "grad_variables"),
    ]


@story
def test_a_seed_of_one_element(t):
    x = leaf(t, 3)
    (x * x).backward()
    (x * x).sum().backward(t.tensor(2.0, dtype=t.float64))
    return x.grad, said(lambda: (x * x).backward(t.tensor(2.0, dtype=t.float64)), "Mismatch in shape")


@story
def test_a_seed_of_another_dtype(t):
    x = leaf(t)
    (x * 2).backward(t.ones(3, dtype=t.float32))
    return x.grad, attempt(lambda: (x * 2).backward(t.ones(3, dtype=t.int64))), x.grad


@story
def test_a_complex_root(t):
    z = t.tensor([1 + 2j], dtype=t.complex128, requires_grad=True)
    return said((z * z).sum().backward, "grad can be implicitly created only for real scalar outputs but got .*omplex")


@story
def test_backward_into_inputs(t):
    x, y = leaf(t, 2), leaf(t, 3)
    z = x * y + y
    z.backward(inputs=[x], retain_graph=True)
    first = x.grad.clone(), y.grad
    z.backward(inputs=y, retain_graph=True)
    z.backward(inputs=(x, y))
    return first, x.grad, y.grad, said(lambda: (x * 2).backward(inputs=[]), "cannot be empty")


@story
def test_backward_into_what_is_no_leaf(t):
    x, y = leaf(t, 1), leaf(t, 2)
    x_inner, y_inner = x * 2, y * 3
    x_inner.retain_grad()
    z = x_inner**2 + y * 2 + x * y + y**2
    z.backward(inputs=[x, x_inner], retain_graph=True)
    kept = x.grad, x_inner.grad, y.grad
    other = attempt(lambda: z.backward(inputs=[y_inner], retain_graph=True))
    z.backward(inputs=[x_inner, y])
    return kept, other, y_inner.grad, x_inner.grad, y.grad


@story
def test_grad_of_inner_tensors(t):
    x = grid(t)
    y = t.full((2, 3), 2.0, dtype=t.float64)
    kept = []
    for _ in range(3):
        y = y + x * y
        (g,) = t.autograd.grad(y.sum(), y, retain_graph=True)
        kept.append(g)
    return kept, t.autograd.grad(y.sum(), [x]), x.grad


@story
def test_grad_with_a_hook_on_the_input(t):
    x = leaf(t)
    y = x * 2
    seen = []
    y.register_hook(seen.append)
    (g,) = t.autograd.grad((y**2).sum(), y, retain_graph=True)
    t.autograd.grad((y**2).sum(), x)
    return g, seen


@story
def test_unreachable_inputs(t):
    x, y = leaf(t, 1), leaf(t, 1)
    z = x * 2
    w = y * 2
    return [
        t.autograd.grad(z, [x, y], allow_unused=True),
        t.autograd.grad(x * 2, [x, w], allow_unused=True),
        said(lambda: t.autograd.grad(x * 2, [x, y]), "One of the differentiated Tensors appears to not have been used"),
        said(lambda: t.autograd.grad(x * 2, [x, y], allow_unused=False, materialize_grads=True), "Expected allow_unused"),
        t.autograd.grad(x * 2, [x, y, w], allow_unused=True, materialize_grads=True),
        t.autograd.grad(x * 2, [x, w], materialize_grads=True, create_graph=True),
    ]


@story
def test_an_unreachable_branch_is_not_run(t):
    ran = []

    class Loud(t.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x.clone()

        @staticmethod
        def backward(ctx, g):
            ran.append(1)
            raise RuntimeError("should not be run")

    x, y = leaf(t, 1), leaf(t, 2)
    out = x * 2 + Loud.apply(y)
    return t.autograd.grad(out, x, retain_graph=True), ran, said(lambda: t.autograd.grad(out, y), "should not be run")


@story
def test_inputs_that_do_not_require_grad(t):
    x, y = leaf(t, 1), t.ones(1)
    return [
        said(lambda: t.autograd.grad(x * y, y), "One of the differentiated Tensors does not require grad"),
        said(lambda: t.autograd.grad(x * y, [x, y], allow_unused=True), "does not require grad"),
        said(lambda: (x * y).backward(inputs=[y]), "(does not require|requires_grad=False|without)"),
        said(lambda: t.autograd.grad(x.detach() * 2, x), "does not require grad and does not have a grad_fn"),
    ]


@story
def test_double_backward_accumulates(t):
    x, y = leaf(t, 1, 2), leaf(t, 3, 4)
    z = x**2 + y * x + y**2
    z.backward(t.ones(2, dtype=t.float64), create_graph=True)
    first = x.grad, y.grad
    (x.grad + 2 * y.grad).backward(t.ones(2, dtype=t.float64))
    return first, x.grad, y.grad


@story
def test_a_triple_backward(t):
    x = leaf(t, 0.5, -1.5)
    (g,) = t.autograd.grad(t.sin(x).sum() ** 3, x, create_graph=True)
    (h,) = t.autograd.grad(g.prod(), x, create_graph=True)
    (i,) = t.autograd.grad((h * x).sum(), x, create_graph=True)
    return g, h, i, t.autograd.grad(i.sum(), x)


@story
def test_a_graph_used_again(t):
    x = leaf(t)
    y, z = x * 3 + 1, x.exp()
    y.sum().backward()
    z.sum().backward()
    return [
        attempt(lambda: y.sum().backward()),
        x.grad,
        said(lambda: z.sum().backward(), "Trying to backward through the graph a second time"),
        said(lambda: t.autograd.grad(z.sum(), x), "retain_graph=True"),
    ]


@story
def test_a_retained_graph_runs_three_times(t):
    x = leaf(t)
    z = (x.exp() * x).sum()
    z.backward(retain_graph=True)
    z.backward(retain_graph=True)
    z.backward()
    return x.grad, said(z.backward, "second time")


@story
def test_a_part_of_the_graph_freed(t):
    x = leaf(t)
    shared = x.exp()
    a, b = (shared * 2).sum(), (shared + 1).sum()
    a.backward()
    return said(b.backward, "second time"), x.grad


@story
def test_create_graph_retains(t):
    x = leaf(t, 2)
    y = x**3
    t.autograd.grad(y, x, create_graph=True)
    t.autograd.grad(y, x, create_graph=True, retain_graph=False)
    return said(lambda: t.autograd.grad(y, x), "second time")


@story
def test_grad_and_the_numbers_of_outputs(t):
    x = leaf(t)
    return [
        t.autograd.grad([x.sum(), (x**2).sum()], x),
        t.autograd.grad((x.sum(), x * 2), (x,), (None, t.ones(3, dtype=t.float64))),
        type(t.autograd.grad(x.sum(), x)).__name__,
        t.autograd.grad(x.sum(), [x, x]),
    ]


@story
def test_batched_gradients(t):
    x = leaf(t)
    y = x**2
    eye = t.eye(3, dtype=t.float64)
    (j,) = t.autograd.grad(y, x, eye, is_grads_batched=True, retain_graph=True)
    return j, said(lambda: t.autograd.grad(y, x, t.ones(3, dtype=t.float64), is_grads_batched=True), ".{0,20}")


# -- accumulation ------------------------------------------------------------------------------------


@story
def test_a_gradient_is_added_to_in_place(t):
    x = leaf(t, 2)
    (x * 2).backward()
    kept = x.grad
    (x * 3).backward()
    return kept is x.grad, kept, x.grad._version


@story
def test_with_create_graph_a_new_gradient(t):
    x = leaf(t, 2)
    (x**2).backward(create_graph=True)
    kept = x.grad
    (x**2).backward(create_graph=True)
    return kept is x.grad, kept, x.grad, x.grad.requires_grad


@story
def test_the_seed_is_not_stolen(t):
    x = leaf(t)
    seed = t.ones(3, dtype=t.float64)
    x.backward(seed)
    x.grad.add_(1)
    (x + 0).backward(seed)
    return seed, x.grad, x.grad.data_ptr() == seed.data_ptr()


@story
def test_two_leaves_do_not_share_a_gradient(t):
    x, y = leaf(t), leaf(t)
    (x + y).sum().backward()
    x.grad.mul_(7)
    return x.grad, y.grad


@story
def test_an_expanded_gradient_is_made_whole(t):
    x = grid(t)
    x.sum().backward()
    stride = x.grad.stride()
    x.grad.zero_()
    return stride, x.grad


@story
def test_gradients_follow_the_layout_of_the_leaf(t):
    out = []
    for make in (
        lambda: t.arange(6.0).reshape(2, 3).t().requires_grad_(),
        lambda: t.arange(24.0).reshape(1, 2, 3, 4).contiguous(memory_format=t.channels_last).requires_grad_(),
        lambda: t.arange(8.0)[::2].requires_grad_(),
        lambda: t.ones(1).expand(4).detach().requires_grad_(),
        lambda: t.empty(0, 3).requires_grad_(),
        lambda: t.arange(6.0).reshape(3, 2).t().unsqueeze(0).requires_grad_(),
    ):
        x = make()
        (x * 2).sum().backward()
        out.append((x.grad.stride(), x.grad))
        y = make()
        y.backward(t.ones_like(y, memory_format=t.contiguous_format))
        out.append((y.grad.stride(), y.grad))
    return out


@story
def test_gradients_of_empty_leaves(t):
    x = t.zeros(0, 3, requires_grad=True)
    (x * 2).sum().backward()
    return x.grad, x.sum().grad_fn, t.autograd.grad(x.exp().mean(), x)


@story
def test_an_assigned_gradient(t):
    x = leaf(t)
    g = t.ones(3, dtype=t.float64)
    x.grad = g
    (x * 2).sum().backward()
    x.grad = None
    (x * 2).sum().backward()
    return g, x.grad, said(lambda: setattr(x, "grad", t.ones(2, dtype=t.float64)), "size"), x.grad


@story
def test_a_gradient_deleted(t):
    x = leaf(t)
    (x * 2).sum().backward()
    del x.grad
    return x.grad


@story
def test_a_gradient_that_requires_grad_in_the_field(t):
    x = leaf(t)
    x.grad = leaf(t, 1, 1, 1) * 2
    (x * 2).sum().backward()
    return x.grad, x.grad.requires_grad, x.grad.grad_fn is None


@story
def test_a_leaf_used_a_thousand_times(t):
    x = leaf(t, 1)
    total = x * 0
    for i in range(1000):
        total = total + x * i
    total.backward()
    return x.grad


@story
def test_hooks_and_retained_gradients_of_a_sum_of_many(t):
    x = leaf(t)
    y = x * 2
    y.retain_grad()
    seen = []
    y.register_hook(lambda g: seen.append(g.clone()))
    (y + y * y + y.sin()).sum().backward()
    return y.grad, seen, x.grad


# -- requires_grad, leaves ---------------------------------------------------------------------------


@story
def test_requires_grad_of_results(t):
    x, c = leaf(t), t.ones(3, dtype=t.float64)
    r = [x + c, c + c, x.detach() * 2, x > 0, x.argmax(), t.zeros_like(x), x.new_ones(3), x.round(), x.int(), x.sign()]
    r += [t.ones_like(x), x.data * 2, t.where(c > 0, x, c), t.where(x > 0, c, c), x.isnan(), x.long().double(), x.floor()]
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
    r += [t.zeros_like(r[0], requires_grad=True), t.ones(2).new_zeros(1, requires_grad=True), t.eye(2, requires_grad=True)]
    r += [t.arange(3.0, requires_grad=True), t.linspace(0, 1, 3, requires_grad=True), t.full((2,), 1.0, requires_grad=True)]
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
    for name in ("float16", "bfloat16", "float32", "float64", "complex64", "complex128", "int8", "uint8", "int64", "bool"):
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
        said(lambda: x.numpy(), "Can't call numpy\\(\\) on Tensor that requires grad. Use tensor.detach\\(\\).numpy\\(\\) instead."),
        x.detach().numpy().tolist(), x.numpy(force=True).tolist(), x.item(), x.tolist(), float(x.detach()), bool(x > 1),
        int(x.detach()), f"{x.item():.2f}", (x * 2).tolist(),
    ]  # fmt: skip


@story
def test_conversions_of_scalars_that_require_grad_warn(t):
    x = leaf(t, 2)
    t.set_warn_always(True)
    try:
        return [len(warned(lambda f=f: f(x))) for f in (float, int, complex, bool, t.Tensor.item)], t.is_warn_always_enabled()
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
    names = ("is_leaf", "output_nr", "_version", "shape", "dtype", "device", "layout", "retains_grad", "ndim", "is_cuda")
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
    fs = [x.add_, x.mul_, x.copy_, x.fill_, x.sub_, lambda _: x.zero_(), lambda v: x.__setitem__(0, v), lambda _: x.exp_()]
    view = "a view of a leaf Variable that requires grad is being used in an in-place operation"
    vs = [lambda: x[0].add_(1), lambda: x.view(3, 1).zero_(), lambda: x.expand(2, 3).mul_(2), lambda: x.t().add_(1)]
    return [said(lambda f=f: f(2.0) if f != x.copy_ else f(t.ones(3)), match) for f in fs], [said(v, view) for v in vs], x


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


# -- nodes -------------------------------------------------------------------------------------------


@story
def test_next_functions(t):
    x, y = leaf(t), leaf(t)
    a = x + y
    b = a + 5
    n = a.grad_fn.next_functions
    m = b.grad_fn.next_functions
    return [
        a.grad_fn.name(), len(n), [type(f).__name__ for f, _ in n], [i for _, i in n], n[0][0].variable is x,
        len(m), m[0][0] is a.grad_fn, m[1][0] is None if len(m) > 1 else None, type(n).__name__,
    ]  # fmt: skip


@story
def test_the_graph_of_a_small_network(t):
    w, b, x = grid(t, 2, 3), leaf(t, 0, 1), t.ones(4, 3, dtype=t.float64)
    loss = t.nn.functional.mse_loss(t.nn.functional.relu(t.nn.functional.linear(x, w, b)), t.zeros(4, 2, dtype=t.float64))
    names, todo = [], [loss.grad_fn]
    while todo:
        node = todo.pop()
        names.append(type(node).__name__)
        todo += [f for f, _ in node.next_functions if f is not None]
    return names


@story
def test_numbers_of_outputs(t):
    x = grid(t)
    parts = x.unbind(0)
    chunks = x.split(1, dim=1)
    q = x.max(dim=1)
    return [p.output_nr for p in (*parts, *chunks, q[0], x * 2, x)], parts[1].grad_fn.name(), chunks[0].grad_fn is chunks[1].grad_fn


@story
def test_the_node_of_a_leaf(t):
    x = leaf(t)
    node = x.expand_as(x).grad_fn.next_functions[0][0]
    again = (x * 2).grad_fn.next_functions[0][0]
    return node is again, node.variable is x, node.name(), node.next_functions, type(node).__name__, x.grad_fn is None


@story
def test_metadata_of_a_node(t):
    node = (leaf(t) * 2).grad_fn
    node.metadata["a"] = 1
    return node.metadata, attempt(lambda: setattr(node, "metadata", {})), node._sequence_nr() >= 0, hash(node) == hash(node)


@story
def test_a_node_is_one_object(t):
    y = leaf(t) * 2
    z = y + 1
    node = y.grad_fn
    return node is y.grad_fn, z.grad_fn.next_functions[0][0] is node, isinstance(node, t.autograd.graph.Node)


@story
def test_sequence_numbers_rise(t):
    x = leaf(t)
    a = x * 2
    b = a + 1
    c = x.exp()
    return a.grad_fn._sequence_nr() < b.grad_fn._sequence_nr() < c.grad_fn._sequence_nr()


@story
def test_saved_tensors_by_name(t):
    x, y = leaf(t), leaf(t, 4, 5, 6)
    m = x * y
    e = x.exp()
    p = x**3
    return [
        m.grad_fn._saved_self is x, m.grad_fn._saved_other is y, e.grad_fn._saved_result, p.grad_fn._saved_exponent,
        e.grad_fn._saved_result is e, x.sum(0, keepdim=True).grad_fn._saved_dim, x.clamp(0, 2).grad_fn._saved_max,
        x.view(3, 1).grad_fn._saved_self_sym_sizes, attempt(lambda: m.grad_fn._saved_nothing),
        x.index_select(0, t.tensor([0, 2])).grad_fn._saved_index, t.nn.functional.leaky_relu(x).grad_fn._saved_negative_slope,
    ]  # fmt: skip


@story
def test_saved_tensors_of_a_freed_graph(t):
    y = leaf(t).exp()
    y.sum().backward()
    said_ = said(lambda: y.grad_fn._saved_result, "Trying to .* (a second time|after)")
    return type(attempt(lambda: y.grad_fn._saved_result)).__name__, bool(said_)


@story
def test_a_node_may_be_called(t):
    x = leaf(t)
    node = (x * 3).grad_fn
    return attempt(lambda: node(t.ones(3, dtype=t.float64)))


@story
def test_printing_tensors_with_history(t):
    x = t.ones(2, requires_grad=True)
    parts = (x, x * 2, x.sum(), x.view(2, 1), x.unbind(0)[1], x.detach(), x.exp().log(), x.clone().add_(1), t.nn.Parameter(x.data))
    return [repr(p) for p in parts]


# -- modes -------------------------------------------------------------------------------------------


@story
def test_no_grad_and_enable_grad(t):
    x = leaf(t)
    seen = []
    with t.no_grad():
        seen.append((x * 2).requires_grad)
        with t.enable_grad():
            seen.append((x * 2).requires_grad)
        y = x.clone().requires_grad_()
        seen += [y.is_leaf, y.requires_grad, t.is_grad_enabled(), (y + 1).is_leaf]
    with t.set_grad_enabled(False):
        seen.append(x.exp().requires_grad)
    return seen, t.is_grad_enabled()


@story
def test_set_grad_enabled_as_a_function(t):
    t.set_grad_enabled(False)
    off = t.is_grad_enabled(), (leaf(t) * 2).requires_grad
    t.set_grad_enabled(True)
    return off, t.is_grad_enabled()


@story
def test_modes_as_decorators(t):
    @t.no_grad()
    def a(x):
        """doc of a"""
        return (x * 2).requires_grad

    @t.no_grad
    def b(x):
        return (x * 2).requires_grad

    @t.enable_grad()
    def c(x):
        return (x * 2).requires_grad

    @t.set_grad_enabled(False)
    def d(x):
        return (x * 2).requires_grad

    @t.inference_mode()
    def e(x):
        return (x * 2).is_inference()

    @t.inference_mode
    def f(x):
        return (x * 2).is_inference()

    x = leaf(t)
    with t.no_grad():
        inner = c(x)
    return [g(x) for g in (a, b, c, d, e, f)], inner, a.__name__, a.__doc__, t.is_grad_enabled()


@story
def test_a_decorated_function_calls_itself(t):
    @t.no_grad()
    def count(n):
        return [t.is_grad_enabled()] + (count(n - 1) if n else [])

    return count(3), t.is_grad_enabled()


@story
def test_modes_restored_after_errors(t):
    for mode in (t.no_grad, t.enable_grad, t.inference_mode, t.autograd.detect_anomaly):
        with contextlib.suppress(ValueError), mode():
            raise ValueError
    return t.is_grad_enabled(), t.is_inference_mode_enabled(), t.is_anomaly_enabled()


@story
def test_modes_and_generators(t):
    @t.no_grad()
    def off():
        for _ in range(2):
            yield t.is_grad_enabled()

    @t.enable_grad()
    def on():
        for _ in range(2):
            yield t.is_grad_enabled()

    seen = []
    for a, b in zip(off(), on()):
        seen.append((a, b, t.is_grad_enabled()))
    with t.no_grad():
        for a, b in zip(off(), on()):
            seen.append((a, b, t.is_grad_enabled()))
    return seen


@story
def test_modes_and_generators_that_receive(t):
    @t.no_grad()
    def talk():
        got = []
        try:
            while True:
                try:
                    got.append(((yield t.is_grad_enabled()), t.is_grad_enabled()))
                except ValueError as e:
                    got.append((str(e), t.is_grad_enabled()))
        finally:
            got.append(t.is_grad_enabled())
            seen.append(got)

    seen = []
    g = talk()
    seen.append(next(g))
    seen.append(g.send(5))
    seen.append(g.throw(ValueError("told")))
    seen.append(t.is_grad_enabled())
    g.close()
    return seen, t.is_grad_enabled()


@story
def test_modes_and_generators_that_return(t):
    @t.no_grad()
    def inner():
        got = yield 1
        return got, t.is_grad_enabled()

    def outer():
        result = yield from inner()
        yield result

    g = outer()
    return next(g), g.send("x"), t.is_grad_enabled()


@story
def test_modes_and_coroutines(t):
    async def work():
        await asyncio.sleep(0)
        with t.no_grad():
            inside = t.is_grad_enabled()
        return inside, t.is_grad_enabled()

    return asyncio.run(work())


@story
def test_modes_on_classes(t):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")

        @t.no_grad()
        class A:
            def __init__(self):
                self.mode = t.is_grad_enabled()

            def method(self):
                return t.is_grad_enabled()

    a = A()
    return a.mode, a.method(), [w.category.__name__ for w in caught], isinstance(A, type)


@story
def test_modes_of_data(t):
    x = leaf(t)
    seen = []
    with t.no_grad():
        y = x * 2
        y.requires_grad_()
    (y * 3).sum().backward()
    seen += [y.grad, x.grad]
    with t.no_grad():
        v = x.view(3, 1)
    seen += [v.requires_grad, v.is_leaf, v._is_view()]
    return seen


@story
def test_wrong_arguments_of_modes(t):
    return [
        type(attempt(lambda: t.set_grad_enabled())).__name__,
        type(attempt(lambda: t.set_grad_enabled("on"))).__name__,
        type(attempt(lambda: t.no_grad(1, 2))).__name__,
        type(attempt(lambda: t.enable_grad(3))).__name__,
        type(attempt(lambda: t.inference_mode("x"))).__name__,
    ]


@story
def test_modes_can_be_entered_again(t):
    mode = t.no_grad()
    seen = []
    with mode:
        with mode:
            seen.append(t.is_grad_enabled())
        seen.append(t.is_grad_enabled())
    seen.append(t.is_grad_enabled())
    t.set_grad_enabled(True)
    other = mode.clone()
    with other:
        seen.append(t.is_grad_enabled())
    return seen, type(other).__name__


@story
def test_backward_in_no_grad_mode(t):
    x = leaf(t)
    y = (x**2).sum()
    with t.no_grad():
        y.backward(retain_graph=True)
        (g,) = t.autograd.grad(y, x, create_graph=True)
    return x.grad, g, g.requires_grad


@story
def test_detect_anomaly(t):
    def bad():
        x = leaf(t, -1, 2)
        with t.autograd.detect_anomaly():
            t.sqrt(x).sum().backward()

    def unchecked():
        x = leaf(t, -1, 2)
        with t.autograd.detect_anomaly(check_nan=False):
            t.sqrt(x).sum().backward()
        return x.grad

    return said(bad, "Function 'SqrtBackward0' returned nan values in its 0th output."), unchecked()


@story
def test_set_detect_anomaly(t):
    seen = [t.is_anomaly_enabled()]
    with t.autograd.set_detect_anomaly(True):
        seen += [t.is_anomaly_enabled(), t.is_anomaly_check_nan_enabled()]
        with t.autograd.set_detect_anomaly(False):
            seen.append(t.is_anomaly_enabled())
    t.autograd.set_detect_anomaly(True, check_nan=False)
    seen += [t.is_anomaly_enabled(), t.is_anomaly_check_nan_enabled()]
    t.autograd.set_detect_anomaly(False)
    return seen, t.is_anomaly_enabled()


@story
def test_anomaly_mode_warns_where_it_happened(t):
    def f():
        with t.autograd.detect_anomaly():
            x = leaf(t, 0.0)
            attempt((x / x.detach()).sum().backward)

    got = warned(f, "(Anomaly Detection has been enabled|Error detected in \\w+)")
    return got


# -- hooks -------------------------------------------------------------------------------------------


@story
def test_a_hook_counts_and_changes(t):
    x, y = t.ones(2, 2, requires_grad=True), t.full((2, 2), 2.0, requires_grad=True)
    z = x**2 + x * 2 + x * y + y
    counter = [0]

    def bump(inc, g):
        counter[0] += inc

    x.register_hook(lambda g: bump(1, g))
    test = z.register_hook(lambda g: bump(3, g))
    z.backward(t.ones(2, 2), retain_graph=True)
    first = counter[0]
    z.register_hook(lambda g: bump(5, g))
    z.backward(t.ones(2, 2), retain_graph=True)
    second = counter[0]
    test.remove()
    z.backward(t.ones(2, 2), retain_graph=True)
    third = counter[0]
    z.register_hook(lambda g: g * 2)
    y.grad.zero_()
    z.backward(t.ones(2, 2))
    return first, second, third, y.grad, counter


@story
def test_hooks_that_fail(t):
    x = leaf(t)
    y = x * 2

    def fail(g):
        raise ValueError("from the hook")

    y.register_hook(fail)
    return said(y.sum().backward, "from the hook"), x.grad, t.is_grad_enabled()


@story
def test_hooks_on_nodes(t):
    x = leaf(t)
    y = x * 2
    order = []
    y.grad_fn.register_prehook(lambda g: order.append(("pre", g[0].clone())))
    y.grad_fn.register_hook(lambda gi, go: order.append(("post", gi, go)))
    y.register_hook(lambda g: order.append(("tensor", g.clone())))
    y.retain_grad()
    y.sum().backward()
    return order, y.grad


@story
def test_prehooks_replace(t):
    x = leaf(t)
    y = x * 2
    handle = y.grad_fn.register_prehook(lambda g: (g[0] * 10,))
    y.grad_fn.register_prehook(lambda g: (g[0] + 1,))
    y.sum().backward(retain_graph=True)
    first = x.grad.clone()
    handle.remove()
    y.sum().backward()
    return first, x.grad


@story
def test_hooks_on_the_node_of_a_leaf(t):
    x = leaf(t)
    y = x.view_as(x)
    node = y.grad_fn.next_functions[0][0]
    seen = []
    node.register_prehook(lambda g: (g[0] * 2,))
    node.register_hook(lambda gi, go: seen.append((gi, go)))
    y.sum().backward()
    return x.grad, seen


@story
def test_hooks_must_be_callable(t):
    x = leaf(t)
    return [type(attempt(lambda f=f: f("no"))).__name__ for f in (x.register_hook, (x * 2).grad_fn.register_hook)]


@story
def test_retain_grad_of_every_kind(t):
    x = leaf(t)
    x.retain_grad()
    y = x * 2
    y.retain_grad()
    y.retain_grad()
    (y**2).sum().backward(retain_graph=True)
    first = y.grad.clone(), x.retains_grad, y.retains_grad
    (y**2).sum().backward()
    return first, y.grad, x.grad, said(t.ones(2).retain_grad, "can't retain_grad on Tensor that has requires_grad=False")


@story
def test_retained_gradients_with_create_graph(t):
    x = leaf(t, 2)
    y = x**2
    y.retain_grad()
    (y**2).backward(create_graph=True)
    return y.grad, y.grad.requires_grad, t.autograd.grad(y.grad, x)


@story
def test_a_post_accumulate_hook_that_optimizes(t):
    torch_params = [t.nn.Parameter(t.full((2,), float(i + 1))) for i in range(3)]
    optims = {p: t.optim.SGD([p], lr=0.1, momentum=0.9) for p in torch_params}

    def step(p):
        optims[p].step()
        optims[p].zero_grad()

    for p in torch_params:
        p.register_post_accumulate_grad_hook(step)
    for _ in range(3):
        sum((p**2).sum() for p in torch_params).backward()
    return [p.detach() for p in torch_params], [p.grad is None for p in torch_params]


@story
def test_post_accumulate_hooks_in_order_and_removed(t):
    x = leaf(t)
    seen = []
    a = x.register_post_accumulate_grad_hook(lambda p: seen.append(("a", p is x, p.grad.clone())))
    x.register_post_accumulate_grad_hook(lambda p: seen.append(p.grad.mul_(2).clone()))
    x.register_post_accumulate_grad_hook(lambda p: seen.append(("c", p.grad.clone())))
    (x * 3).sum().backward()
    a.remove()
    (x * 3).sum().backward()
    t.autograd.grad((x * 2).sum(), x)
    refused = said(lambda: (x * 2).register_post_accumulate_grad_hook(print), "post accumulate grad hooks cannot be registered")
    return seen, x.grad, refused


@story
def test_handles_are_contexts(t):
    x = leaf(t)
    seen = []
    with x.register_hook(lambda g: seen.append(1)):
        (x * 2).sum().backward()
    (x * 2).sum().backward()
    return seen


@story
def test_a_handle_of_hooks(t):
    x = leaf(t)
    h = x.register_hook(lambda g: g * 0)
    r = type(h).__module__.rpartition(".")[2], type(h).__name__, h.id in h.hooks_dict_ref(), len(x._backward_hooks)
    h.remove()
    h.remove()
    return r, len(x._backward_hooks)


@story
def test_multi_grad_hooks(t):
    out = []
    for mode in ("all", "any"):
        x, y, z = leaf(t, 1), leaf(t, 2), leaf(t, 3)
        seen = []
        h = t.autograd.graph.register_multi_grad_hook((x, y, z), lambda g, s=seen: s.append(g), mode=mode)
        (x * y).backward()
        (x * 2).backward()
        (x * y * z).backward()
        h.remove()
        (x * y).backward()
        out.append(seen)
    return out


@story
def test_queued_callbacks(t):
    seen = []
    x = leaf(t)

    def later():
        seen.append("callback")

    def hook(g):
        t.autograd.Variable._execution_engine.queue_callback(later)
        seen.append("hook")

    x.register_hook(hook)
    (x * 2).sum().backward()
    refused = attempt(lambda: t.autograd.Variable._execution_engine.queue_callback(later))
    return seen, refused


@story
def test_a_backward_inside_a_backward(t):
    class Inner(t.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            with t.enable_grad():
                ctx.x = x.detach().requires_grad_()
                ctx.y = ctx.x * ctx.x
            return ctx.y.detach()

        @staticmethod
        def backward(ctx, g):
            with t.enable_grad():
                ctx.y.backward(g)
            return ctx.x.grad

    x = leaf(t)
    Inner.apply(Inner.apply(x)).sum().backward()
    return x.grad


@story
def test_a_deep_backward_inside_backwards(t):
    class Deep(t.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            with t.enable_grad():
                ctx.x = x.detach().requires_grad_()
                ctx.x = ctx.x - 1
            return ctx.x.detach()

        @staticmethod
        def backward(ctx, g):
            if ctx.x < 0:
                return g
            with t.enable_grad():
                Deep.apply(ctx.x).sum().backward()
            return g

    v = leaf(t, 60)
    Deep.apply(v).sum().backward()
    return v.grad


# -- copies, pickles, conversions --------------------------------------------------------------------


@story
def test_deepcopies(t):
    x = leaf(t)
    (x * 2).sum().backward()
    y = copy.deepcopy(x)
    y.grad.mul_(5)
    p = copy.deepcopy(t.nn.Parameter(t.ones(2)))
    return y, y.grad, x.grad, y.is_leaf, type(p).__name__, p.requires_grad, said(
        lambda: copy.deepcopy(x * 2), "Only Tensors created explicitly by the user"
    )


@story
def test_deepcopies_keep_sharing(t):
    x = t.arange(4.0)
    a, b = copy.deepcopy([x, x[:2]])
    a[0] = 9
    return a, b, x


@story
def test_shallow_copies(t):
    x = leaf(t)
    y = copy.copy(x)
    with t.no_grad():
        y.add_(1)
    return y.requires_grad, x, y is x


@story
def test_pickles(t):
    x = leaf(t)
    y = pickle.loads(pickle.dumps(x))
    z = t.ones(2)
    z.note = "kept"
    w = pickle.loads(pickle.dumps(z))
    p = pickle.loads(pickle.dumps(t.nn.Parameter(t.ones(2), requires_grad=False)))
    return y, y.requires_grad, w.note, p.requires_grad, type(p).__name__, type(attempt(lambda: pickle.dumps(x * 2))).__name__


@story
def test_saving_tensors_with_grad(t):
    x = leaf(t)
    (x * 2).sum().backward()
    buffer = io.BytesIO()
    t.save([x, x.detach()[1:]], buffer)
    buffer.seek(0)
    a, b = t.load(buffer)
    return a, a.requires_grad, a.grad, b


@story
def test_conversions_of_type(t):
    x = t.randn(3, 2)
    r = [x.int(), x.long(), x.half(), x.double(), x.bool(), x.type("torch.DoubleTensor"), x.type(t.float64), x.to(t.bfloat16)]
    y = t.ones(3, requires_grad=True)
    z = y.double().sum() + y.half().sum().float() + y.to(t.bfloat16).sum() + y.type(t.float64).sum()
    z.backward()
    same = y.float() is y, y.to(t.float32) is y, y.to("cpu") is y, y.cpu() is y, y.to(y, copy=True) is y, y.type(t.float32) is y
    return [v.dtype for v in r], x.type(), y.grad, same, y.to(t.complex64).grad_fn, y.type_as(x.double()).dtype


@story
def test_gradients_have_the_dtype_of_the_tensor(t):
    out = []
    for name in ("float16", "bfloat16", "float32", "complex64"):
        x = t.ones(2, dtype=getattr(t, name), requires_grad=True)
        y = (x * t.ones(2, dtype=t.float64)).abs().sum()
        seen = []
        x.register_hook(lambda g, s=seen: s.append(g.dtype))
        y.backward()
        out.append((x.grad, seen))
    return out


@story
def test_grad_dtype(t):
    x = t.ones(2, requires_grad=True)
    x.grad_dtype = t.float64
    (x * 2).sum().backward()
    y = t.ones(2, requires_grad=True)
    y.grad_dtype = None
    y.double().sum().backward()
    return x.grad.dtype, x.grad_dtype, y.grad.dtype, y.grad_dtype, t.ones(2).grad_dtype


@story
def test_set_data(t):
    x = leaf(t)
    y = x * 2
    x.data = t.zeros(3, dtype=t.float64)
    r = [x, x.requires_grad, x.is_leaf, x._version]
    y.sum().backward()
    r += [x.grad]
    x.data.add_(1)
    r += [x, x._version]
    r += [said(lambda: setattr(x, "data", t.zeros(3, dtype=t.int64)), "data set to a tensor that requires gradients must be")]
    p = t.nn.Parameter(t.ones(2))
    p.data = t.zeros(3, 2)
    return r, p.shape, type(p).__name__, said(lambda: setattr(p, "data", None), "data")


@story
def test_data_of_saved_tensors_is_not_tracked(t):
    x = leaf(t)
    y = x.exp()
    y.data.zero_()
    y.sum().backward()
    z = x.exp()
    z.detach().zero_()
    return x.grad, said(z.sum().backward, "modified by an inplace operation")


@story
def test_an_assigned_data_of_another_shape(t):
    x = leaf(t)
    x.data = t.ones(2, 2, dtype=t.float64)
    (x * 3).sum().backward()
    return x.grad, x.shape


@story
def test_variables(t):
    V = t.autograd.Variable
    x = V(t.ones(2), requires_grad=True)
    (x * 3).sum().backward()
    return x.grad, isinstance(x, V), isinstance(t.ones(1), V), type(x).__name__, x.is_leaf


@story
def test_resizing(t):
    x = leaf(t)
    y = x * 2
    return [
        said(lambda: y.resize(2, 2), ".{0,15}"),
        said(lambda: x.resize_(2), "cannot resize variables that require grad"),
        said(lambda: x.resize_as_(t.ones(2)), "cannot resize variables that require grad"),
        said(lambda: y.resize_(3), "cannot resize variables that require grad"),
        t.ones(3).resize_(2),
    ]


@story
def test_numpy_shares_and_counts(t):
    x = t.ones(3)
    v = x._version
    return v, x.numpy().tolist(), x.detach().clone().numpy().sum().item()


# -- gradients of single functions at delicate points ------------------------------------------------

DELICATE = {
    "pow of zero": lambda t, x: x**0,
    "pow of zero by a tensor": lambda t, x: x ** t.tensor([0.0, 1.0, 2.0], dtype=t.float64),
    "exponent of a zero base": lambda t, x: t.tensor([0.0, 0.0, 2.0], dtype=t.float64) ** x,
    "a number to a power": lambda t, x: 0**x,
    "two to a power": lambda t, x: 2**x,
    "norm at zero": lambda t, x: (x * 0).norm(),
    "norm of order one": lambda t, x: x.norm(1),
    "norm of order inf": lambda t, x: x.norm(float("inf")),
    "norm of order half": lambda t, x: x.norm(0.5),
    "clamp": lambda t, x: x.clamp(0.0, 2.0),
    "clamp of tensors": lambda t, x: t.clamp(x, min=x.detach() * 0, max=x.detach()),
    "clamp below only": lambda t, x: x.clamp(min=2.0),
    "where": lambda t, x: t.where(x > 1, x, x**2),
    "where of a number": lambda t, x: t.where(x > 1, x, 0.0),
    "where of nan": lambda t, x: t.where(x > 0, x.log(), 0.0 * x),
    "masked_fill": lambda t, x: x.masked_fill(x > 1, 7.0),
    "masked_fill by a tensor": lambda t, x: x.masked_fill(x > 1, x.sum()),
    "masked_select": lambda t, x: x.masked_select(x > 0.5),
    "masked_scatter": lambda t, x: x.masked_scatter(x > 1, x * 3),
    "prod with a zero": lambda t, x: x.prod(),
    "prod with two zeros": lambda t, x: (x * t.tensor([0.0, 0.0, 1.0], dtype=t.float64)).prod(),
    "cumprod with a zero": lambda t, x: x.cumprod(0),
    "max of ties": lambda t, x: t.cat([x, x]).max(),
    "amax of ties": lambda t, x: t.cat([x, x]).amax(0),
    "median": lambda t, x: t.cat([x, x]).median(),
    "nanmedian": lambda t, x: x.nanmedian(),
    "maximum of ties": lambda t, x: t.maximum(x, x.detach()),
    "fmax of nan": lambda t, x: t.fmax(x, x * float("nan")),
    "minimum of itself": lambda t, x: t.minimum(x, x),
    "abs at zero": lambda t, x: x.abs(),
    "sign": lambda t, x: x.sign() * x,
    "sqrt at zero": lambda t, x: x.abs().sqrt(),
    "relu": lambda t, x: x.relu(),
    "hardtanh": lambda t, x: t.nn.functional.hardtanh(x),
    "softplus": lambda t, x: t.nn.functional.softplus(x * 100),
    "logsumexp of -inf": lambda t, x: t.stack([x, x.detach() * 0 - float("inf")]).logsumexp(0),
    "logsumexp": lambda t, x: x.logsumexp(0),
    "log_softmax": lambda t, x: x.log_softmax(0),
    "std of one": lambda t, x: x[:1].std(),
    "std of equals": lambda t, x: (x * 0).std(),
    "var": lambda t, x: x.var(0, unbiased=False),
    "var_mean": lambda t, x: sum(t.var_mean(x, 0)),
    "std_mean": lambda t, x: sum(t.std_mean(x, 0)),
    "atan2 at zero": lambda t, x: t.atan2(x * 0, x * 0),
    "hypot at zero": lambda t, x: t.hypot(x * 0, x * 0),
    "sinc": lambda t, x: t.sinc(x),
    "xlogy": lambda t, x: t.xlogy(x, x.detach() * 0),
    "xlogy of both": lambda t, x: t.xlogy(x, x),
    "nan_to_num": lambda t, x: t.nan_to_num(x + t.tensor([float("nan"), float("-inf"), 0.0], dtype=t.float64)),
    "fmod": lambda t, x: t.fmod(x, 2),
    "remainder": lambda t, x: t.remainder(x, x.detach() + 2),
    "floor_divide": lambda t, x: x - t.div(x, 2.0, rounding_mode="floor"),
    "trunc": lambda t, x: x.trunc() + x,
    "frac": lambda t, x: x.frac(),
    "lerp": lambda t, x: t.lerp(x, x * 2, x),
    "addcmul": lambda t, x: t.addcmul(x, x, x, value=2),
    "addcdiv": lambda t, x: t.addcdiv(x, x, x + 2, value=2),
    "dist": lambda t, x: t.dist(x, x.detach()),
    "renorm": lambda t, x: x[None].renorm(2, 0, 1.0),
    "cumsum": lambda t, x: x.cumsum(0),
    "cummax": lambda t, x: x.cummax(0).values,
    "cummin": lambda t, x: x.flip(0).cummin(0)[0],
    "logcumsumexp": lambda t, x: x.logcumsumexp(0),
    "kthvalue": lambda t, x: x.kthvalue(2).values,
    "mode": lambda t, x: x.mode().values,
    "quantile": lambda t, x: x.quantile(0.4),
    "sort": lambda t, x: x.sort(descending=True).values * t.arange(3.0, dtype=t.float64),
    "topk": lambda t, x: x.topk(2).values,
    "expand": lambda t, x: x.expand(4, 3),
    "repeat": lambda t, x: x.repeat(2, 2),
    "repeat_interleave": lambda t, x: x.repeat_interleave(2),
    "gather twice": lambda t, x: x.gather(0, t.tensor([0, 0, 2])),
    "index_select twice": lambda t, x: x.index_select(0, t.tensor([1, 1, 0])),
    "take": lambda t, x: x.take(t.tensor([[2, 2]])),
    "scatter": lambda t, x: x.scatter(0, t.tensor([0]), 5.0),
    "scatter of a tensor": lambda t, x: x.scatter(0, t.tensor([0, 2]), x[:2] * 2),
    "scatter_add": lambda t, x: x.scatter_add(0, t.tensor([0, 0, 2]), x * x),
    "index_add": lambda t, x: x.index_add(0, t.tensor([0, 0]), x[:2] * 3, alpha=2),
    "index_copy": lambda t, x: x.index_copy(0, t.tensor([2]), x[:1] * 3),
    "index_fill": lambda t, x: x.index_fill(0, t.tensor([2]), 3.0),
    "index_put": lambda t, x: x.index_put((t.tensor([0, 0]),), x[:2] * 2, accumulate=True),
    "scatter_reduce prod": lambda t, x: x.scatter_reduce(0, t.tensor([0, 0, 2]), x * 2, "prod"),
    "scatter_reduce amax": lambda t, x: x.scatter_reduce(0, t.tensor([0, 0, 2]), x, "amax"),
    "flip, roll": lambda t, x: x.flip(0) * x.roll(1),
    "unfold": lambda t, x: x.unfold(0, 2, 1),
    "as_strided": lambda t, x: x.as_strided((2, 2), (1, 1)),
    "diag_embed": lambda t, x: t.diag_embed(x),
    "tril": lambda t, x: t.outer(x, x).tril(),
    "trace": lambda t, x: t.outer(x, x).trace(),
    "block_diag": lambda t, x: t.block_diag(x, x * 2),
    "cat with an empty one": lambda t, x: t.cat([x, t.zeros(0, dtype=t.float64), x * 2]),
    "stack": lambda t, x: t.stack([x, x * x], -1),
    "einsum": lambda t, x: t.einsum("i,j->ij", x, x),
    "tensordot": lambda t, x: t.tensordot(x, x, 1),
    "pad": lambda t, x: t.nn.functional.pad(x, (1, 2), value=3.0),
    "pad by reflection": lambda t, x: t.nn.functional.pad(x[None], (1, 1), mode="reflect"),
    "broadcast_tensors": lambda t, x: t.broadcast_tensors(x, t.ones(2, 1, dtype=t.float64))[0],
    "complex parts": lambda t, x: t.complex(x, x * 2).abs(),
    "view_as_complex": lambda t, x: t.view_as_real(t.view_as_complex(t.stack([x, x * 2], -1)) ** 2),
    "angle": lambda t, x: x.angle() + x,
    "polar": lambda t, x: t.view_as_real(t.polar(x.abs(), x)),
    "sgn": lambda t, x: t.view_as_real(t.complex(x, x).sgn()),
    "cosine_similarity": lambda t, x: t.nn.functional.cosine_similarity(x, x.detach() + 1, dim=0),
    "normalize": lambda t, x: t.nn.functional.normalize(x, dim=0),
    "meshgrid": lambda t, x: sum(t.meshgrid(x, x, indexing="ij")),
    "cartesian_prod": lambda t, x: t.cartesian_prod(x, x * 2),
    "combinations": lambda t, x: t.combinations(x),
    "nansum": lambda t, x: (x + t.tensor([float("nan"), 1.0, 0.0], dtype=t.float64)).nansum(),
    "erfinv": lambda t, x: t.erfinv(x / 4),
    "lgamma": lambda t, x: t.lgamma(x + 3),
    "logit": lambda t, x: t.logit(x / 4 + 0.5, eps=0.2),
    "rsub": lambda t, x: 3 - x,
    "reciprocal": lambda t, x: 1 / (x + 3),
    "neg, pos, abs": lambda t, x: -x + +x + abs(x),
    "matmul": lambda t, x: x @ x,
    "det": lambda t, x: t.diag(x).det(),
    "inverse": lambda t, x: t.inverse(t.diag(x + 4)),
    "deg2rad": lambda t, x: t.deg2rad(x),
    "logaddexp": lambda t, x: t.logaddexp(x, x * 2),
    "heaviside": lambda t, x: x * t.heaviside(x.detach(), x.detach()),
    "copysign": lambda t, x: t.copysign(x, -x.detach()),
    "ldexp": lambda t, x: t.ldexp(x, t.tensor([1, 2, 3])),
    "frexp": lambda t, x: t.frexp(x)[0],
    "bucketed": lambda t, x: x * t.bucketize(x.detach(), x.detach().sort().values),
    "histogram of a hook": lambda t, x: x.clone().fill_(3.0) + x,
}  # fmt: skip


@pytest.mark.parametrize("name", DELICATE)
@pytest.mark.parametrize("values", [(0.0, 1.0, 2.0), (-1.5, 0.5, 1.0)], ids=["zero", "signs"])
def test_gradients_at_delicate_points(name, values):
    check(DELICATE[name], np.array(values), jit=False, stride=False)


BROADCAST = {
    "add": lambda t, a, b: a + b,
    "mul": lambda t, a, b: a * b,
    "div": lambda t, a, b: a / (b + 9),
    "sub by alpha": lambda t, a, b: t.sub(a, b, alpha=3),
    "pow": lambda t, a, b: (a.abs() + 1) ** b,
    "maximum": lambda t, a, b: t.maximum(a, b),
    "where": lambda t, a, b: t.where(a > b, a, b),
    "atan2": lambda t, a, b: t.atan2(a, b),
    "lerp": lambda t, a, b: t.lerp(a, b, 0.25),
    "addcmul": lambda t, a, b: t.addcmul(a, b, a),
    "outer": lambda t, a, b: t.outer(a.flatten(), b.flatten()) + (a + b).sum(),
    "fmod": lambda t, a, b: t.fmod(a, b + 9),
    "masked_fill": lambda t, a, b: a.masked_fill(b.detach() > 2, 0.0) + b,
    "copysign": lambda t, a, b: t.copysign(a, b),
    "hypot": lambda t, a, b: t.hypot(a, b),
    "logaddexp": lambda t, a, b: t.logaddexp(a, b),
    "xlogy": lambda t, a, b: t.xlogy(a, b.abs() + 1),
    "huber": lambda t, a, b: t.nn.functional.huber_loss(a, b.expand_as(a + b)) + a,
}
SHAPES = {"row": ((2, 3), (3,)), "column": ((2, 3), (2, 1)), "0-dim": ((2, 3), ()), "outer": ((2, 1), (1, 3)), "left": ((), (2, 2)), "empty": ((0, 3), (3,))}


@pytest.mark.parametrize("shapes", SHAPES)
@pytest.mark.parametrize("name", BROADCAST)
def test_broadcast_gradients(name, shapes):
    def f(t):
        a, b = (
            (t.arange(float(max(1, t.Size(s).numel())), dtype=t.float64)[: t.Size(s).numel()].reshape(s) + i).requires_grad_()
            for i, s in enumerate(SHAPES[shapes])
        )
        BROADCAST[name](t, a, b).sum().backward()
        return a.grad, b.grad

    agree(f)


def test_errors_keep_gradients():
    agree_error(lambda t: leaf(t).sum().backward(t.ones(2)), "Mismatch in shape")
    agree_error(lambda t: t.ones(2).sum().backward(), "element 0 of tensors does not require grad")
