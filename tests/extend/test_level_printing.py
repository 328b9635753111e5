"""How tensors print inside of function transforms, and what torch._C._functorch says of them, compared with PyTorch."""

import pytest
from both import agree
from story_kit import said

import torchlike


def jvp_(t, f, *xs):
    return t.func.jvp(f, xs, xs)


def looking(t, told, *outside):
    """A function that notes how its argument prints, and what is made of it and of tensors outside."""

    def f(x, *more):
        told.extend(map(repr, (x, *outside, *[y * 1 for y in outside], x * 2, x > 0, x[..., None], t.ones(1), *more)))
        return x * 1

    return f


NESTED = {
    "functionalize": lambda t, f, x: t.func.functionalize(f)(x),
    "functionalize, recorded": lambda t, f, x: t.func.functionalize(f)(x.requires_grad_().sum()),
    "vmap of functionalize": lambda t, f, x: t.vmap(t.func.functionalize(f))(x),
    "functionalize of vmap": lambda t, f, x: t.func.functionalize(t.vmap(f))(x),
    "grad of functionalize": lambda t, f, x: t.func.grad(t.func.functionalize(lambda v: f(v).sum()))(x),
    "functionalize of grad": lambda t, f, x: t.func.functionalize(t.func.grad(lambda v: f(v).sum()))(x),
    "functionalize of jvp": lambda t, f, x: t.func.functionalize(lambda v: jvp_(t, f, v))(x),
    "vmap in jvp": lambda t, f, x: jvp_(t, t.vmap(f), x),
    "jvp in vmap": lambda t, f, x: t.vmap(lambda v: jvp_(t, f, v))(x),
    "outer tensors in vmap": lambda t, f, x: jvp_(t, lambda v: t.vmap(lambda w: f(w, v))(v), x),
    "outer tensors in grad": lambda t, f, x: t.func.functionalize(lambda v: t.func.grad(lambda w: f(w, v).sum())(v))(x),
    "jvp of jvp": lambda t, f, x: jvp_(t, lambda v: jvp_(t, lambda w: f(w, v), v), x),
    "jacfwd": lambda t, f, x: t.func.jacfwd(f)(x),
    "hessian": lambda t, f, x: t.func.hessian(lambda v: f(v).sum())(x),
}


@pytest.mark.parametrize("name", NESTED)
def test_tensors_of_a_level(name):
    def program(t):
        told = []
        outside = t.tensor([3.0, 4.0])
        NESTED[name](t, looking(t, told, outside), t.tensor([1.0, 2.0]))
        return told

    agree(program)


@pytest.mark.parametrize("outer", ["grad", "functionalize"])
def test_parameters_that_are_made_inside(outer):
    def program(t):
        told, Parameter = [], t.nn.Parameter
        f = lambda x: told.extend([repr(Parameter(x * 1, requires_grad=False)), f"{x.sum():.2f}"]) or x.sum()  # noqa: E731
        getattr(t.func, outer)(f)(t.tensor([1.0, 2.0]))
        return told

    agree(program)


def test_a_dual_level_is_not_counted():
    def program(t):
        told, fwAD = [], t.autograd.forward_ad
        with fwAD.dual_level():
            x = fwAD.make_dual(t.ones(2), t.ones(2))
            told += [repr(x), t._C._functorch.maybe_current_level()]
            t.vmap(lambda v: told.append(repr(v)) or v)(x)
            t.func.grad(lambda v: told.append(repr(v)) or v.sum())(x)
        return told

    agree(program)


def test_questions_to_tensors_of_functionalize():
    def asked(t, x):
        C = t._C._functorch
        return (
            C.is_functionaltensor(x), C.is_functorch_wrapped_tensor(x), C.is_gradtrackingtensor(x),
            C.is_batchedtensor(x), C.maybe_get_level(x), C.dlevel(x), C.maybe_get_bdim(x), C.current_level(),
            C.is_dead_tensor_wrapper(x),
        )  # fmt: skip

    def program(t):
        told, outside, given = [], t.ones(2), t.zeros(2)
        ask = lambda x: told.extend([asked(t, y) for y in (x, x + 1, outside, t.ones(1))]) or x * 1  # noqa: E731
        t.func.functionalize(ask)(given)
        t.func.functionalize(t.vmap(ask))(given)
        t.vmap(t.func.functionalize(ask))(given)
        look = lambda x: told.extend([repr(t.func.debug_unwrap(y)) for y in (x, x + 1, t.ones(1))]) or x * 1  # noqa: E731
        t.func.functionalize(look)(given)
        for outer in (t.vmap, t.func.jacfwd, t.func.jacrev):
            outer(look)(given)
            t.func.functionalize(outer(look))(given)
        return told

    agree(program)


def test_levels_of_functionalize_by_calls():
    def program(t):
        C, told, x = t._C._functorch, [], t.ones(2)
        level = C._func_increment_nesting(True)
        try:
            wrapped = C._wrap_functional_tensor(x, level)
            told += [level, repr(wrapped), repr(C._unwrap_functional_tensor(wrapped + 1, True))]
            C._assert_wrapped_functional(x, wrapped)
            wrapped.add_(1)
            C._propagate_functional_input_mutation(x, wrapped)
        finally:
            told.append(C._func_decrement_nesting())
        return told, x

    agree(program)


@pytest.mark.parametrize(
    "f",
    [
        lambda t, y: lambda x: y.add_(x),
        lambda t, y: lambda x: t.ones(2).requires_grad_(),
        lambda t, y: lambda x: (x * 1).sum().backward(),
        lambda t, y: lambda x: t.vmap(lambda v: y.add_(v))(x),
    ],
)
def test_what_functionalize_refuses(f):
    def program(t):
        return said(lambda: t.func.functionalize(f(t, t.zeros(2)))(t.ones(2)), "^")

    agree(program)


def test_what_functionalize_may_change():
    def program(t):
        outside, x = t.zeros(2), t.ones(2)

        def f(v):
            outside.add_(1)
            outside[0].mul_(3)
            return v[0].add_(v[1])

        return t.func.functionalize(f)(x), x, outside

    agree(program)


class Triple(torchlike.autograd.Function):
    @staticmethod
    def forward(x):
        return x * 3

    @staticmethod
    def setup_context(ctx, inputs, output):
        pass

    @staticmethod
    def backward(ctx, g):
        return g * 3


def test_custom_functions_are_functional_too():
    """PyTorch has no rule for them."""
    told = []
    x = torchlike.ones(2, requires_grad=True)
    out = torchlike.func.functionalize(lambda v: told.append(repr(Triple.apply(v))) or Triple.apply(v))(x)
    out.sum().backward()
    assert x.grad.tolist() == [3, 3] and told[0].startswith("FunctionalTensor(lvl=1, value=\\\ntensor([3., 3.]")
