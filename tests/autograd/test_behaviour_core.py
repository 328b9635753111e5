"""Behaviours of autograd, one small story each: backward, grad and accumulation."""

from both import attempt
from story_kit import grid, leaf, said, story


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
    return said(
        lambda: t.autograd.backward([t.ones(3), x * 2], [t.ones(3), t.ones(3)]), "element 0 of tensors does not"
    )


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
        said(
            lambda: y.backward(t.ones(2)), "Mismatch in shape: grad_output\\[0\\] has a shape of .* and output\\[0\\]"
        ),
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
        said(
            lambda: t.autograd.grad(x * 2, [x, y], allow_unused=False, materialize_grads=True), "Expected allow_unused"
        ),
        t.autograd.grad(x * 2, [x, y, w], allow_unused=True, materialize_grads=True),
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
