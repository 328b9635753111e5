"""torch.func: grad, vjp, Jacobians and what nests in them, compared with PyTorch."""

from __future__ import annotations

import importlib

import pytest
from both import agree, attempt
from story_kit import said


def point(t):
    return t.tensor([0.5, 1.0, 1.5], dtype=t.float64)


def points(t):
    return t.arange(6.0, dtype=t.float64).reshape(2, 3) / 4 + 0.1


def square(t):
    return t.arange(9.0, dtype=t.float64).reshape(3, 3) / 9


def wave(v):
    return (v.sin() * v.cos()).sum()


def layer(t):
    return lambda v: (v @ square(t)).tanh()


def mixed(v):
    """Changes in place of what the function made, through views."""
    y = v.clone()
    y.sin_()
    y[0] = y[1] * 2
    y[1:].mul_(v[:2])
    return y.sum()


def filled(t):
    """A function that writes into a tensor that it makes without its arguments."""

    def f(v):
        z = t.zeros(3, dtype=v.dtype)
        z[:2] = v[1:]
        z += v
        w = z.view(3, 1)
        w *= 2
        return (z * v).sum()

    return f


def branching(v):
    return (v * v).sum() if v.sum() > 0 else v.sum()


def squared_norm(g):
    """The gradient of the squared norm of the gradient."""
    return lambda f: g(lambda a: g(f)(a).pow(2).sum())


NESTED = {
    "grad": lambda F, t, f: F.grad(f)(point(t)),
    "grad of grad": lambda F, t, f: squared_norm(F.grad)(f)(point(t)),
    "third order": lambda F, t, f: F.grad(lambda a: squared_norm(F.grad)(f)(a).sum())(point(t)),
    "vmap of grad": lambda F, t, f: F.vmap(F.grad(f))(points(t)),
    "grad of vmap": lambda F, t, f: F.grad(lambda a: F.vmap(f)(a).sum())(points(t)),
    "jvp of grad": lambda F, t, f: F.jvp(F.grad(f), (point(t),), (point(t),)),
    "grad of jvp": lambda F, t, f: F.grad(lambda a: F.jvp(f, (a,), (a,))[1])(point(t)),
    "vmap of jvp of grad": lambda F, t, f: F.vmap(lambda a: F.jvp(F.grad(f), (a,), (a,)))(points(t)),
    "hessian": lambda F, t, f: F.hessian(f)(point(t)),
    "vmap of hessian": lambda F, t, f: F.vmap(F.hessian(f))(points(t)),
    "reverse over forward": lambda F, t, f: F.jacrev(F.jacfwd(f))(point(t)),
    "tape around": lambda F, t, f: around(F.grad(f), t),
    "tape around a hessian": lambda F, t, f: around(F.hessian(f), t),
    "tape around vmap": lambda F, t, f: around(F.vmap(F.grad(f)), t, points(t)),
}  # fmt: skip


def around(f, t, at=None):
    """The gradient, by the tape, of what a transformed function returns."""
    x = (point(t) if at is None else at).requires_grad_()
    y = f(x)
    return y, *t.autograd.grad(y.pow(2).sum(), x)


@pytest.mark.parametrize("nest", NESTED)
@pytest.mark.parametrize("make", [lambda t: wave, lambda t: mixed, lambda t: lambda v: layer(t)(v).sum()])
def test_transforms_nest(nest, make):
    agree(lambda t: NESTED[nest](t.func, t, make(t)))


@pytest.mark.parametrize("nest", [n for n in NESTED if "vmap" not in n])
def test_what_a_function_makes_can_be_written_into(nest):
    agree(lambda t: NESTED[nest](t.func, t, filled(t)))


@pytest.mark.parametrize("nest", [n for n in NESTED if "vmap" not in n and "jvp" not in n])
def test_python_may_branch_on_values(nest):
    agree(lambda t: NESTED[nest](t.func, t, branching))


@pytest.mark.parametrize("outer", ["jacrev", "jacfwd"])
@pytest.mark.parametrize("inner", ["jacrev", "jacfwd"])
def test_jacobians_of_jacobians(outer, inner):
    agree(lambda t: getattr(t.func, outer)(getattr(t.func, inner)(layer(t)))(point(t)))
    agree(lambda t: getattr(t.func, outer)(t.func.hessian(lambda v: layer(t)(v).sum()))(point(t)))


def test_what_a_function_closes_over_is_recorded_outside():
    def closes(t):
        x, o = point(t), point(t).requires_grad_()
        grads = [
            t.func.grad(lambda v: (v * v * o).sum())(x),
            t.func.vjp(lambda v: v * v * o, x)[1](x)[0],
            t.func.vjp(lambda v: v * v * o, x)[0],
            t.func.jacrev(lambda v: v * o)(x),
            t.func.grad(lambda v: filled(t)(v * o))(x),
            t.func.grad(lambda a: t.func.grad(lambda v: (v * a * o).prod())(a).sum())(x),
        ]
        return [t.autograd.grad(g.pow(2).sum(), o) for g in grads], [g.requires_grad for g in grads]

    agree(closes)


def test_grad_modes():
    def quiet(t, f):
        with t.no_grad():
            return f()

    def modes(t):
        F, x, o = t.func, point(t), point(t).requires_grad_()
        inner = F.grad(lambda v: (quiet(t, lambda: v * v) * v).sum())
        return [
            F.grad(lambda v: (v.detach() * v).sum())(o),
            said(lambda: t.autograd.grad(inner(o).sum(), o)),
            quiet(t, lambda: F.grad(wave)(o)),
            F.grad(lambda a: F.grad(lambda v: (quiet(t, lambda: v * 1) * v * v).sum())(a).sum())(x),
            F.grad(lambda a: F.grad(lambda v: (v.detach() * v * v).sum())(a).sum())(x),
            F.grad(lambda a: quiet(t, lambda: F.grad(wave)(a)).sum())(x),
            F.grad(lambda a: (F.grad(wave)(a.detach()) * a).sum())(x),
        ]

    agree(modes)


def test_arguments_are_changed_in_place_for_the_caller():
    def change(v, w):
        w.mul_(2)
        w[0] = 7
        return (v * w).sum()

    def changed(t):
        x, a, b, c, d = point(t), point(t), point(t), points(t), point(t)
        return (
            t.func.grad(change)(x, a), t.func.grad(change)(x[:2], b[1:]), t.vmap(t.func.grad(change))(points(t), c),
            t.func.grad(lambda v, w: t.func.grad(change)(v * v, w).sum())(x, d), a, b, c, d,
        )  # fmt: skip

    agree(changed)


@pytest.mark.parametrize("transform", ["grad", "jvp", "vjp"])
def test_captured_tensors_are_not_changed(transform):
    def refused(t):
        x, y = point(t), point(t)
        run = {
            "grad": lambda f: t.func.grad(f)(x),
            "jvp": lambda f: t.func.jvp(f, (x,), (x,)),
            "vjp": lambda f: t.func.vjp(f, x),
        }[transform]
        pattern = r"During a grad \(vjp, jvp, grad, etc\) transform, .* \(aten::\w+_(\.\w+)?\) that would mutate a cap"
        return [
            said(lambda: run(lambda v: (v * y.add_(1)).sum()), pattern),
            said(lambda: run(lambda v: (v * y[0].add_(1)).sum()), pattern),
            said(lambda: run(lambda v: y.copy_(v).sum()), pattern),
            y,
        ]

    agree(refused)


def test_a_leaf_is_not_changed_in_place():
    agree(lambda t: said(lambda: t.func.grad(lambda v: v.add_(1).sum())(point(t))))


def test_selection_by_values():
    def select(t):
        F, x = t.func, point(t)
        return [
            F.grad(lambda v: v[v > 0.7].sum())(x),
            F.grad(lambda v: (v[t.nonzero(v > 0.7).flatten()] ** 2).sum())(x),
            F.grad(lambda a: F.grad(lambda v: (v[v > 0.7] ** 3).sum())(a).sum())(x),
            F.grad(lambda a: F.grad(lambda v: (v ** a.sum().item()).sum())(a).sum())(x),
            F.grad(lambda v: v.sum() * len(v.tolist()) * float(v.sum()))(x),
        ]

    agree(select)


def test_views_and_memory_order():
    def views(t):
        F, x, w = t.func, point(t), square(t)
        seen = []
        for a in (w.t(), w[1:], w[:, 1], x.expand(2, 3)):
            F.grad(lambda v: seen.append((v.stride(), v.storage_offset(), v.is_contiguous())) or v.sum())(a)
        return [
            F.hessian(lambda v: (v.split(1)[0] * v.unbind()[2]).sum())(x),
            F.grad(lambda v: (v.expand(2, 3).t() @ points(t)).sum())(x),
            F.grad(lambda v: (v.t() * w).sum())(w.t()),
            seen,
        ]

    agree(views)


def test_complex_numbers():
    def f(t):
        z = point(t) + 1j * point(t)
        gradient = t.func.grad(lambda v: (v.conj() * v * 1j).imag.sum())
        second = t.func.vjp(t.func.grad(lambda v: (v * v * v.conj()).abs().sum()), z)[1](z)
        return gradient(z), second, said(lambda: t.func.jacrev(gradient)(z)), said(lambda: t.func.jacfwd(gradient)(z))

    agree(f)


def test_autograd_grad_inside():
    def inside(t):
        x, o = point(t), point(t).requires_grad_()
        return [
            t.func.grad(lambda v: t.autograd.grad((v**3).sum(), v, create_graph=True)[0].sum())(x),
            t.func.grad(lambda v: (t.autograd.grad((v**3).sum(), v)[0] * v).sum())(x),
            said(lambda: t.func.grad(lambda v: (t.autograd.grad((o**3).sum(), o)[0] * v).sum())(x)),
        ]

    agree(inside)


def test_hooks_inside():
    def hooked(t):
        seen = []

        def f(v):
            v.register_hook(lambda g: seen.append(g.tolist()) or g * 2)
            return (v * v).sum()

        return t.func.grad(f)(point(t)), seen

    agree(hooked)


def test_saved_tensor_hooks_are_refused():
    def refused(t):
        def inside(v):
            with t.autograd.graph.saved_tensors_hooks(lambda x: x, lambda x: x):
                return wave(v)

        with t.autograd.graph.saved_tensors_hooks(lambda x: x, lambda x: x):
            outside = said(lambda: t.func.grad(wave)(point(t)), "don't yet support saved tensor hooks")
        return outside, said(lambda: t.func.grad(inside)(point(t)), "don't yet support saved tensor hooks")

    agree(refused)


def test_what_escapes_is_what_it_stood_for():
    def escapes(t):
        kept, x, o = [], point(t), point(t).requires_grad_()

        def f(v):
            kept.append(v * 2)
            return (v * v).sum()

        t.func.grad(f)(o)
        first = kept[0] + 1, *t.autograd.grad((kept.pop() ** 2).sum(), o)
        t.func.vjp(f, x)
        second = kept.pop() * 1

        def nested(a):
            r = t.func.grad(f)(a)
            return (kept.pop() * r).sum()

        return first, second, t.func.grad(nested)(x)

    agree(escapes)


def test_printing():
    def printed(t):
        seen, x, o = [], t.tensor([1.0, 2.0]), t.tensor([1.0, 2.0], requires_grad=True)

        def f(v):
            seen.extend(map(str, (v, v * 2, t.ones(2), o * 2, o, v.detach())))
            seen.append((v.requires_grad, v.is_leaf, (v * 2).grad_fn.name(), (o * 2).requires_grad))
            return v.sum()

        t.func.grad(f)(x)
        t.func.grad(lambda a: t.func.grad(f)(a).sum())(x)
        t.vmap(t.func.grad(f))(t.ones(2, 2))
        kept = []
        t.func.grad(lambda v: kept.extend([v, v * 2]) or v.sum())(o)
        return seen, list(map(str, kept))

    agree(printed)


def test_no_memory_to_point_to():
    def refused(t):
        def asked(f, pattern):
            return said(lambda: t.func.grad(lambda v: f(v) or v.sum())(point(t)), pattern)

        pointer = "Cannot access data pointer of Tensor that doesn't have storage"
        return [
            asked(lambda v: v.detach().numpy(), pointer),
            asked(lambda v: v.data_ptr(), pointer),
            asked(lambda v: v.untyped_storage(), "Cannot access storage of TensorWrapper"),
            asked(lambda v: v.sum().backward(), "backward.. called inside a functorch transform"),
            asked(lambda v: t.ones(2).requires_grad_(), r"You are attempting to call Tensor.requires_grad_\(\)"),
        ]

    agree(refused)


# -- custom functions ---------------------------------------------------------------------------------


def functions(t):
    """Two custom Functions: one with a generated rule for vmap, one with its own and a Function in its backward."""

    class Square(t.autograd.Function):
        generate_vmap_rule = True

        @staticmethod
        def forward(x):
            return x * x, x * 3

        @staticmethod
        def setup_context(ctx, inputs, output):
            ctx.save_for_backward(inputs[0], output[0])
            ctx.mark_non_differentiable(output[1])

        @staticmethod
        def backward(ctx, g, _):
            x, y = ctx.saved_tensors
            return 2 * x * g + 0 * y

    class Product(t.autograd.Function):
        generate_vmap_rule = True

        @staticmethod
        def forward(a, b):
            return a * b

        @staticmethod
        def setup_context(ctx, inputs, output):
            ctx.save_for_backward(*inputs)

        @staticmethod
        def backward(ctx, g):
            a, b = ctx.saved_tensors
            return g * b, g * a

    class Exp(t.autograd.Function):
        @staticmethod
        def forward(x):
            return x.exp()

        @staticmethod
        def setup_context(ctx, inputs, output):
            ctx.save_for_backward(output)

        @staticmethod
        def backward(ctx, g):
            return Product.apply(g, *ctx.saved_tensors)

        @staticmethod
        def vmap(info, in_dims, x):
            return Exp.apply(x), in_dims[0]

    return lambda v: Square.apply(v.sin())[0].sum(), lambda v: Exp.apply(v * 2).sum()


@pytest.mark.parametrize("which", [0, 1])
@pytest.mark.parametrize("nest", [n for n in NESTED if "jvp" not in n and "hessian" not in n and "forward" not in n])
def test_custom_functions(which, nest):
    agree(lambda t: NESTED[nest](t.func, t, functions(t)[which]))


@pytest.mark.parametrize("which", [0, 1])
def test_jacobian_of_the_gradient_of_a_custom_function(which):
    agree(lambda t: t.func.jacrev(t.func.grad(functions(t)[which]))(point(t)))


def test_a_custom_function_that_changes_its_argument():
    def dirty(t):
        class Double(t.autograd.Function):
            @staticmethod
            def forward(x):
                x.mul_(2)
                return x

            @staticmethod
            def setup_context(ctx, inputs, output):
                ctx.mark_dirty(inputs[0])

            @staticmethod
            def backward(ctx, g):
                return 2 * g

        f = lambda v: Double.apply(v.clone()).pow(3).sum()  # noqa: E731
        return t.func.grad(f)(point(t)), t.func.grad(lambda a: t.func.grad(f)(a).sum())(point(t))

    agree(dirty)


# -- models -------------------------------------------------------------------------------------------


def model(t):
    """(loss of parameters and inputs, parameters) of a small network."""
    net = t.nn.Sequential(t.nn.Linear(3, 4), t.nn.Tanh(), t.nn.Linear(4, 1)).double()
    params = {
        name: t.linspace(-1, 1, p.numel(), dtype=t.float64).reshape(p.shape) for name, p in net.named_parameters()
    }
    return lambda p, a: t.func.functional_call(net, p, (a,)).pow(2).sum(), params


def test_per_sample_gradients():
    def each(t):
        loss, params = model(t)
        return t.vmap(t.func.grad(loss), in_dims=(None, 0))(params, points(t))

    agree(each)


def test_a_step_of_a_step():
    def maml(t):
        loss, params = model(t)

        def adapted(p):
            return {
                k: v - 0.1 * g for (k, v), g in zip(p.items(), t.func.grad(loss)(p, points(t)).values(), strict=True)
            }

        return t.func.grad_and_value(lambda p: loss(adapted(p), points(t)))(params)

    agree(maml)


def test_products_with_a_hessian():
    def products(t):
        loss, params = model(t)
        gradient = t.func.grad(lambda p: loss(p, points(t)))
        whole = t.func.hessian(lambda p: loss(p, points(t)))(params)
        return (
            t.func.jvp(gradient, (params,), (params,))[1], t.func.vjp(gradient, params)[1](params),
            t.func.linearize(gradient, params)[1](params), whole["0.bias"]["2.weight"],
        )  # fmt: skip

    agree(products)


def test_ensembles():
    def ensemble(t):
        nets = [t.nn.Linear(3, 2).double() for _ in range(3)]
        for i, net in enumerate(nets):
            for p in net.parameters():
                p.data.fill_(i + 1.0)
        params, buffers = t.func.stack_module_state(nets)

        def run(p, b, a):
            return t.func.functional_call(nets[0], (p, b), (a,))

        out = t.vmap(run, in_dims=(0, 0, None))(params, buffers, points(t))
        out.sum().backward()
        return out, {k: (v.grad, v.is_leaf) for k, v in params.items()}

    agree(ensemble)


def test_stacked_state_is_checked():
    def refused(t):
        stack, nn = t.func.stack_module_state, t.nn
        return [
            said(lambda models=models: stack(models))
            for models in (
                [], [nn.Linear(2, 2), nn.Tanh()], [nn.Linear(2, 2), nn.Linear(2, 2).eval()],
                [nn.Linear(2, 2), nn.Linear(2, 2).requires_grad_(False)],
            )
        ]  # fmt: skip

    agree(refused)


@pytest.mark.parametrize("where", ["inside", "outside"])
def test_autocast(where):
    def cast(t):
        def f(v):
            return (v @ square(t).float()).float().pow(2).sum()

        def inside(v):
            with t.autocast("cpu", dtype=t.bfloat16):
                return f(v)

        if where == "inside":
            return t.func.grad(inside)(point(t).float())
        with t.autocast("cpu", dtype=t.bfloat16):
            return t.func.grad(f)(point(t).float())

    agree(cast)


def test_randomness():
    def draws(t):
        f = lambda v: (v * t.ones(3, dtype=v.dtype).bernoulli(1.0)).sum()  # noqa: E731
        return [
            t.vmap(t.func.grad(f), randomness="different")(points(t)),
            said(lambda: t.vmap(t.func.grad(f))(points(t)), "called random operation while in randomness error mode"),
            t.func.jacfwd(lambda v: f(v) * v, randomness="same")(point(t)),
            said(lambda: t.func.jacfwd(lambda v: f(v) * v)(point(t)), "called random operation"),
        ]

    agree(draws)


def test_running_statistics_among_the_arguments():
    def normed(t):
        net = t.nn.BatchNorm1d(3).double()
        params = {k: v.detach() for k, v in net.named_parameters()}
        buffers = {k: v.clone() for k, v in net.named_buffers()}
        mean, variance = t.zeros(3, dtype=t.float64), t.ones(3, dtype=t.float64)

        def loss(p, b):
            return (t.func.functional_call(net, (p, b), (points(t) ** 2,)) * points(t).exp()).pow(3).sum(), b

        def direct(v, m, s):
            return (t.nn.functional.batch_norm(v**2, m, s, training=True) * v.exp()).pow(3).sum()

        first = t.func.grad(loss, has_aux=True)(params, buffers)
        second = t.func.grad(lambda a, m, s: t.func.grad(direct)(a, m, s).pow(2).sum())(points(t), mean, variance)
        return first, buffers, second, mean, variance

    agree(normed)


def test_what_tensors_of_a_transform_cannot_do():
    def refused(t):
        def asked(f, pattern):
            return said(lambda: t.func.grad(lambda v: f(v) or v.sum())(point(t)), pattern)

        return [
            asked(lambda v: (v * 2).retain_grad(), r"You are attempting to call Tensor.retain_grad\(\)"),
            asked(lambda v: setattr(v.clone().detach(), "data", v), "mutating directly with `.data` inside functorch"),
            t.func.grad(wave)(point(t).to("meta")).is_meta,
        ]

    agree(refused)


def write_into(t, x, y):
    y.copy_(x * x)
    return y


@pytest.mark.parametrize("jacobian", ["jacfwd", "jacrev"])
@pytest.mark.parametrize("argnums", [0, 1])
def test_jacobians_of_what_writes_into_another_argument(jacobian, argnums):
    def f(t):
        x, y = t.tensor([1.0, 2.0]), t.zeros(2)
        out = attempt(lambda: getattr(t.func, jacobian)(lambda x, y: write_into(t, x, y), argnums)(x, y))
        inside = getattr(t.func, jacobian)(lambda x, d: write_into(t, x, d["y"]))(x, {"y": t.zeros(2)})
        return out, y, inside

    agree(f)


def test_second_derivatives_of_each_example_through_views():
    def loss(weight, x):
        return ((x - (weight @ x.T).T) ** 2).sum()

    def f(t):
        weight, x = t.arange(8.0).reshape(2, 2, 2) / 10, t.arange(12.0).reshape(2, 3, 2)
        both = t.func.jacrev(t.func.jacrev(loss)), t.func.hessian(loss)
        return [t.vmap(h)(weight, x).round(decimals=4) + 0.0 for h in both]

    agree(f)


WEIGHTED = {
    "grad": lambda f, t: t.func.grad(f, (0, 1, 2)),
    "hessian": lambda f, t: t.func.hessian(f, (1, 2)),
    "forward": lambda f, t: t.func.jacfwd(f, (0, 1, 2)),
    "each": lambda f, t: t.func.vmap(t.func.grad(f, (1, 2)), (None, None, 0)),
}


@pytest.mark.parametrize("reduction", ["mean", "none"])
@pytest.mark.parametrize("how", WEIGHTED)
def test_weights_of_logits_have_gradients_within_transforms(how, reduction):
    def script(t):
        def loss(x, weight, positive):
            return t.nn.functional.binary_cross_entropy_with_logits(
                x, point(t) / 2, weight, pos_weight=positive, reduction=reduction
            ).sum()

        third = point(t).expand(2, 3) if how == "each" else point(t) * 2
        return WEIGHTED[how](loss, t)(point(t).neg(), point(t), third)

    agree(script)


def test_linearize_of_a_checkpointed_function():
    def script(t):
        checkpoint = importlib.import_module(f"{t.__name__}.utils.checkpoint").checkpoint

        def f(v):
            with t.autograd.graph.saved_tensors_hooks(lambda x: x * 0, lambda x: x):
                u = v.cos()
            return checkpoint(lambda v: v.sin() * v, v, use_reentrant=False) * u

        out, push = t.func.linearize(f, point(t))
        inner = said(lambda: t.func.grad(lambda v: t.func.linearize(f, v)[0].sum())(point(t)), "saved tensor hooks")
        return out, push(point(t)), inner

    agree(script)
