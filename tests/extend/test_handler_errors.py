"""Wrong handlers, results of handlers, and arguments of ``torch.ops`` calls: the errors are PyTorch's."""

import pytest
from both import agree, agree_error
from dispatch_kit import dispatch

TENSOR = "Unable to cast .* to Tensor"


def answering(t, name, value):
    """A dispatch mode that answers the operator ``name`` with ``value``."""

    def handle(self, func, types, args=(), kwargs=None):
        return value if name in str(func) else func(*args, **(kwargs or {}))

    return type("Answering", (dispatch(t).TorchDispatchMode,), {"__torch_dispatch__": handle})()


def run_under(name, make, call):
    def run(t):
        x = t.ones(2, 2)
        value = make(t)
        with answering(t, name, value):
            return call(t, x)

    return run


PRODUCT = lambda t, x: x * 2  # noqa: E731
MAX = lambda t, x: tuple(t.max(x, 0))  # noqa: E731


@pytest.mark.parametrize(
    "name, make, call, match",
    [
        ("mul", lambda t: 3, PRODUCT, TENSOR),
        ("mul", lambda t: (t.zeros(2),), PRODUCT, TENSOR),
        ("mul", lambda t: "ab", PRODUCT, TENSOR),
        ("mul", lambda t: 3, lambda t, x: x.requires_grad_() * 2, TENSOR),
        ("mul_", lambda t: 3, lambda t, x: x.mul_(2), TENSOR),
        ("view", lambda t: [t.zeros(4)], lambda t, x: x.view(4), TENSOR),
        ("add.out", lambda t: 3, lambda t, x: t.add(x, 1, out=t.ones(2, 2)), TENSOR),
        ("max", lambda t: 3, MAX, "is not an instance of 'sequence'"),
        ("max", lambda t: None, MAX, "is not an instance of 'sequence'"),
        ("max", lambda t: t.zeros(2), MAX, "is not an instance of 'sequence'"),
        ("max", lambda t: (t.zeros(2), 3), MAX, TENSOR),
        ("split", lambda t: t.zeros(2), lambda t, x: x.split(1), "Unable to cast"),
        ("split", lambda t: [t.zeros(2), 3], lambda t, x: x.split(1), "Unable to cast"),
        ("_local_scalar", lambda t: t.zeros(2), lambda t, x: x.sum().item(), "Cannot cast .* to number"),
        ("_local_scalar", lambda t: None, lambda t, x: x.sum().item(), "Cannot cast .* to number"),
    ],
)
def test_results_of_another_kind(name, make, call, match):
    agree_error(run_under(name, make, call), match)


@pytest.mark.parametrize(
    "name, make, call",
    [
        ("mul", lambda t: None, PRODUCT),
        ("mul", lambda t: t.zeros(3), PRODUCT),
        ("max", lambda t: [t.zeros(2), t.zeros(2)], MAX),
        ("max", lambda t: (None, None), MAX),
        ("mul_", lambda t: None, lambda t, x: x.mul_(2)),
        ("_local_scalar", lambda t: 3, lambda t, x: x.sum().item()),
    ],
)
def test_results_that_are_taken(name, make, call):
    agree(run_under(name, make, call))


@pytest.mark.parametrize("wrap", [classmethod, staticmethod], ids=["classmethod", "staticmethod"])
def test_function_modes_whose_handler_is_no_method(wrap):
    def run(t):
        handler = wrap(lambda *args, **kwargs: 3)
        with type("Mode", (t.overrides.TorchFunctionMode,), {"__torch_function__": handler})():
            t.ones(1)

    agree_error(run, "Defining your mode's `__torch_function__` as a classmethod is not supported")


def wrapper_without(t, *names):
    """A wrapper subclass that answers None to the operators of ``names``."""

    class Wrapper(t.Tensor):
        @staticmethod
        def __new__(cls, inner):
            new = t.Tensor._make_wrapper_subclass(cls, inner.shape, dtype=inner.dtype)
            new.inner = inner
            return new

        @classmethod
        def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
            out = func(*[x.inner if isinstance(x, cls) else x for x in args], **(kwargs or {}))
            return None if func.overloadpacket.__name__ in names else cls(out) if isinstance(out, t.Tensor) else out

    return Wrapper(t.ones(2) / 2).requires_grad_()


def test_recorded_calls_may_give_none():
    agree(lambda t: (wrapper_without(t, "mul") * 2, (wrapper_without(t, "add") * 2) + 1))


@pytest.mark.parametrize("name", ["mul", "expand"])
def test_gradients_may_be_none(name):
    def run(t):
        x = wrapper_without(t, name)
        x.exp().sum().backward()
        return x.grad

    agree(run)


@pytest.mark.parametrize(
    "name, match",
    [
        ("neg", "Expected a proper Tensor but got None"),
        ("add", "Expected a proper Tensor but got None"),
        ("ones_like", "element 0 of gradients tuple is None, but the corresponding Tensor requires grad"),
    ],
)
def test_none_within_a_backward(name, match):
    agree_error(lambda t: wrapper_without(t, name).acos().sum().backward(), match)


def test_none_in_place_of_a_saved_result():
    agree_error(lambda t: wrapper_without(t, "detach").exp(), "detach returned invalid type NoneType, expected Tensor")


def test_dispatch_modes_whose_handler_is_a_classmethod():
    def run(t):
        handler = classmethod(lambda cls, func, types, args=(), kwargs=None: func(*args, **kwargs))
        with type("Mode", (dispatch(t).TorchDispatchMode,), {"__torch_dispatch__": handler})():
            t.ones(1)

    agree_error(run, "Defining your mode's `__torch_dispatch__` as a classmethod is not supported")


@pytest.mark.parametrize(
    "code, match",
    [
        (
            "add.Tensor(a)",
            r"aten::add\(\) is missing value for argument 'other'. Declaration: aten::add.Tensor\(Tensor",
        ),
        ("add.Tensor()", "is missing value for argument 'self'"),
        ("add.Tensor(a, 1, 2, 3)", "expected at most 3 argument\\(s\\) but received 4 argument"),
        ("add.Tensor('a', 1)", "Expected a value of type 'Tensor' for argument 'self' but instead found type 'str'"),
        ("add.Tensor(a, 'b')", "for argument 'other' but instead found type 'str'.\\s+Position: 1\\s+Value: 'b'"),
        ("add.Tensor(a, 1, nope=2)", "Unknown keyword argument 'nope' for operator 'aten::add'"),
        ("add.Tensor(a, other=1, self=a)", "Argument 'self' specified both as positional and keyword argument"),
        ("add.Tensor(a, 1, alpha='b')", "Expected a value of type 'number' for argument 'alpha'"),
        ("view.default(a, [1.5])", r"Expected a value of type 'List\[int\]' for argument 'size'"),
        ("cat.default([a, 3])", r"Expected a value of type 'List\[Tensor\]' for argument 'tensors'"),
        ("sum.default(a, a)", r"aten::sum\(\) takes 1 positional argument\(s\) but 2 was/were given"),
        ("relu.default(3)", "for argument 'self' but instead found type 'int'"),
        ("max.dim(a, dim='x')", "Expected a value of type 'int' for argument 'dim'"),
        ("gelu.default(a, approximate=3)", "Expected a value of type 'str' for argument 'approximate'"),
        ("add('a', 1)", "failed to match any schema:.*Expected a value of type 'Tensor' for argument 'self'"),
        ("add(a)", "failed to match any schema:.*is missing value for argument 'other'"),
        ("add(a, 1, nope=3)", "failed to match any schema:.*Unknown keyword argument 'nope'"),
        ("nope.default(1)", "'_OpNamespace' 'aten' object has no attribute 'nope'"),
        ("add.nope(a, 1)", "has no overload name 'nope'"),
        ("mm.default(a, t.ones(3, 3))", "mat1 and mat2 shapes cannot be multiplied"),
    ],
)
def test_arguments_of_operators(code, match):
    names = lambda t: {"t": t, "a": t.ones(2, 2), "aten": t.ops.aten}  # noqa: E731
    agree_error(lambda t: eval(f"aten.{code}", names(t)), match.replace(". Declaration", r".\s+Declaration"))
