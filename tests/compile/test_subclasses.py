"""Compiled functions over subclasses of Tensor and modes: their handlers are part of the program."""

import pytest
from both import agree

import torchlike


def compiled(t, f):
    return torchlike.compile(f, fullgraph=True) if t is torchlike else f


def doubling(t):
    """A subclass whose additions give twice as much, as its global says."""

    class Doubling(t.Tensor):
        factor = 2

        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            out = super().__torch_function__(func, types, args, kwargs or {})
            return out * cls.factor if func in (t.add, t.Tensor.add) else out

    return Doubling


def wrapper(t):
    """A wrapper subclass that computes with what it wraps, scaled."""

    class Scaled(t.Tensor):
        seen = ()

        @staticmethod
        def __new__(cls, held, scale):
            return t.Tensor._make_wrapper_subclass(cls, held.shape, dtype=held.dtype, strides=held.stride())

        def __init__(self, held, scale):
            self.held, self.scale = held, scale

        def __tensor_flatten__(self):
            return ["held"], [self.scale]

        @classmethod
        def __tensor_unflatten__(cls, tensors, context, size, stride):
            return cls(tensors["held"], *context)

        @classmethod
        def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
            plain = [a.held * a.scale if isinstance(a, Scaled) else a for a in args]
            out = func(*plain, **(kwargs or {}))
            return Scaled(out, 1.0) if func in (t.ops.aten.mul.Tensor, t.ops.aten.detach.default) else out

    return Scaled


def plain(t, x):
    """What is compared: the class, what it wraps."""
    if hasattr(x, "held"):
        return type(x).__name__, plain(t, x.held), x.scale
    return type(x).__name__, x.as_subclass(t.Tensor)


def numbers(t, n=6):
    return t.arange(float(n)).view(2, -1)


def test_a_handler_is_part_of_the_program():
    def story(t):
        f = compiled(t, lambda x: t.add(x, 1).sum(0) - x.add(x))
        x = numbers(t).as_subclass(doubling(t))
        return [plain(t, f(x + i)) for i in range(3)]

    agree(story)


def test_what_a_handler_reads_is_guarded():
    def story(t):
        cls = doubling(t)
        f, x, got = compiled(t, lambda x: t.add(x, 1)), numbers(t).as_subclass(cls), []
        for factor in (2, 2, 5, 7):
            cls.factor = factor
            got.append(plain(t, f(x)))
        cls.__torch_function__ = classmethod(lambda cls, func, types, args=(), kwargs=None: "replaced")
        return [*got, f(x)]

    agree(story)


def test_without_the_handlers():
    def story(t):
        def f(x):
            with t._C.DisableTorchFunctionSubclass():
                y = t.add(x, 1)
            return t.add(y, x)

        x = numbers(t).as_subclass(doubling(t))
        return [plain(t, compiled(t, f)(x)) for _ in range(2)]

    agree(story)


def test_a_parameter_with_a_handler():
    def story(t):
        t.manual_seed(0)
        m = t.nn.Linear(3, 2)
        m.weight = t.nn.Parameter(m.weight.detach().as_subclass(doubling(t)))
        m.bias.data.fill_(0.25)

        def step(x):
            loss = t.add(m.weight, 1).square().mean() + m(x).mean()
            loss.backward()
            return loss.detach()

        run = compiled(t, step)
        got = [run(numbers(t)) for _ in range(3)]
        return got, type(m.weight.grad).__name__, plain(t, m.weight.grad)[1], m.bias.grad

    agree(story)


@pytest.mark.parametrize("kind", ["TorchFunctionMode", "TorchDispatchMode"])
def test_a_mode_inside(kind):
    def story(t):
        base = t.overrides.TorchFunctionMode
        name, product = "__torch_function__", t.mul
        if kind == "TorchDispatchMode":
            from_utils = t.utils._python_dispatch
            base, name, product = from_utils.TorchDispatchMode, "__torch_dispatch__", t.ops.aten.mul.Tensor
        calls = []

        def handler(self, func, types, args=(), kwargs=None):
            calls.append(func is product)
            out = func(*args, **(kwargs or {}))
            return out * 3 if func is product else out

        mode = type("Mode", (base,), {name: handler})

        def f(x):
            with mode():
                y = t.mul(x, 2)
            return y + t.mul(x, 2)

        run = compiled(t, f)
        return [run(numbers(t)) for _ in range(3)], calls

    agree(story)


def test_wrappers_as_arguments_and_results():
    def story(t):
        cls = wrapper(t)
        run = compiled(t, lambda x, others: {"product": x * others[0], "sum": [x + others[1]], "same": x})
        got = []
        for shape, scale in (((2, 3), 2.0), ((2, 3), 2.0), ((2, 3), 3.0), ((3, 2), 3.0)):
            x = cls(numbers(t).view(shape), scale)
            out = run(x, (cls(t.ones(shape), 0.5), t.ones(shape)))
            got.append((plain(t, out["product"]), plain(t, out["sum"][0]), out["same"] is x))
        return got

    agree(story)


def test_a_wrapper_from_outside():
    def story(t):
        w = wrapper(t)(numbers(t), 2.0)
        run = compiled(t, lambda x: x @ w)
        first = run(t.ones(2, 2))
        w.held.add_(1)
        second = run(t.ones(2, 2))
        w.scale = 5.0
        return first, second, run(t.ones(2, 2)), plain(t, compiled(t, lambda: w)())

    agree(story)


def test_a_wrapper_that_is_changed():
    def story(t):
        w, other = (wrapper(t)(numbers(t), 2.0) for _ in range(2))

        def f(x, replace):
            x.held.mul_(2)
            x.scale = x.scale + 1
            if replace:
                x.held = x.held - 1
            return x + 0

        run = compiled(t, f)
        return [(run(w, False), plain(t, w), run(other, True), plain(t, other)) for _ in range(3)]

    agree(story)


def test_wrappers_within_wrappers():
    def story(t):
        cls = wrapper(t)
        run = compiled(t, lambda x: x * 2)
        return [plain(t, run(cls(cls(numbers(t), 2.0), 3.0))) for _ in range(2)]

    agree(story)


def test_one_wrapper_twice():
    def story(t):
        cls = wrapper(t)
        run = compiled(t, lambda x, y: (x is y, x + y))
        x, y = cls(numbers(t), 2.0), cls(numbers(t), 3.0)
        return [run(*pair) for pair in ((x, x), (x, y), (y, y))]

    agree(story)


def test_gradients_while_a_wrapper_lives():
    def story(t):
        w = wrapper(t)(t.ones(3), 2.0)
        x = numbers(t).requires_grad_()
        run = compiled(t, lambda x: (x * x).sum(1))
        run(x).sum().backward()
        return x.grad, w.scale

    agree(story)


def test_a_wrapper_with_a_history_ends_the_program():
    m = torchlike.nn.Linear(3, 2)
    m.weight = torchlike.nn.Parameter(wrapper(torchlike)(m.weight.detach(), 2.0))
    x = numbers(torchlike)
    with pytest.raises(torchlike._dynamo.exc.Unsupported, match="subclass of Tensor that requires grad"):
        torchlike.compile(lambda: m.weight * 2, fullgraph=True)()
    assert torchlike.equal(torchlike.compile(m)(x), m(x))


def float8(t):
    """Linear layers that compute in float8: a function makes wrappers with a history, which the program keeps."""
    aten = t.ops.aten

    class Float8(t.Tensor):
        __torch_function__ = t._C._disabled_torch_function_impl

        @staticmethod
        def __new__(cls, data, scale):
            return t.Tensor._make_wrapper_subclass(cls, data.shape, strides=data.stride(), dtype=scale.dtype)

        def __init__(self, data, scale):
            self.codes, self.scale = data, scale

        def __tensor_flatten__(self):
            return ["codes", "scale"], None

        @classmethod
        def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
            if func in (aten.t.default, aten.detach.default):
                return Float8(func(args[0].codes), args[0].scale)
            return func(*[x.codes.to(x.dtype) / x.scale if isinstance(x, Float8) else x for x in args])

    class ToFloat8(t.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            scale = 448 / x.abs().max()
            return Float8((x * scale).to(t.float8_e4m3fn), scale)

        @staticmethod
        def backward(ctx, grad):
            return grad

    class Linear(t.nn.Linear):
        def forward(self, x):
            return t.nn.functional.linear(ToFloat8.apply(x), ToFloat8.apply(self.weight), self.bias)

    return Linear


def test_training_in_float8():
    def story(t):
        t.manual_seed(0)
        m = float8(t)(6, 3)
        optimizer = t.optim.SGD(m.parameters(), 0.1)

        def step(x):
            loss = (m(x) - 1).square().mean()
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
            return loss.detach()

        x = t.randn(4, 6)
        losses = [compiled(t, step)(x) for _ in range(3)]
        compiled(t, m)(x).sum().backward()
        return losses, m.weight.grad

    agree(story)
