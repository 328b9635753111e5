"""Registered operators under __torch_dispatch__: what modes and subclasses are shown, and rules registered for them."""

import jax.numpy as jnp
import pytest
import torch.utils._python_dispatch  # noqa: F401  (a module that the scripts name)
from both import agree, agree_error
from library_kit import defined, no_result, scale_of, space

import torchlike
import torchlike.utils._python_dispatch
from torchlike.library import jax_op


def logging_mode(t, seen, of="space"):
    class Log(t.utils._python_dispatch.TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            if func.namespace.startswith(of):
                shown = [tuple(a.shape) if isinstance(a, t.Tensor) else a for a in args]
                seen.append((func._overloadname, [c.__name__ for c in types], shown, kwargs))
            return func(*args, **(kwargs or {}))

    return Log()


def run_logged(t, use, make=scale_of):
    seen, op = [], make(t)
    with logging_mode(t, seen):
        out = use(t, op)
    return out, seen


USES = [
    lambda t, op: op(t.ones(2)),
    lambda t, op: op(t.ones(2), 2.0),
    lambda t, op: op(t.ones(2), 3.0, k=1),
    lambda t, op: op(t.ones(2), s=2.0, k=4),
    lambda t, op: op(x=t.ones(2, 3)),
    lambda t, op: op(t.ones(2, requires_grad=True)),
    lambda t, op: op._opoverload(t.ones(2), 5),
    lambda t, op: op._opoverload.overloadpacket(t.ones(2), 5),
]


@pytest.mark.parametrize("use", USES)
def test_a_mode_sees_one_call_with_normalised_arguments(use):
    agree(lambda t: run_logged(t, use))


def test_modes_nest():
    def script(t):
        outer, inner, op = [], [], scale_of(t)
        with logging_mode(t, outer), logging_mode(t, inner):
            out = op(t.ones(2), 3)
        return out, outer, inner

    agree(script)


def test_lists_and_mutation_under_a_mode():
    def changing(t):
        return defined(
            t, no_result(lambda xs: [x.add_(1) for x in xs]), schema="(Tensor(a!)[] xs) -> ()", mutates_args=("xs",)
        )

    def script(t):
        seen, x = [], t.zeros(2)
        op = changing(t)
        with logging_mode(t, seen):
            op([x, x[:1]])
        return x, x._version > 0, len(seen), seen[0][0]

    agree(script)


def test_derivatives_under_a_mode():
    def make(t):
        op = defined(t, lambda x: x * 2, schema="(Tensor x) -> Tensor")
        op.register_autograd(lambda ctx, g: op(g))
        return op

    def use(t, op):
        x = t.ones(2, requires_grad=True)
        return t.autograd.grad(op(x).sum(), x)

    agree(lambda t: run_logged(t, use, make))


def test_kernels_for_meta_under_a_mode():
    def make(t):
        op = defined(t, lambda x: x * 2, schema="(Tensor x) -> Tensor")
        op.register_fake(lambda x: x.new_empty(7))
        return op

    agree(
        lambda t: (lambda out: (tuple(out[0].shape), out[1]))(
            run_logged(t, lambda t, op: op(t.ones(2, device="meta")), make)
        )
    )


def test_a_mode_can_replace_the_result():
    def script(t):
        class Zero(t.utils._python_dispatch.TorchDispatchMode):
            def __torch_dispatch__(self, func, types, args=(), kwargs=None):
                return t.zeros(5) if func.namespace.startswith("space") else func(*args, **(kwargs or {}))

        op = scale_of(t)
        with Zero():
            return op(t.ones(2)), op(t.ones(2, requires_grad=True))

    agree(script)


def test_composite_operators_are_not_seen_but_their_parts():
    def script(t):
        lib, seen = t.library.Library(space(), "FRAGMENT"), []
        lib.define("op(Tensor x) -> Tensor")
        lib.impl("op", lambda x: x * 2)
        with logging_mode(t, seen):
            getattr(t.ops, lib.ns).op(t.ones(2))
        return seen

    agree(script)


# -- rules and subclasses -----------------------------------------------------------------------------------


def test_a_rule_for_a_mode():
    def script(t):
        seen, op = [], scale_of(t)
        mode = logging_mode(t, seen)

        @op.register_torch_dispatch(type(mode))
        def _(given, func, types, args, kwargs):
            seen.append((given is mode, func is op._opoverload, types, len(args), kwargs))
            return args[0] + 100

        with mode:
            out = op(t.ones(2), k=2)
        return out, op(t.ones(2)), seen

    agree(script)


def wrapper(t, seen):
    class Wrapper(t.Tensor):
        @staticmethod
        def __new__(cls, elem):
            return t.Tensor._make_wrapper_subclass(cls, elem.shape, dtype=elem.dtype, device=elem.device)

        def __init__(self, elem):
            self.elem = elem

        @classmethod
        def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
            seen.append((func._opname, [c.__name__ for c in types], len(args), kwargs))
            return func(*[a.elem if isinstance(a, Wrapper) else a for a in args], **(kwargs or {}))

    return Wrapper


def test_a_wrapper_subclass_is_shown_the_call():
    def script(t):
        seen = []
        cls, op = wrapper(t, seen), scale_of(t)
        return op(cls(t.ones(2)), 3, k=2), seen

    agree(script)


def test_a_rule_for_a_subclass():
    def script(t):
        seen = []
        cls, op = wrapper(t, seen), scale_of(t)
        t.library.register_torch_dispatch(
            op, cls, lambda c, func, types, args, kwargs: args[0].elem + len(types) + (c is cls)
        )
        return op(cls(t.ones(2))), seen

    agree(script)


def test_a_handler_that_gives_up():
    def script(t):
        class Refuse(t.utils._python_dispatch.TorchDispatchMode):
            def __torch_dispatch__(self, func, types, args=(), kwargs=None):
                return NotImplemented

        x, op = t.ones(2), scale_of(t)
        with Refuse():
            op(x)

    agree_error(script, "Multiple dispatch failed for .*scale")


# -- __torch_function__ ----------------------------------------------------------------------------------------


def overriding(t, seen):
    class Overriding(t.Tensor):
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            if str(func).startswith("space"):
                seen.append((func._overloadname, [c.__name__ for c in types], len(args), kwargs))
            return super().__torch_function__(func, types, args, kwargs or {})

    return Overriding


@pytest.mark.parametrize(
    "use",
    [
        lambda t, cls, op: op(t.ones(2).as_subclass(cls)),
        lambda t, cls, op: op(t.ones(2), s=2.0, k=2),
        lambda t, cls, op: op(x=t.ones(2).as_subclass(cls), s=3),
    ],
)
def test_a_subclass_overrides_and_is_kept(use):
    def script(t):
        seen = []
        cls = overriding(t, seen)
        out = use(t, cls, scale_of(t))
        return type(out).__name__, out.tolist(), seen

    agree(script)


def test_a_duck_type_overrides():
    def script(t):
        class Duck:
            @classmethod
            def __torch_function__(cls, func, types, args=(), kwargs=None):
                return func._overloadname, [c.__name__ for c in types], len(args), kwargs

        lists = defined(t, lambda xs: None, schema="(Tensor[] xs) -> ()")
        return scale_of(t)(Duck(), 3, k=2), lists([t.ones(1), Duck()])

    agree(script)


def test_a_function_mode_overrides():
    def script(t):
        seen, op = [], scale_of(t)

        class Mode(t.overrides.TorchFunctionMode):
            def __torch_function__(self, func, types, args=(), kwargs=None):
                if str(func).startswith("space"):
                    seen.append((func._overloadname, types, len(args), kwargs))
                return func(*args, **(kwargs or {}))

        x = t.ones(2)
        with Mode(), Mode():
            out = op(x, 3, k=2)
        return out, seen

    agree(script)


def test_operators_of_jax_kernels_are_shown_whole():
    name, seen = space(), []
    op = jax_op(f"{name}::cube", "(Tensor x, float s=1.0) -> Tensor")(lambda x, s: jnp.power(x, 3) * s)
    x = torchlike.full((2,), 2.0, requires_grad=True)
    with logging_mode(torchlike, seen):
        out = op(x, 2.0)
    assert out.tolist() == [16, 16] and out.requires_grad
    assert [entry[0] for entry in seen] == ["default"]
