"""torch.autograd.Function: forward and its arguments, outputs, and the gradients that backward returns."""

import pytest
from both import agree, agree_error, attempt
from function_kit import doubled, facts, function, last, leaf


def gradient(t, returned, *others):
    """``.grad`` of the first argument where backward returns ``returned``."""
    x = leaf(t)
    y = function(t, lambda ctx, *a: a[0] * 2, lambda ctx, g: returned).apply(x, *others)
    y.backward(t.ones_like(y))
    return x.grad


@pytest.mark.parametrize(
    "returned",
    [
        lambda t: t.ones(2),
        lambda t: (t.ones(2),),
        lambda t: (t.ones(2), None, None, None),
        lambda t: None,
        lambda t: (None, None),
        lambda t: t.ones(4, 2),
        lambda t: t.ones(3, 4, 2),
        lambda t: t.ones(2, dtype=t.float64),
        lambda t: t.ones(2, dtype=t.float16),
        lambda t: t.ones(2, dtype=t.int64),
        lambda t: t.ones(2, dtype=t.bool),
        lambda t: t.ones(2).expand(3, 2).t().t(),
        lambda t: t.full((2,), float("nan")),
    ],
)
def test_gradients_are_fitted(returned):
    agree(lambda t: gradient(t, returned(t)))


@pytest.mark.parametrize(
    ("returned", "match"),
    [
        (lambda t: (t.ones(2), t.ones(2)), r"MyFnBackward returned an incorrect number.*expected 1, got 2"),
        (lambda t: (t.ones(2), None, t.ones(2)), r"incorrect number of gradients \(expected 1, got 3\)"),
        (lambda t: (), r"incorrect number of gradients \(expected 1, got 0\)"),
        (lambda t: 3.0, r"expected Variable or None \(got float\)"),
        (lambda t: "a", r"expected Variable or None \(got str\)"),
        (lambda t: [t.ones(2)], r"expected Variable or None \(got list\)"),
        (lambda t: t.ones(3), r"MyFnBackward returned an invalid gradient at index 0 - got \[3\] but expected .*\[2\]"),
        (lambda t: t.ones(1), r"invalid gradient at index 0 - got \[1\]"),
        (lambda t: t.tensor(2.0), r"invalid gradient at index 0 - got \[\]"),
        (lambda t: t.ones(2, 1), r"invalid gradient at index 0 - got \[2, 1\]"),
        (lambda t: t.ones(2, dtype=t.complex64), "input_is_complex == grad_is_complex"),
        (lambda t: t.ones(2, device="meta"), r"invalid gradient at index 0 - expected device cpu but got meta"),
    ],
)
def test_gradients_that_are_refused(returned, match):
    agree_error(lambda t: gradient(t, returned(t)), match)


def test_gradients_of_arguments_without_one():
    agree_error(lambda t: gradient(t, (t.ones(2), t.ones(2)), 3), "different than None at position 2.*not a Variable")
    agree_error(lambda t: gradient(t, (t.ones(2), 5), t.ones(2)), r"expected Variable or None \(got int\)")
    agree_error(lambda t: gradient(t, t.ones(2), 3), r"expected 2, got 1")
    agree(lambda t: gradient(t, (t.ones(2), t.ones(2)), t.ones(2)))
    agree(lambda t: gradient(t, (t.ones(2), t.ones(7)), t.ones(2)))
    agree(lambda t: gradient(t, (t.ones(2), None, None), "text", None))
    agree(lambda t: gradient(t, (t.ones(2), None, None, None), "text", None))


def test_complex_and_empty():
    def real_for_complex(t):
        a = t.ones(2, dtype=t.complex64, requires_grad=True)
        y = function(t, lambda ctx, a: a * 2, lambda ctx, g: t.ones(2)).apply(a)
        return t.autograd.grad(y, a, t.ones(2, dtype=t.complex64))

    def empty(t, *shape):
        a = t.ones(0, requires_grad=True)
        y = function(t, lambda ctx, a: a * 2, lambda ctx, g: t.ones(*shape)).apply(a)
        return t.autograd.grad(y.sum(), a)

    agree(real_for_complex)
    agree(lambda t: empty(t, 0))
    agree(lambda t: empty(t, 3, 0))
    agree_error(lambda t: empty(t, 1), r"got \[1\] but expected shape compatible with \[0\]")


@pytest.mark.parametrize("shape", [(2,), (1, 2, 1), (1,), ()])
def test_expanded_inputs_get_sums_that_can_be_differentiated(shape):
    def run(t):
        a = t.ones(shape, requires_grad=True)
        y = function(t, lambda ctx, a: a.expand(5, 3, 2, 2) * 2, lambda ctx, g: g * 2).apply(a)
        (g,) = t.autograd.grad((y**2).sum(), a, create_graph=True)
        return g, t.autograd.grad(g.sum(), a)

    agree(run)


@pytest.mark.parametrize(
    "forward",
    [
        lambda ctx, a: [a * 2, a * 3],
        lambda ctx, a: (a * 2, a * 3),
        lambda ctx, a: (a * 2,),
        lambda ctx, a: None,
        lambda ctx, a: (a * 2, None, 3, "a"),
        lambda ctx, a: 3,
        lambda ctx, a: ((a * 2,), a),
        lambda ctx, a: {"a": a * 2},
        lambda ctx, a: (),
        lambda ctx, a: (a * 2, a.argmax(), a > 0),
        lambda ctx, a: a.argmax(),
    ],
)
def test_outputs(forward):
    agree(lambda t: function(t, forward, lambda ctx, *g: g[0]).apply(leaf(t)))


def test_an_output_that_is_returned_twice():
    def run(t):
        def forward(ctx, a):
            y = a * 2
            return y, y

        x = leaf(t)
        y, z = function(t, forward, lambda ctx, g, h: g + h * 10).apply(x)
        return y is z, facts(y), t.autograd.grad(y.sum() + 3 * z.sum(), x)

    agree(run)


def test_outputs_are_numbered_with_what_is_no_tensor():
    def run(t):
        x, seen = leaf(t), []
        f = function(t, lambda ctx, a: (a * 2, None, a * 3, "s"), lambda ctx, *g: last(seen.extend(g), g[2]))
        y = f.apply(x)
        return y[2].output_nr, t.autograd.grad(y[2].sum(), x), seen

    agree(run)


def test_several_outputs_and_inputs():
    def run(t):
        def forward(ctx, a, b):
            ctx.save_for_backward(a, b)
            return a * b, a + b

        def backward(ctx, g, h):
            a, b = ctx.saved_tensors
            return g * b + h, g * a + h

        x, w = leaf(t), leaf(t, 3.0, 4.0)
        p, s = function(t, forward, backward).apply(x, w)
        g = t.autograd.grad((p * s).sum(), (x, w), create_graph=True)
        return g, t.autograd.grad((g[0] * g[1]).sum(), (x, w))

    agree(run)


def test_any_number_of_arguments_and_one_leaf_twice():
    def run(t):
        x, w = leaf(t), leaf(t, 3.0, 4.0)
        f = function(t, lambda ctx, *a: tuple(v * 2 for v in a), lambda ctx, *g: tuple(v * 3 for v in g))
        return t.autograd.grad(sum(y.sum() for y in f.apply(x, w, x)), (x, w))

    agree(run)
    agree(lambda t: function(t, lambda ctx: t.ones(2), lambda ctx, g: ()).apply())


def test_a_gradient_that_serves_two_leaves_is_not_shared():
    def run(t):
        x, w, seed = leaf(t), leaf(t), t.ones(2)
        function(t, lambda ctx, a, b: a + b, lambda ctx, g: (g, g)).apply(x, w).backward(seed)
        x.grad.mul_(10)
        return w.grad, seed

    agree(run)


def test_modes_inside_and_around():
    def run(t, around):
        x, seen = leaf(t), []

        def forward(ctx, a):
            seen.append((t.is_grad_enabled(), a.requires_grad, ctx.needs_input_grad))
            with t.enable_grad():
                y = a * 2
                seen.append((y.requires_grad, y.grad_fn))
            return y

        def backward(ctx, g):
            seen.append((t.is_grad_enabled(), g.requires_grad))
            return g

        with around(t):
            y = function(t, forward, backward).apply(x)
        if y.requires_grad:
            t.autograd.grad(y.sum(), x)
            y = function(t, forward, backward).apply(x)
            t.autograd.grad(y.sum(), x, create_graph=True)
        return seen, facts(y)

    agree(lambda t: run(t, lambda t: t.enable_grad()))
    agree(lambda t: run(t, lambda t: t.no_grad()))


def test_grad_mode_does_not_leak():
    def run(t):
        def turn(ctx, a):
            t.set_grad_enabled(True)
            return a * 2

        def fail(ctx, a):
            raise ValueError("in forward")

        f = function(t, turn, turn)
        with t.no_grad():
            f.apply(leaf(t))
            inside = t.is_grad_enabled()
        f.apply(leaf(t)).sum().backward()
        return inside, t.is_grad_enabled(), attempt(lambda: function(t, fail).apply(leaf(t))), t.is_grad_enabled()

    agree(run)


def test_inference_mode():
    def run(t):
        with t.inference_mode():
            y = doubled(t).apply(leaf(t))
        return y.requires_grad, y.is_inference(), y

    def inside(t, forward):
        with t.inference_mode():
            made = t.ones(2)
        y = function(t, forward, lambda ctx, g, *h: (g, None)).apply(leaf(t), made)
        return y.requires_grad, y.is_inference(), y._is_view()

    agree(run)
    agree(lambda t: inside(t, lambda ctx, a, b: a * b))
    agree(lambda t: inside(t, lambda ctx, a, b: b))
    agree_error(
        lambda t: inside(t, lambda ctx, a, b: last(ctx.save_for_backward(b), a * b)),
        "Inference tensors cannot be saved for backward",
    )


def test_no_argument_requires_grad():
    agree(lambda t: facts(doubled(t).apply(t.ones(2))))
    agree(lambda t: facts(doubled(t).apply(t.ones(2, dtype=t.int64))))


def test_keyword_arguments():
    def run(t, *positions, **named):
        x, w = leaf(t), leaf(t, 3.0, 4.0)
        given, seen = {"x": x, "w": w}, []

        def forward(ctx, a, b=5, c=6):
            seen.append((b, c, ctx.needs_input_grad))
            return a * 2

        y = function(t, forward, lambda ctx, g: (g, None, None)).apply(
            *[given.get(p, p) for p in positions], **{k: given.get(v, v) for k, v in named.items()}
        )
        return y, seen, y.grad_fn.next_functions, t.autograd.grad(y.sum(), x)

    agree(lambda t: run(t, "x", b="w"))
    agree(lambda t: run(t, b=3, c="w", a="x"))
    agree(lambda t: run(t, "x", c="w", b=3))
    agree_error(lambda t: run(t, "x", c="w"), r"missing required argument: 'b' \(position 1\)")
    agree(lambda t: run(t, "x", "w", c=3))
    agree_error(lambda t: run(t, "x", d=3), "unexpected keyword argument 'd'")
    agree_error(lambda t: run(t, "x", a=3), "multiple values for argument 'a'")
    agree_error(lambda t: run(t, b=3), "missing required argument: 'a'")
    agree_error(lambda t: run(t), "missing 1 required positional argument: 'a'")
    agree_error(lambda t: function(t, lambda ctx, a, *, c=3: a).apply(leaf(t), c=1), "unexpected keyword argument 'c'")


def with_setup(t, setup=lambda ctx, inputs, output: None, forward=lambda a, b=5, c=6: a * 2):
    return function(t, forward, lambda ctx, g, *h: (g * 3, None, None), setup)


def test_setup_context_sees_all_arguments():
    def run(t, *args, **kwargs):
        seen = []

        def setup(ctx, inputs, output):
            seen.append((inputs, output, ctx.needs_input_grad, t.is_grad_enabled(), output.requires_grad))
            return "ignored"

        x = leaf(t)
        y = with_setup(t, setup).apply(*[x, *args] if "a" not in kwargs else args, **kwargs)
        return y, seen, type(seen[0][0]) is tuple

    agree(lambda t: run(t))
    agree(lambda t: run(t, 7))
    agree(lambda t: run(t, c=leaf(t)))
    agree(lambda t: run(t, c=leaf(t), a=leaf(t)))
    agree_error(lambda t: with_setup(t).apply(c=3), "missing a required argument: 'a'")
    agree_error(lambda t: with_setup(t).apply(leaf(t), 1, 2, 3), "too many positional arguments")
    agree_error(lambda t: with_setup(t).apply(leaf(t), e=3), "got an unexpected keyword argument 'e'")
    agree_error(lambda t: with_setup(t, lambda inputs, output: 0).apply(leaf(t)), "takes 2 positional .* 3 were given")
    agree_error(lambda t: with_setup(t, forward=lambda ctx, a: a).apply(leaf(t)), "missing a required argument: 'a'")


def test_setup_context_gets_the_very_objects():
    def run(t):
        x, same = leaf(t), []

        def setup(ctx, inputs, output):
            same.append((inputs[0] is x, output[1] is inputs[0], type(output)))
            ctx.save_for_backward(output[0])

        f = function(t, lambda a: (a * 2, a), lambda ctx, g, h: last(same.append(ctx.saved_tensors), g * 3 + h), setup)
        y, z = f.apply(x)
        return same, z is x, t.autograd.grad(y.sum() + z.sum(), x)

    agree(run)


def test_setup_context_must_not_save_an_input_that_is_returned():
    def run(t, forward=lambda a: a, x=None):
        f = function(t, forward, lambda ctx, g: g, lambda ctx, i, o: ctx.save_for_backward(*i))
        return f.apply(leaf(t) * 1 if x is None else x)

    agree_error(run, "returned as-is as output is being saved for backward.*view_as")
    agree_error(lambda t: run(t, x=t.ones(2)), "returned as-is as output is being saved for backward")
    agree(lambda t: run(t, lambda a: a.view_as(a)))


def test_missing_and_wrong_methods():
    agree_error(lambda t: function(t, None).apply(leaf(t)), "must implement the forward function")
    agree_error(lambda t: t.autograd.Function.apply(leaf(t)), "must implement the forward function")
    agree_error(
        lambda t: function(t, lambda ctx, a: a * 2).apply(leaf(t)).sum().backward(), "either the backward or vjp method"
    )
    agree_error(
        lambda t: function(t, lambda ctx, a: a * 2, lambda ctx, g: g, vjp=staticmethod(lambda ctx, g: g))
        .apply(leaf(t)).sum().backward(),
        "Implementing both 'backward' and 'vjp'",
    )  # fmt: skip
    agree_error(lambda t: function(t, lambda a: a, lambda ctx, g: g).apply(leaf(t)), "takes 1 positional argument")
    agree_error(lambda t: function(t, lambda ctx, a: a)()(leaf(t)), "Legacy autograd function with non-static forward")


def test_vjp_is_another_name_of_backward():
    def run(t):
        x = leaf(t)
        f = function(t, lambda ctx, a: a * 2, vjp=staticmethod(lambda ctx, g: g * 5))
        return t.autograd.grad(f.apply(x).sum(), x)

    agree(run)


def test_ways_to_define_one():
    def non_static(t):
        class Plain(t.autograd.Function):
            def forward(self, a):
                return a * 2

            def backward(self, g):
                return g * 3

        x = leaf(t)
        return t.autograd.grad(Plain.apply(x).sum(), x)

    def class_methods(t):
        class OfClass(t.autograd.Function):
            @classmethod
            def forward(cls, ctx, a):
                return a * 2

            @classmethod
            def backward(cls, ctx, g):
                return g * 3

        x = leaf(t)
        return t.autograd.grad(OfClass.apply(x).sum(), x)

    def inherited(t):
        class Base(t.autograd.Function):
            factor = 2

            @staticmethod
            def forward(ctx, a):
                return a * 2

            @staticmethod
            def backward(ctx, g):
                return g * 3

        class Derived2(Base):
            @staticmethod
            def backward(ctx, g):
                return Base.backward(ctx, g) * 10

        x = leaf(t)
        y = Derived2.apply(x)
        fn = y.grad_fn
        return fn.name(), fn._forward_cls is Derived2, hasattr(fn, "factor"), t.autograd.grad(y.sum(), x)

    def later(t):
        x, f = leaf(t), function(t, lambda ctx, a: a * 2)
        f.backward = staticmethod(lambda ctx, g: g * 7)
        return t.autograd.grad(f.apply(x).sum(), x)

    def attribute(t):
        class Holder:
            f = doubled(t).apply

        return Holder.f(leaf(t)), Holder().f(leaf(t))

    agree(non_static)
    agree(class_methods)
    agree(inherited)
    agree(later)
    agree(attribute)


@pytest.mark.parametrize("base", ["Function", "InplaceFunction", "NestedIOFunction"])
def test_instances_are_deprecated(base):
    def run(t):
        made = type("A", (getattr(t.autograd.function, base),), {})
        with pytest.warns(DeprecationWarning, match="should not be instantiated"):
            made()
        return [c.__name__ for c in made.__mro__ if c.__name__ in ("Function", "FunctionCtx", base)]

    agree(run)


def test_inplace_function():
    def run(t, inplace):
        class Double(t.autograd.function.InplaceFunction):
            @staticmethod
            def forward(ctx, a, inplace=False):
                ctx.inplace = inplace
                return last(ctx.mark_dirty(a), a.mul_(2)) if inplace else a * 2

            @staticmethod
            def backward(ctx, g):
                return g * 2, None

        x = leaf(t)
        y = x * 1
        z = Double.apply(y, inplace)
        return Double(True).inplace, z is y, t.autograd.grad(z.sum(), x)

    agree(lambda t: run(t, True))
    agree(lambda t: run(t, False))


def test_public_names():
    agree(lambda t: sorted(t.autograd.function.__all__))
    agree(lambda t: t.autograd.Function is t.autograd.function.Function)
    agree(lambda t: (t.autograd.Function.generate_vmap_rule, t.autograd.Function.clear_saved_tensors_on_access))
    agree(lambda t: (t.autograd.Function.boxed_grads_call, type(t.autograd.Function).__name__))
    agree_error(lambda t: t.autograd.Function.jvp(None), "must implement the jvp function")
    agree_error(lambda t: t.autograd.Function.vmap(None, None), "override the vmap staticmethod")


def test_boxed_gradients():
    def run(t):
        x, seen = leaf(t), []
        f = function(
            t, lambda ctx, a: (a * 2, a * 3), lambda ctx, g: last(seen.append(list(g)), g[0] * 4), boxed_grads_call=True
        )
        return t.autograd.grad(f.apply(x)[0].sum(), x), seen

    agree(run)


def test_meta_tensors():
    def run(t):
        a = t.ones(2, device="meta", requires_grad=True)
        y, _ = function(t, lambda ctx, a: (a * 2, a + 1), lambda ctx, g, h: g * 2 + h).apply(a)
        (g,) = t.autograd.grad(y.sum(), a)
        return g.device, g.shape, g.dtype

    agree(run)


def test_parameters_come_back_as_tensors():
    def run(t, forward):
        y = function(t, forward, lambda ctx, g: g).apply(t.nn.Parameter(t.ones(2)))
        return type(y).__name__, facts(y)

    agree(lambda t: run(t, lambda ctx, a: a * 2))
    agree(lambda t: run(t, lambda ctx, a: a))
