"""torch.library.Library and what registers by name, next to PyTorch."""

import gc

import numpy as np
import pytest
import torch
from both import agree, agree_error, attempt
from library_kit import defined, no_result, plus, space
from story_kit import said, story

import torchlike


def fragment(t, *schemas, ns=None):
    lib = t.library.Library(ns or space(), "FRAGMENT")
    for schema in schemas:
        lib.define(schema)
    return lib


def ops(t, lib):
    return getattr(t.ops, lib.ns)


UNARY = "op(Tensor x) -> Tensor"


@pytest.mark.parametrize(
    "make, match",
    [
        (lambda t: t.library.Library("a", "FOO"), "Unsupported kind: FOO"),
        (lambda t: t.library.Library("a", "FRAGMENT", "FOO"), "could not parse dispatch key: FOO"),
        (lambda t: t.library.Library("prim", "FRAGMENT"), "prim is a reserved namespace"),
        (lambda t: fragment(t, UNARY, UNARY), "with the same name and overload name multiple times"),
        (lambda t: fragment(t, "ns2::baz(Tensor x) -> Tensor"),
         r"provided namespace \(ns2\) in schema string does not match"),
        (lambda t: fragment(t, "bad(Tensr x) -> Tensor"), "unknown type specifier"),
        (lambda t: fragment(t, 3), ""),
        (lambda t: t.library.Library("a", "IMPL").define(UNARY), 'def.*"op".*Cannot define an operator inside of'),
        (lambda t: fragment(t).define(UNARY, "FOO"), "Invalid alias_analysis type FOO"),
        (lambda t: fragment(t, UNARY).impl("op", "x"), "required to be a callable but found type <class 'str'>"),
        (lambda t: fragment(t, UNARY).impl(3, plus(1)), "passed either a name or an OpOverload object.*<class 'int'>"),
        (lambda t: fragment(t, UNARY).impl("op", plus(1), "Foo"), "could not parse dispatch key: Foo"),
        (lambda t: fragment(t, UNARY).impl("other::op", plus(1), "CPU"),
         r"provided namespace \(other\) in operator name"),
        (lambda t: fragment(t).fallback(plus(1)),
         'only be registered using library fragment on the global namespace "_"'),
        (lambda t: t.library.define("d1", "(Tensor x) -> Tensor"), 'form "namespace::name", but got d1'),
        (lambda t: t.library.define(3, "(Tensor x) -> Tensor"), "qualname to be instance of str, got <class 'int'>"),
        (lambda t: t.library.define("a::d2", "d2(Tensor x) -> Tensor"),
         r'look like e.g. "\(Tensor x\) -> Tensor" but got'),
        (lambda t: t.library.define("a::d2", "(Tensor x)"), r'look like e.g. "\(Tensor x\) -> Tensor" but got'),
        (lambda t: t.library.define("a::d2", 3), ""),
        (lambda t: t.library.impl("a::b", "zork", plus(1)), "device type at start of device string: zork"),
        (lambda t: t.library.register_fake("none::no", plus(1)), "operator none::no does not exist"),
        (lambda t: t.library.register_fake(3, plus(1)),
         r"register_fake\(3\): got unexpected type for op: <class 'int'>"),
        (lambda t: t.library.register_autograd("none::no", plus(1)),
         "'_OpNamespace' 'none' object has no attribute 'no'"),
        (lambda t: t.library.register_autograd("none.no", plus(1)), 'form "namespace::name", but got none.no'),
        (lambda t: t.library.register_autograd(3, plus(1)), "got unexpected type for op: <class 'int'>"),
        (lambda t: t.library.register_vmap("none::no", plus(1)), "'_OpNamespace' 'none' object has no attribute 'no'"),
        (lambda t: t.library.register_vmap(3, plus(1)), r"register_vmap\(3\): got unexpected type"),
        (lambda t: t.library.register_torch_dispatch(3, int, plus(1)),
         r"register_torch_dispatch\(3\): got unexpected type"),
        (lambda t: t.library.register_kernel(3, "cpu", plus(1)), r"register_kernel\(3\): got unexpected type"),
        (lambda t: t.library.register_kernel("none::no", "foo", plus(1)), "device type at start of device string: foo"),
        (lambda t: t.library.fallthrough_kernel(), r"fallthrough_kernel\(\) should never be called"),
        (lambda t: t.library.get_kernel("none::no", "CPU"), "operator none::no does not exist"),
    ],
)  # fmt: skip
def test_what_is_refused(make, match):
    agree_error(make, match)


def test_one_library_owns_a_namespace():
    def script(t):
        name = space()
        first = t.library.Library(name, "DEF")
        assert repr(first) == f"Library(kind=DEF, ns={name}, dispatch_key=)>"
        fragment(t, UNARY, ns=name)
        return t.library.Library(name, "DEF")

    agree_error(script, "Only a single .*DEF|Only a single TORCH_LIBRARY")


def test_define_gives_the_name():
    def script(t):
        lib = fragment(t)
        made = (
            lib.define("a.one(Tensor x) -> Tensor"),
            lib.define("a.two(Tensor x, int n) -> Tensor"),
            lib.define("b() -> ()"),
        )
        return made, ops(t, lib).a.overloads(), ops(t, lib).a.one._schema.overload_name, attempt(lambda: ops(t, lib).c)

    agree(script)


KEYS = ["CPU", "CUDA", "Meta", "CompositeExplicitAutograd", "CompositeImplicitAutograd", "Autograd", "AutogradCPU", ""]
CALLS = [
    lambda t, op: op(t.arange(3.0)),
    lambda t, op: op(t.arange(3.0, requires_grad=True)),
    lambda t, op: tuple(op(t.ones(3, device="meta")).shape),
]


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("key", KEYS)
def test_a_kernel_answers_for_its_dispatch_key(key, call):
    def script(t):
        lib = fragment(t, UNARY)
        lib.impl("op", lambda x: x * 3, key)
        return attempt(lambda: call(t, ops(t, lib).op))

    agree(script)


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("other", ["CompositeExplicitAutograd", "CompositeImplicitAutograd", "Autograd", "Meta"])
def test_which_of_two_kernels_answers(other, call):
    def script(t):
        lib = fragment(t, UNARY)
        lib.impl("op", lambda x: x * 5, other)
        lib.impl("op", lambda x: x * 3, "CPU")
        return attempt(lambda: call(t, ops(t, lib).op))

    agree(script)


def test_a_composite_operator_is_differentiable():
    def script(t):
        lib = fragment(t, UNARY)
        lib.impl("op", lambda x: x.sin() * 2, "CompositeImplicitAutograd")
        x = t.arange(3.0, requires_grad=True)
        out = ops(t, lib).op(x)
        return out.grad_fn.name(), t.autograd.grad(out.sum(), x)

    agree(script)


def test_without_a_derivative_backward_warns():
    lib = fragment(torchlike, UNARY)
    lib.impl("op", lambda x: x * 3, "CPU")
    x = torchlike.ones(2, requires_grad=True)
    with pytest.warns(UserWarning, match=r"::op: an autograd kernel was not registered.*register_autograd\(\)"):
        ops(torchlike, lib).op(x).sum().backward()
    assert x.grad.tolist() == [3, 3]


def test_a_kernel_for_autograd_calls_the_one_below():
    def script(t):
        lib = fragment(t, UNARY)
        lib.impl("op", lambda x: x * 2, "CPU")

        class Twice(t.autograd.Function):
            @staticmethod
            def forward(ctx, x):
                with t._C._AutoDispatchBelowAutograd():
                    return ops(t, lib).op(x)

            @staticmethod
            def backward(ctx, grad):
                return grad * 7

        lib.impl("op", Twice.apply, "Autograd")
        x = t.arange(3.0, requires_grad=True)
        out = ops(t, lib).op(x)
        return out, t.autograd.grad(out.sum(), x), ops(t, lib).op(t.ones(2))

    agree(script)


def test_a_fallthrough_kernel_is_passed_over():
    def script(t):
        lib = fragment(t, UNARY)
        lib.impl("op", lambda x: x * 2, "CPU")
        lib.impl("op", t.library.fallthrough_kernel, "AutogradCPU")
        return ops(t, lib).op(t.ones(2))

    agree(script)


def test_a_derivative_by_name():
    def script(t):
        lib = fragment(t, UNARY)
        lib.impl("op", lambda x: x * 2, "CPU")
        t.library.register_autograd(f"{lib.ns}::op", lambda ctx, g: g * 7)
        x = t.ones(2, requires_grad=True)
        return t.autograd.grad(ops(t, lib).op(x).sum(), x)

    agree(script)


def test_an_operator_that_changes_its_argument_has_no_derivative():
    def script(t):
        lib = fragment(t, "op(Tensor(a!) x) -> Tensor(a!)")
        t.library.register_autograd(ops(t, lib).op.default, plus(1))

    agree_error(script, "Cannot register autograd formula for non-functional operator .*op.default with schema")


def in_place(t):
    lib = fragment(t, "op(Tensor(a!) x) -> Tensor(a!)", "part(Tensor(a) x) -> Tensor(a)")
    lib.impl("op", lambda x: x.add_(1), "CPU")
    lib.impl("part", lambda x: x[1:], "CPU")
    return ops(t, lib), lib


@pytest.mark.parametrize(
    "make",
    [lambda x: x, lambda x: x.clone().requires_grad_() * 2, lambda x: x[1:], lambda x: x.clone().requires_grad_()],
)
def test_operators_that_return_what_they_change(make):
    def script(t):
        op, _ = in_place(t)
        y = make(t.arange(3.0))
        before = y._version
        return attempt(lambda: (op.op(y) is y, y, y._version - before, y.grad_fn))

    agree(script)


@pytest.mark.parametrize("make", [lambda x: x, lambda x: x.requires_grad_() * 2, lambda x: x.requires_grad_()])
@pytest.mark.parametrize("key", ["CPU", "CompositeExplicitAutograd", "CompositeImplicitAutograd"])
def test_operators_that_change_and_return_nothing(make, key):
    def script(t):
        lib = fragment(t, "op(Tensor(a!) x) -> ()")
        lib.impl("op", no_result(lambda x: x.add_(1)), key)
        y = make(t.arange(3.0))
        before = y._version
        return attempt(lambda: (ops(t, lib).op(y), y, y._version - before, y.grad_fn))

    agree(script)


def test_a_kernel_that_writes_through_numpy_is_counted():
    lib = fragment(torchlike, "op(Tensor(a!) x) -> ()")
    lib.impl("op", no_result(lambda x: np.add(x.numpy(), 1, out=x.numpy())), "CPU")
    x = torchlike.zeros(2)
    ops(torchlike, lib).op(x)
    assert x.tolist() == [1, 1] and x._version == 1


@pytest.mark.parametrize("make", [lambda x: x, lambda x: x.requires_grad_(), lambda x: x.requires_grad_() * 2])
def test_operators_that_return_views(make):
    def script(t):
        op, _ = in_place(t)
        x = make(t.arange(3.0))
        y = op.part(x)
        return y, y._base is x, y.grad_fn, op.part.default.is_view, op.op.default.is_view

    agree(script)


@pytest.mark.parametrize("out", [None, 3])
def test_a_result_declared_as_none(out):
    def run(t):
        lib = fragment(t, "op(Tensor x) -> None")
        lib.impl("op", lambda x: out, "CompositeImplicitAutograd")
        return attempt(lambda: ops(t, lib).op(t.ones(1)))

    assert type(run(torchlike)) is type(run(torch))


def test_kernels_can_come_before_the_operator():
    def script(t):
        name = space()
        t.library.impl(f"{name}::op", "cpu", plus(3))
        first = attempt(lambda: getattr(t.ops, name).op)
        t.library.define(f"{name}::op", "(Tensor x) -> Tensor")
        return first, getattr(t.ops, name).op(t.ones(1))

    agree(script)


@pytest.mark.parametrize("types", ["cpu", "default", "CPU", ["cpu", "cuda"], ("cuda",), "Meta"])
def test_impl_by_name(types):
    def script(t):
        name = f"{space()}::op"
        t.library.define(name, "(Tensor x) -> Tensor")
        returned = t.library.impl(name, types)(plus(1)), t.library.impl(name, types, plus(2))
        return returned, attempt(lambda: getattr(t.ops, name.split("::")[0]).op(t.ones(1)))

    agree(script)


def test_the_old_forms_with_a_library():
    def script(t):
        lib = fragment(t, UNARY)

        @t.library.impl(lib, "op", "CPU")
        def op(x):
            return x + 9

        @t.library.define(lib, "composite(Tensor x) -> Tensor")
        def composite(x):
            return x + 100

        return ops(t, lib).op(t.ones(1)), ops(t, lib).composite(t.ones(1)), op(1), composite(1)

    agree(script)


def test_the_old_name_of_register_fake():
    with pytest.warns(FutureWarning, match="impl_abstract` was renamed to `torch.library.register_fake`"):
        lib = fragment(torchlike, UNARY)
        torchlike.library.impl_abstract(f"{lib.ns}::op", lambda x: x.new_empty(7))
    assert ops(torchlike, lib).op(torchlike.ones(2, device="meta")).shape == (7,)


@pytest.mark.parametrize("by", [lambda lib, t: f"{lib.ns}::op", lambda lib, t: ops(t, lib).op.default])
def test_fake_implementations_by_name(by):
    def script(t):
        lib = fragment(t, UNARY)
        before = attempt(lambda: ops(t, lib).op(t.ones(2, device="meta")))
        assert t.library.register_fake(by(lib, t))(lambda x: x.new_empty(7)) is not None
        return before, tuple(ops(t, lib).op(t.ones(2, device="meta")).shape), attempt(lambda: ops(t, lib).op(t.ones(2)))

    agree(script)


def test_a_composite_operator_takes_no_fake_implementation():
    def script(t):
        lib = fragment(t, UNARY)
        lib.impl("op", plus(1))
        t.library.register_fake(f"{lib.ns}::op", plus(1))

    agree_error(script, "should not register a meta kernel directly to the operator .*CompositeImplicitAutograd kernel")


def test_what_ends_with_the_library():
    def script(t):
        found = []
        lib = fragment(t, UNARY)
        name = lib.ns
        found.append(attempt(lambda: getattr(t.ops, name).op) is not None)
        lib._destroy()
        found += [attempt(lambda: getattr(t.ops, name).op), attempt(lambda: lib.define(UNARY))]
        lib = fragment(t, UNARY, ns=name)
        found.append(hasattr(getattr(t.ops, name), "op"))
        del lib
        gc.collect()
        found.append(hasattr(getattr(t.ops, name), "op"))
        with t.library._scoped_library(name, "FRAGMENT") as lib:
            lib.define(UNARY)
            found.append(hasattr(getattr(t.ops, name), "op"))
        return [*found, hasattr(getattr(t.ops, name), "op")]

    agree(script)


def test_kernels_end_with_their_library_too():
    def script(t):
        outer = fragment(t, UNARY)
        with t.library._scoped_library(outer.ns, "IMPL", "CPU") as inner:
            inner.impl("op", plus(1))
            first = ops(t, outer).op(t.ones(1))
        return first, attempt(lambda: ops(t, outer).op(t.ones(1)))

    agree(script)


def test_replacing_a_kernel():
    def script(t):
        lib = fragment(t, UNARY)
        lib.impl("op", plus(1), "CPU")
        lib.impl("op", plus(2), "CPU", allow_override=True)
        return ops(t, lib).op(t.ones(1)), attempt(lambda: lib.impl("op", plus(3), "CPU", allow_override=False))

    agree(script)


def test_kernels_of_a_custom_operator_by_name():
    def script(t):
        name = f"{space()}::op"
        op = defined(t, plus(1), name, schema="(Tensor x) -> Tensor")
        t.library.register_kernel(name, "cpu", plus(5))
        first = op(t.ones(1))
        t.library.register_kernel(op, "cpu")(plus(6))
        second = op(t.ones(1))
        t.library.register_fake(op, lambda x: x.new_empty(9))
        return first, second, tuple(op(t.ones(1, device="meta")).shape)

    agree(script)


def test_kernels_of_an_operator_by_name():
    def script(t):
        lib = fragment(t, UNARY)
        t.library.register_kernel(f"{lib.ns}::op", "cpu", plus(5))
        first = ops(t, lib).op(t.ones(1))
        t.library.register_kernel(ops(t, lib).op.default, None, plus(6))
        return first, ops(t, lib).op(t.ones(1))

    agree(script)


def test_get_kernel():
    def script(t):
        lib = fragment(t, UNARY)
        lib.impl("op", plus(5), "CPU")
        return (
            repr(t.library.get_kernel(f"{lib.ns}::op", "CPU")).startswith("SafeKernelFunction("),
            attempt(lambda: t.library.get_kernel(f"{lib.ns}::op", "Zork")),
        )

    agree(script)
    lib = fragment(torchlike, UNARY)
    lib.impl("op", plus(5), "CPU")
    assert torchlike.library.get_kernel(ops(torchlike, lib).op.default, "CPU").call_boxed(None, 1) == 6
    with pytest.raises(RuntimeError, match="Could not run .* from the 'CUDA' backend"):
        torchlike.library.get_kernel(f"{lib.ns}::op", "CUDA")


@pytest.mark.parametrize(
    "call, match",
    [
        (lambda t: replacing(t, "view", plus(1)), "aten::view: kernels for this operator cannot be replaced"),
        (lambda t: replacing(t, "no_such", plus(1)), "aten::no_such: kernels for this operator cannot be replaced"),
        (
            lambda t: replacing(t, "sin", plus(1), "Autograd"),
            "aten::sin: kernels for this dispatch key Autograd cannot be replaced",
        ),
        (lambda t: t.library.register_autograd(t.ops.aten.sin.default, plus(1)), "aten::sin: kernels of built-in"),
        (
            lambda t: fragment(t, UNARY).impl("op", plus(1), "Functionalize"),
            "dispatch key Functionalize are not supported",
        ),
        (
            lambda t: fragment(t, UNARY).impl("op", plus(1), "CPU", with_keyset=True),
            "with_keyset=True. is not supported",
        ),
        (
            lambda t: t.library.Library("_", "IMPL").fallback(plus(1)),
            "fallback.. is not supported; .*TorchDispatchMode",
        ),
        (lambda t: t.library.wrap_triton(plus(1)), r"does not run Triton kernels.*pallas.*jax_op\(\)"),
        (lambda t: t.ops.load_library("x.so"), "load_library"),
    ],
)
def test_what_is_not_supported_is_refused_by_name(call, match):
    with pytest.raises(NotImplementedError, match=match):
        call(torchlike)


def replacing(t, name, function, key="CPU"):
    """A library that replaces the kernel of an operator of aten."""
    lib = t.library.Library("aten", "IMPL", key)
    lib.impl(name, function)
    return lib


SINE = [
    lambda t, x: t.sin(x),
    lambda t, x: x.sin(),
    lambda t, x: t.ops.aten.sin(x),
    lambda t, x: x.detach().clone().sin_(),
    lambda t, x: t.autograd.grad(t.sin(x).sum(), x),
    lambda t, x: t.vmap(t.sin)(x),
    lambda t, x: t.sin(x[:0]),
]


@pytest.mark.parametrize("use", SINE)
@pytest.mark.parametrize("kernel", [lambda t, x: x + 100, lambda t, x: t.as_tensor(np.cos(x.detach().numpy()))])
def test_the_kernel_of_a_built_in_operator_can_be_replaced(kernel, use):
    def script(t):
        x = t.arange(3.0, requires_grad=True)
        before = use(t, x)
        with t.library._scoped_library("aten", "IMPL", "CPU") as lib:
            lib.impl("sin", lambda x: kernel(t, x))
            during = use(t, x)
        return before, during, use(t, x)

    agree(script)


def test_a_replaced_kernel_is_part_of_programs():
    t = torchlike
    with t.library._scoped_library("aten", "IMPL", "CPU") as lib:
        program = t.compile(lambda x: x + x, fullgraph=True)
        assert program(t.full((2,), 3.0)).tolist() == [6, 6]
        lib.impl("add.Tensor", lambda x, y, alpha=1: x * y)
        assert program(t.full((2,), 3.0)).tolist() == [9, 9]
        assert (t.full((2,), 3.0) + 5).tolist() == [15, 15]
    assert (t.full((2,), 3.0) + 5).tolist() == [8, 8]


def test_a_replacing_kernel_must_return_the_dtype_that_the_operator_gives():
    with torchlike.library._scoped_library("aten", "IMPL", "CPU") as lib:
        lib.impl("sin", lambda x: x.double())
        with pytest.raises(
            RuntimeError, match=r"aten::sin: the kernel.*returned .*float64.*operator gives .*float32.*gradients need"
        ):
            torchlike.arange(3.0).sin()


@story
def test_a_replacing_kernel_may_return_another_shape(t):
    x = t.tensor([1.0, 2.0])
    with t.library._scoped_library("aten", "IMPL", "CPU") as lib:
        lib.impl("sum", lambda x, **_: x * 2)
        during = t.sum(x)
    return during, t.sum(x), said(lambda: lib_of(t).impl("sum", lambda x: x, "CUDA"), "is inconsistent with")


def lib_of(t):
    return t.library.Library("aten", "IMPL", "CPU")


def test_a_replaced_kernel_by_name():
    lib = torchlike.library.Library("aten", "IMPL")
    torchlike.library.impl("aten::cos", "cpu", plus(7), lib=lib)
    assert torchlike.zeros(1).cos().item() == 7
    lib._destroy()
    assert torchlike.zeros(1).cos().item() == 1


INFERRED = [
    "x: t.Tensor", "x: t.Tensor, y: int = 3", "x: Optional[t.Tensor]", "x: t.Tensor | None = None", "x: List[t.Tensor]",
    "x: Sequence[t.Tensor]", "x: list[t.Tensor]", "x: List[Optional[t.Tensor]]", "x: Sequence[t.Tensor | None]",
    "x: int, *, y: int",
    "x: Optional[int] = 3", "x: List[int]", "x: list[int] | None = None", "x: float = 1e-5, y: float = 3",
    "x: Optional[float] = 1",
    "x: List[float]", "x: Optional[List[float]] = None", "x: bool = True", "x: List[bool]",
    "x: Optional[Sequence[bool]]",
    "x: str = 'a'", "x: Optional[str] = None", "x: t.dtype = t.float32", "x: Optional[t.dtype] = None",
    "x: t.device = t.device('cpu')", "x: t.device = 'cuda:1'", "x: Union[int, float, bool]",
    "x: Optional[Union[int, float, bool]]",
    "x: int | float | bool = 2", "x: List[Union[int, float, bool]]", "", "self: t.Tensor, out: t.Tensor",
    "x: float = float('inf')",
    # refused
    "x", "*x: t.Tensor", "**x: t.Tensor", "x: t.Tensor, /", "x: dict", "x: complex", "x: Union[int, float]",
    "x: Tuple[int, int]",
    "x: tuple[int, int] = (1, 2)", "x: List[int] = [1]", "x: t.Tensor = 3j", "x: 'Nothing'", "x: Sequence[int] = ()",
    "x: List[str]",
    "x: Optional[List[t.Tensor]]", "x: t.nn.Parameter", "x: object", "x: List[List[int]]", "x: List[t.dtype]",
    "x: Dict[str, int]",
]  # fmt: skip
RETURNED = [
    "t.Tensor", "None", "int", "float", "bool", "Union[int, float, bool]", "List[t.Tensor]", "list[t.Tensor]",
    "Tuple[t.Tensor, t.Tensor]", "tuple[t.Tensor, int]", "Tuple[t.Tensor, List[t.Tensor], float, bool]",
    "Tuple[t.Tensor]", "Tuple[()]",
    # refused
    "str", "dict", "Optional[t.Tensor]", "Tuple[t.Tensor, ...]", "Tuple[t.Tensor, str]", "Sequence[t.Tensor]",
    "List[int]", "complex",
    "'Nothing'", "list", "tuple",
]  # fmt: skip


def inferred(t, parameters, result="t.Tensor", **options):
    """The schema of a function with this signature, or the type of the error."""
    found: dict = {"t": t}
    exec(
        "from typing import *\nfrom collections.abc import Sequence\ndef f(" + parameters + ") -> " + result + ": pass",
        found,
    )
    return attempt(lambda: t.library.infer_schema(found["f"], **{"mutates_args": ()} | options))


@pytest.mark.parametrize("parameters", INFERRED)
def test_schemas_follow_from_the_annotations_of_parameters(parameters):
    agree(lambda t: inferred(t, parameters))


@pytest.mark.parametrize("result", RETURNED)
def test_schemas_follow_from_the_annotation_of_the_result(result):
    agree(lambda t: inferred(t, "x: t.Tensor", result))


@pytest.mark.parametrize("mutates", [(), ("x",), {"x", "y"}, ["z"], "unknown", "x", ("n",), ("other",)])
def test_schemas_mark_what_is_mutated(mutates):
    parameters = "x: t.Tensor, y: List[t.Tensor], z: Optional[t.Tensor], n: int"
    agree(lambda t: inferred(t, parameters, mutates_args=mutates, op_name="name"))


def test_a_string_annotation_is_looked_up_in_the_module():
    def f(x: "np.ndarray") -> "None": ...

    with pytest.raises(
        ValueError, match="Parameter x has unsupported type <class 'numpy.ndarray'>.*valid types are: Tensor, int"
    ):
        torchlike.library.infer_schema(f, mutates_args=())


def test_operators_for_triton_run_their_function():
    def script(t):
        def twice(x: t.Tensor, n: int = 2) -> t.Tensor:
            return t.sin(x) * n

        def add(x: t.Tensor) -> None:
            x.add_(1)

        f = t.library.triton_op(f"{space()}::twice", twice, mutates_args=())
        f.register_autograd(lambda ctx, g: (g * 7, None))
        x, z = t.ones(2, requires_grad=True), t.zeros(1)
        t.library.triton_op(f"{space()}::add", mutates_args={"x"})(add)(z)
        return f(x, 3), t.autograd.grad(f(x).sum(), x), f(t.ones(2, device="meta")).shape, z

    agree(script)


def test_kernels_of_zero_tensors():
    def run(t):
        lib = fragment(t, "op(Tensor x, Tensor y) -> Tensor")
        lib.impl("op", lambda x, y: x + y, "CPU")
        lib.impl("op", lambda x, y: t.ones(2) * 7, "ZeroTensor")
        zero, one = t._efficientzerotensor(2), t.ones(2)
        told = [t._is_zerotensor(x) for x in (zero, zero.clone(), one, t.zeros(2))]
        return [ops(t, lib).op(x, y) for x in (zero, one) for y in (zero, one)], zero, told

    agree(run)
