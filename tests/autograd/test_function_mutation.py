"""Custom Functions that change inputs in place: mark_dirty with leaves, views, bases, hooks and kept gradients."""

import pytest
from both import agree, agree_error, attempt
from function_kit import doubled_in_place, facts, function, last, leaf

import torchlike


def copied(t):
    """Copies its second argument into the first."""

    def forward(ctx, a, b):
        ctx.mark_dirty(a)
        return a.copy_(b)

    return function(t, forward, lambda ctx, g: (t.zeros_like(g), g * 2))


def marked(t, forward, backward=lambda ctx, g: g * 2):
    return function(t, forward, backward)


def test_an_intermediate():
    def run(t):
        x = leaf(t)
        z = x * 1
        old = z.grad_fn
        y = doubled_in_place(t).apply(z)
        return y is z, facts(z), z.grad_fn.next_functions[0][0] is old, t.autograd.grad(z.sum(), x)

    agree(run)


@pytest.mark.parametrize(
    "make",
    [
        lambda t: t.ones(2),
        lambda t: t.arange(2),
        lambda t: t.ones(3)[1:],
        lambda t: (leaf(t) * 1).detach(),
        lambda t: t.ones(0),
        lambda t: t.tensor(2.0),
    ],
)
def test_without_gradients(make):
    def run(t):
        a = make(t)
        y = doubled_in_place(t).apply(a)
        return y is a, facts(a)

    agree(run)


def test_no_grad_mode():
    def run(t, make):
        a = make(t)
        with t.no_grad():
            y = doubled_in_place(t).apply(a)
        return y is a, facts(y), facts(a)

    agree(lambda t: run(t, leaf))
    agree(lambda t: run(t, lambda t: leaf(t) * 1))
    agree(lambda t: run(t, lambda t: (leaf(t) * 1)[:1]))
    agree(lambda t: run(t, lambda t: leaf(t)[:1]))


def test_leaves_are_refused():
    def run(t, make):
        a = make(t)
        return attempt(lambda: doubled_in_place(t).apply(a)), a.detach(), a._version

    agree(lambda t: run(t, leaf))
    agree_error(lambda t: doubled_in_place(t).apply(leaf(t)), "a leaf Variable that requires grad has been used in an")
    agree_error(
        lambda t: doubled_in_place(t).apply(leaf(t)[:1]), "a view of a leaf Variable that requires grad is being used"
    )
    agree_error(lambda t: copied(t).apply(t.zeros(2, requires_grad=True)[:1], leaf(t)[:1]), "a view of a leaf Variable")


def test_views_that_are_refused():
    def made_in(t, mode):
        b = leaf(t) * 1
        with mode:
            v = b[:1]
        return doubled_in_place(t).apply(v)

    agree_error(lambda t: doubled_in_place(t).apply((leaf(t) * 1).unbind()[0]), "function that returns multiple views")
    agree_error(lambda t: made_in(t, t.no_grad()), "a leaf Variable that requires grad has been used")
    as_is = lambda t: function(t, lambda ctx, a: a).apply(leaf(t))  # noqa: E731
    agree_error(lambda t: doubled_in_place(t).apply(as_is(t)), "This view was created inside a custom Function")


def test_inference_tensors_are_refused():
    def run(t):
        with t.inference_mode():
            a = t.ones(2)
        return function(t, lambda ctx, a: last(ctx.mark_dirty(a), a)).apply(a)

    agree_error(run, "Inplace update to inference tensor outside InferenceMode is not allowed")


@pytest.mark.parametrize(
    "forward",
    [
        lambda ctx, a: last(ctx.mark_dirty(a), a.mul_(2), a * 1),
        lambda ctx, a: last(ctx.mark_dirty(a), a.mul_(2), None),
        lambda ctx, a: last(ctx.mark_dirty(a * 1), a),
    ],
)
@pytest.mark.parametrize("make", [lambda t: leaf(t) * 1, lambda t: t.ones(2)])
def test_dirty_inputs_must_be_returned(forward, make):
    agree_error(lambda t: marked(t, forward).apply(make(t)), "marked as dirty.*were not returned as output")


@pytest.mark.parametrize("what", [3, [1], None])
def test_dirty_things_are_tensors(what):
    agree_error(
        lambda t: marked(t, lambda ctx, a: last(ctx.mark_dirty(what), a)).apply(leaf(t) * 1),
        "mark_dirty can only accept variables, but argument",
    )


@pytest.mark.parametrize(
    "forward",
    [
        lambda ctx, a: last(ctx.mark_dirty(a), a),
        lambda ctx, a: last(y := a * 2, ctx.mark_dirty(y), y),
        lambda ctx, a: last(ctx.mark_dirty(a), ctx.mark_non_differentiable(a), a.mul_(2)),
        lambda ctx, a: last(ctx.mark_dirty(a), a.mul_(2), (a, a)),
        lambda ctx, a: last(ctx.mark_dirty(a), a.mul_(2), (a, 3)),
        lambda ctx, a: last(ctx.mark_dirty(a), a.mul_(2), (a,)),
    ],
)
def test_odd_marks(forward):
    def run(t):
        x = leaf(t)
        z = x * 1
        got = marked(t, forward, lambda ctx, g, *h: g * 2).apply(z)
        outputs = [y for y in (got if isinstance(got, tuple) else (got,)) if isinstance(y, t.Tensor)]
        return [(facts(y), y is z) for y in outputs], facts(z), t.autograd.grad(z.sum(), x)

    agree(run)


def test_two_inputs_and_two_outputs():
    def run(t, dirty):
        def forward(ctx, a, b):
            a.mul_(2)
            if dirty == 2:
                b.mul_(3)
            ctx.mark_dirty(*(a, b)[:dirty])
            return a, b if dirty == 2 else b * 3

        x, w = leaf(t), leaf(t, 3.0, 4.0)
        z, v = x * 1, w * 1
        a, b = function(t, forward, lambda ctx, g, h: (g * 2, h * 3)).apply(z, v)
        return a is z, b is v, facts(a), facts(b), facts(v), t.autograd.grad((a * b).sum(), (x, w))

    agree(lambda t: run(t, 1))
    agree(lambda t: run(t, 2))


# -- views and bases ---------------------------------------------------------------------------------------


def test_a_view_rewrites_its_base():
    def run(t):
        x, w = leaf(t), leaf(t, 3.0, 5.0)
        b = x * 1
        v = b[0:1]
        y = doubled_in_place(t).apply(v)
        told = y is v, facts(v), facts(b), v._base is b, v.grad_fn.next_functions, b.grad_fn.next_functions
        return told, t.autograd.grad((b * w).sum(), (x, w))

    agree(run)


def test_a_base_rewrites_its_views():
    def run(t):
        x = leaf(t)
        b = x * 1
        v, u = b[0:1], b.view(2, 1)[1]
        y = doubled_in_place(t).apply(b)
        return y is b, facts(b), facts(v), facts(u), t.autograd.grad(v.sum() + u.sum() * 3, x)

    agree(run)


def test_views_of_the_changed_view():
    def run(t):
        x = leaf(t)
        b = x * 1
        v = b[0]
        u = v.view(1)
        doubled_in_place(t).apply(v)
        return facts(b), facts(u), t.autograd.grad(b.sum() + u.sum() * 3, x)

    agree(run)


def test_a_view_of_what_has_no_gradient():
    def run(t, view):
        x = leaf(t)
        b = t.zeros(3)
        v = view(b)
        y = copied(t).apply(v, x)
        return y is v, facts(v), facts(b), t.autograd.grad(b.sum() + v.sum() * 3, x)

    agree(lambda t: run(t, lambda b: b[1:]))
    agree(lambda t: run(t, lambda b: b.flip(0)[:2]))
    agree(lambda t: run(t, lambda b: b.view(3, 1)[:2, 0]))


def test_the_old_value_keeps_its_gradient():
    def run(t):
        x, w = leaf(t), leaf(t, 3.0, 5.0)
        b = x * 1
        copied(t).apply(b[0:1], w[1:])
        return t.autograd.grad((b * b).sum(), (x, w))

    agree(run)


def test_no_gradient_for_the_old_value_of_a_view():
    """Zero for the view's part and what comes for the rest: PyTorch loses the rest."""
    t = torchlike
    x, w = leaf(t), leaf(t, 3.0, 5.0)
    b = x * 1
    function(t, lambda ctx, a, b: last(ctx.mark_dirty(a), a.copy_(b)), lambda ctx, g: (None, g)).apply(b[0:1], w[1:])
    got = t.autograd.grad((b * t.tensor([7.0, 11.0])).sum(), (x, w))
    assert [g.tolist() for g in got] == [[0.0, 11.0], [0.0, 7.0]]


def test_a_changed_view_need_not_be_the_first_argument():
    """Each argument gets its own gradient: PyTorch takes the first for the view's."""
    t = torchlike
    x, w = leaf(t), leaf(t, 3.0, 5.0)
    b = x * 1
    f = function(t, lambda ctx, a, v: last(ctx.mark_dirty(v), v.mul_(a)), lambda ctx, g: (g * 10, g * 100))
    f.apply(w[:1], b[:1])
    got = t.autograd.grad((b * t.tensor([2.0, 3.0])).sum(), (x, w))
    assert [g.tolist() for g in got] == [[200.0, 3.0], [20.0, 0.0]]


def test_a_changed_view_must_be_the_only_output():
    def run(t, make):
        f = function(t, lambda ctx, a, b: last(ctx.mark_dirty(a), a.mul_(2), (a, b)), lambda ctx, g, h: (g, h))
        return f.apply(make(leaf(t) * 1), leaf(t))

    agree_error(lambda t: run(t, lambda b: b[:1]), "is a view of another Tensor, your Function cannot return more")
    agree(lambda t: run(t, lambda b: b))


def test_again_and_again():
    def run(t):
        x = leaf(t)
        z, f = x * 1, doubled_in_place(t)
        v = z[:1]
        for a in (v, v, z, v):
            f.apply(a)
        return facts(z), facts(v), t.autograd.grad(z.sum() + v.sum(), x)

    agree(run)


def test_a_detached_alias():
    def run(t, use):
        z = leaf(t) * 1
        q = z * z
        d = doubled_in_place(t).apply(z.detach())
        return facts(z), facts(d), use(q, z)

    agree(lambda t: run(t, lambda q, z: None))
    agree_error(lambda t: run(t, lambda q, z: q.sum().backward()), "modified by an inplace operation")


def test_saved_before_the_change():
    def run(t, view, f=doubled_in_place):
        z = leaf(t) * 1
        v = view(z)
        q = z * z
        f(t).apply(v)
        q.sum().backward()

    match = r"modified by an inplace operation: \[torch.FloatTensor \[2\]\]"
    agree_error(lambda t: run(t, lambda z: z), match + ", which is output 0 of MyFn, is at version 2; expected ")
    agree_error(lambda t: run(t, lambda z: z[:1]), match + ".*CopySlices, is at version 2; expected version 0")


@pytest.mark.parametrize("view", [lambda z: z, lambda z: z[:1], lambda z: z.view(2, 1)])
@pytest.mark.parametrize("when", ["before", "after"])
def test_a_changed_input_is_saved(view, when):
    def run(t):
        seen = []

        def forward(ctx, a):
            ctx.mark_dirty(a)
            if when == "before":
                ctx.save_for_backward(a)
            a.mul_(2)
            ctx.save_for_backward(a)
            return a

        def backward(ctx, g):
            (v,) = ctx.saved_tensors
            seen.append((v, v.grad_fn))
            return g * v

        x = leaf(t)
        b = x * 1
        function(t, forward, backward).apply(view(b))
        (g,) = t.autograd.grad((b * t.tensor([2.0, 3.0])).sum(), x, create_graph=True)
        return seen, g, t.autograd.grad(g.sum(), x)

    agree(run)


def test_double_backward_through_a_changed_view():
    def run(t):
        x = leaf(t)
        z = x * 1
        doubled_in_place(t).apply(z[:1])
        (g,) = t.autograd.grad((z**3).sum(), x, create_graph=True)
        return g, t.autograd.grad(g.sum(), x)

    agree(run)


# -- hooks and kept gradients ---------------------------------------------------------------------------------


def test_hooks_stay_with_the_old_history():
    def run(t, view):
        x, log = leaf(t), []
        z = x * 1
        v = view(z)
        v.register_hook(lambda g: log.append(("old view", g)))
        z.register_hook(lambda g: log.append(("old base", g)))
        z.grad_fn.register_hook(lambda gi, go: log.append(("node", gi, go)))
        doubled_in_place(t).apply(v)
        z.register_hook(lambda g: log.append(("new base", g)))
        (z * t.tensor([3.0, 4.0])).sum().backward()
        return log, x.grad

    agree(lambda t: run(t, lambda z: z))
    agree(lambda t: run(t, lambda z: z[:1]))


def test_kept_gradients_are_those_of_the_new_value():
    def run(t, view):
        x = leaf(t)
        z = x * 1
        v = view(z)
        z.retain_grad()
        v.retain_grad()
        doubled_in_place(t).apply(v)
        (z * t.tensor([3.0, 4.0])).sum().backward()
        return z.grad, v.grad, z.retains_grad, v.retains_grad, x.grad

    agree(lambda t: run(t, lambda z: z))
    agree(lambda t: run(t, lambda z: z[:1]))


def test_setup_context_marks_too():
    def run(t):
        def setup(ctx, inputs, output):
            ctx.mark_dirty(inputs[0])
            ctx.save_for_backward(output)

        x = leaf(t)
        z = x * 1
        f = function(t, lambda a: a.mul_(2), lambda ctx, g: g * ctx.saved_tensors[0], setup)
        y = f.apply(z)
        return y is z, facts(z), t.autograd.grad(z.sum(), x)

    agree(run)
