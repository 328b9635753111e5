"""torch.library.custom_op next to PyTorch: calls, results, mutation, devices, fake implementations."""

import copy
import pickle
from typing import Optional

import pytest
from both import agree, agree_error, attempt
from library_kit import defined, no_result, plus, scale_of, space, through_numpy

import torchlike


def unary(t, function, result=None):
    """``function`` as an operator of one tensor."""

    def op(x):
        return function(x)

    op.__annotations__ = {"x": t.Tensor, "return": t.Tensor if result is None else result}
    return defined(t, op)


CALLS = [
    lambda op, x: op(x),
    lambda op, x: op(x, 3),
    lambda op, x: op(x, 3.5, k=2),
    lambda op, x: op(x=x, s=3.5),
    lambda op, x: op(x, True),
    lambda op, x: op(x, k=True),
    lambda op, x: op(x, s=x.sum()),
    lambda op, x: op(x[:0]),
    lambda op, x: op(x[0]),
    lambda op, x: op(x.reshape(1, 3).t()),
    lambda op, x: op(x, float("nan")),
]


@pytest.mark.parametrize("call", CALLS)
def test_a_call_binds_its_arguments_as_the_schema_has_them(call):
    agree(lambda t: call(scale_of(t), t.arange(3.0)))


@pytest.mark.parametrize("call", CALLS)
def test_torch_ops_is_the_same_operator(call):
    def script(t):
        name = space()
        scale_of(t, f"{name}::scale")
        namespace = getattr(t.ops, name)
        return [call(op, t.arange(3.0)) for op in (namespace.scale, namespace.scale.default)]

    agree(script)


@pytest.mark.parametrize(
    "call, match",
    [
        (
            lambda op, x: op(x, 3, 2),
            r"takes 2 positional argument\(s\) but 3 was/were given.*Declaration: .*scale\(Tensor",
        ),
        (lambda op, x: op(), "is missing value for argument 'x'. Declaration"),
        (
            lambda op, x: op(1),
            "Expected a value of type 'Tensor' for argument 'x' but instead found type 'int'.*Position: 0",
        ),
        (lambda op, x: op([1.0]), "Expected a value of type 'Tensor' for argument 'x' but instead found type 'list'"),
        (lambda op, x: op(x, "a"), "type 'float' for argument 's' but instead found type 'str'.*Value: 'a'"),
        (lambda op, x: op(x, 1j), "type 'float' for argument 's' but instead found type 'complex'"),
        (lambda op, x: op(x, None), "type 'float' for argument 's' but instead found type 'NoneType'"),
        (lambda op, x: op(x, k=1.5), "type 'int' for argument 'k' but instead found type 'float'"),
        (lambda op, x: op(x, q=2), "Unknown keyword argument 'q' for operator"),
        (lambda op, x: op(x, x=x), "Argument 'x' specified both as positional and keyword argument"),
        (lambda op, x: op(x.numpy()), "for argument 'x' but instead found type 'ndarray'"),
    ],
)
def test_arguments_that_the_schema_refuses(call, match):
    agree_error(lambda t: call(scale_of(t), t.arange(3.0)), match)


KINDS = [
    ("int", ["1", "1.0", "True", "t.tensor(3)", "t.tensor(3.)", "t.tensor([3])", "'3'", "None", "t.ones(2)"]),
    ("float", ["1", "1.5", "True", "t.tensor(3)", "t.tensor([3.])", "'3'", "1j", "t.tensor(1j)"]),
    ("bool", ["1", "0", "True", "t.tensor(True)", "'a'"]),
    ("Scalar", ["1", "1.5", "True", "1j", "t.tensor(3)", "'a'", "None"]),
    ("str", ["'a'", "1", "None"]),
    ("int?", ["1", "None", "'a'"]),
    ("int[]", ["[1, 2]", "(1, 2)", "1", "[1.5]", "[]", "[True, 2]", "None"]),
    ("int[2]", ["[1, 2]", "3", "[1, 2, 3]", "None"]),
    ("float[]", ["[1, 2.5]", "1.0", "['a']"]),
    ("bool[]", ["[True, False]", "[1]", "True"]),
    ("Tensor[]", ["[t.ones(1)]", "(t.ones(1), t.ones(2))", "[]", "[None]", "t.ones(2)", "[1]"]),
    ("Tensor?[]", ["[t.ones(1), None]", "[None]", "[1]"]),
    ("Tensor?", ["t.ones(1)", "None", "1"]),
    ("ScalarType", ["t.float32", "'float'"]),
    ("Device", ["'cpu'", "t.device('meta')", "3"]),
]


@pytest.mark.parametrize("kind, values", KINDS, ids=[kind for kind, _ in KINDS])
def test_what_arguments_of_each_kind_accept_and_become(kind, values):
    def script(t):
        lib, seen = t.library.Library(space(), "FRAGMENT"), []
        lib.define(f"op({kind} a) -> int")
        lib.impl("op", lambda a: seen.append(a) or 1, "CompositeExplicitAutograd")
        op = getattr(t.ops, lib.ns).op
        return [attempt(lambda value=value: op(eval(value, {"t": t}))) for value in values], seen

    agree(script)


def test_kernels_get_defaults_left_out():
    def script(t):
        lib, seen = t.library.Library(space(), "FRAGMENT"), []
        lib.define("op(Tensor x, int a=1, int b=2, *, int c=3, int d=4) -> ()")
        lib.impl("op", lambda *args, **kwargs: seen.append((args[1:], kwargs)), "CPU")
        op, x = getattr(t.ops, lib.ns).op, t.ones(1)
        op(x), op(x, 1, 2, c=3), op(x, 1, 5), op(x, 7, 2, d=6), op(x, b=9)  # noqa: B018
        return seen

    agree(script)


RESULTS = [
    (lambda t, x: 1, "Tensor"), (lambda t, x: None, "Tensor"), (lambda t, x: (x + 1, x), "Tensor"),
    (lambda t, x: x + 1, "(Tensor, Tensor)"), (lambda t, x: (x + 1, x + 2), "Tensor[]"),
    (lambda t, x: [x + 1, x + 2], "(Tensor, Tensor)"), (lambda t, x: x + 1, "()"), (lambda t, x: None, "()"),
    (lambda t, x: 1.5, "int"), (lambda t, x: 1, "float"), (lambda t, x: True, "bool"), (lambda t, x: 2, "Scalar"),
    (lambda t, x: (x + 1, 2, 3, True), "(Tensor, int, float, bool)"), (lambda t, x: [x + 1], "Tensor[]"),
    (lambda t, x: None, "Tensor?"), (lambda t, x: [], "Tensor[]"), (lambda t, x: "a", "str"),
]  # fmt: skip


@pytest.mark.parametrize("function, kind", RESULTS)
def test_results_are_what_the_schema_says(function, kind):
    agree(lambda t: attempt(lambda: defined(t, lambda x: function(t, x), schema=f"(Tensor x) -> {kind}")(t.ones(2))))


def test_a_wrong_number_of_results_is_refused():
    op = defined(torchlike, lambda x: (x + 1, x + 2, x + 3), schema="(Tensor x) -> (Tensor, Tensor)")
    with pytest.raises(RuntimeError, match=r"op returned 3 results where 2 are declared: .*op\(Tensor x\)"):
        op(torchlike.ones(2))


@pytest.mark.parametrize("function", [lambda x: x, lambda x: x[1:], lambda x: x.detach(), lambda x: x.view(-1)])
@pytest.mark.parametrize("requires_grad", [False, True])
def test_results_may_not_alias_arguments(function, requires_grad):
    agree_error(
        lambda t: unary(t, function)(t.ones(3, requires_grad=requires_grad)),
        r"must not also be an input to this custom operator and \(2\) may not alias any inputs.*\.clone\(\)",
    )


def test_results_may_not_alias_each_other():
    def twice(x):
        y = x + 1
        return y, y

    agree_error(
        lambda t: defined(t, twice, schema="(Tensor x) -> (Tensor, Tensor)")(t.ones(3)), "may not alias any inputs"
    )


def test_a_schema_that_declares_an_alias_allows_it():
    agree(lambda t: defined(t, lambda x: x[1:], schema="(Tensor(a) x) -> Tensor(a)")(t.arange(3.0)))


def test_what_a_custom_operator_changes_it_cannot_return():
    schema = "(Tensor(a!) x) -> Tensor(a!)"
    agree_error(
        lambda t: defined(t, lambda x: x.add_(1), schema=schema, mutates_args=("x",))(t.ones(2)),
        "may not alias any inputs",
    )


# -- mutation ----------------------------------------------------------------------------------------------


def increment(t, body=lambda x: x.add_(1), result=None, name=None):
    def inc(x):
        return body(x)

    inc.__annotations__ = {"x": t.Tensor, "return": result}
    return defined(t, inc, name, mutates_args=("x",))


def change(t, make, use):
    x = t.arange(3.0)
    y = make(x)
    before = y._version
    out = use(y)
    return out, y, y._version - before


@pytest.mark.parametrize(
    "make",
    [
        lambda x: x, lambda x: x.clone().requires_grad_(), lambda x: x.clone().requires_grad_() * 1, lambda x: x[1:],
        lambda x: x.reshape(1, 3).t(), lambda x: x[:0],
    ],
)  # fmt: skip
@pytest.mark.parametrize("body", [lambda x: x.add_(1), lambda x: x.mul_(2).add_(1), lambda x: None])
def test_what_is_declared_to_change_changes_and_is_counted(make, body):
    agree(lambda t: change(t, make, increment(t, no_result(body))))


def test_a_changed_argument_next_to_a_result():
    def script(t):
        inc = increment(t, lambda x: x.add_(1).clone(), t.Tensor, "changed::inc")
        y = t.ones(3, requires_grad=True) * 2
        out = inc(y)
        return out, y, y._version, out.grad_fn, attempt(lambda: out.sum().backward())

    agree(script)


def test_autograd_notices_a_change():
    def script(t):
        a, b = t.ones(3, requires_grad=True), t.ones(3)
        c = a * b
        increment(t, no_result(lambda x: x.add_(1)))(b)
        c.sum().backward()

    agree_error(script, "modified by an inplace operation.* is at version 2; expected version 0")


def test_lists_and_optionals_can_be_changed():
    def script(t):
        def op(xs, y=None):
            for x in (*xs, y):
                if x is not None:
                    x.add_(1)

        op.__annotations__ = {"xs": list[t.Tensor], "y": Optional[t.Tensor], "return": None}  # noqa: UP045
        inc = defined(t, op, mutates_args=("xs", "y"))
        a, b, c = t.zeros(1), t.ones(2), t.ones(3)
        inc([a, b]), inc([a], c)  # noqa: B018
        return a, b, c, a._version, b._version, c._version, str(inc._opoverload._schema).partition("::")[2]

    agree(script)


def test_inference_tensors_can_be_changed():
    def script(t):
        with t.inference_mode():
            x = t.ones(2)
            increment(t, no_result(lambda x: x.add_(1)))(x)
        return x

    agree(script)


@pytest.mark.parametrize("place", [lambda y: y, lambda y: y[0], lambda y: y.t()[:3, :2].t()])
def test_what_is_written_into_the_numpy_array_of_an_argument_reaches_it(place):
    def script(t):
        y = t.zeros(2, 3)
        out = place(y)
        before = y._version
        through_numpy(t)(t.arange(6.0).reshape(2, 3)[: out.shape[0]] if out.ndim == 2 else t.arange(3.0), out)
        return y, y._version - before

    agree(script)


def test_a_numpy_array_that_is_only_read_changes_nothing():
    x, y = torchlike.ones(2), torchlike.full((2,), float("nan"))
    defined(
        torchlike, lambda x, y: (y.numpy().sum(), None)[1], schema="(Tensor x, Tensor(a!) y) -> ()", mutates_args=("y",)
    )(x, y)
    assert y._version == 1 and bool(y.isnan().all())


def test_a_kernel_that_fails_leaves_numpy_writes_behind():
    def fail(x):
        x.numpy()[:] = 5
        raise ValueError("no")

    x = torchlike.zeros(2)
    with pytest.raises(ValueError, match="no"):
        increment(torchlike, fail)(x)
    assert x.tolist() == [0, 0] and x._version == 0


# -- devices and fake implementations ------------------------------------------------------------------------


def on(t, devices=None):
    return defined(t, plus(1), schema="(Tensor x) -> Tensor", device_types=devices)


@pytest.mark.parametrize(
    "register",
    [
        lambda op: op.register_kernel("cpu", plus(5)),
        lambda op: op.register_kernel("cpu")(plus(5)),
        lambda op: op.register_kernel(None, plus(7)),
        lambda op: op.register_kernel(["cpu", "cuda"], plus(9)),
        lambda op: op.register_kernel("cuda", plus(11)),
        lambda op: (op.register_kernel("cpu", plus(5)), op.register_kernel(None, plus(7))),
    ],
)
@pytest.mark.parametrize("devices", [None, "cpu", "cuda"])
def test_kernels_by_device(register, devices):
    def script(t):
        op = on(t, devices)
        first = attempt(lambda: op(t.ones(1)))
        register(op)
        return first, attempt(lambda: op(t.ones(1)))

    agree(script)


def test_kernels_can_be_switched_off():
    def script(t):
        op = on(t)
        op.register_kernel("cpu", plus(5))
        out = [op(t.ones(1))]
        with op.set_kernel_enabled("cpu", False):
            out.append(op(t.ones(1)))
            with op.set_kernel_enabled("cpu", True):
                out.append(op(t.ones(1)))
        with op.set_kernel_enabled("cuda", enabled=False):
            out.append(op(t.ones(1)))
        return [*out, op(t.ones(1))]

    agree(script)


def test_an_unknown_device_is_refused():
    agree_error(lambda t: on(t, "foo"), "Expected one of cpu, cuda.* device type at start of device string: foo")
    agree_error(lambda t: on(t).register_kernel("zzz", plus(1)), "at start of device string: zzz")


def test_without_tensors_a_device_argument_decides():
    def script(t):
        op = defined(t, lambda n, d: t.ones(n, device=d), schema="(int n, Device d) -> Tensor")
        return op(2, t.device("cpu")), op(2, "cpu")

    agree(script)
    agree_error(
        lambda t: defined(t, lambda n: t.ones(n), schema="(int n) -> Tensor", device_types="cpu"),
        "without tensor inputs are required to have a `device: torch.device` argument",
    )


def test_without_a_kernel_the_error_names_what_there_is():
    op = on(torchlike, "cuda")
    with pytest.raises(NotImplementedError, match=r"from the 'CPU' backend.*register_kernel\('.*op', 'cpu'.*\[CUDA\]"):
        op(torchlike.ones(1))


def meta(t, *shape, **more):
    return t.ones(*shape, device="meta", **more)


def shown(x):
    return tuple(x.shape), str(x.dtype), str(x.device), x.requires_grad, x.stride()


@pytest.mark.parametrize(
    "fake", [lambda t, x: t.empty_like(x), lambda t, x: x.new_empty(x.shape[0], dtype=t.int32), lambda t, x: x]
)
def test_meta_tensors_run_the_fake_implementation(fake):
    def script(t):
        op = on(t)
        assert op.register_fake(lambda x: fake(t, x)) is not None
        return shown(op(meta(t, 2, 3))), shown(op(meta(t, 2, 3, requires_grad=True)).detach())

    agree(script)


def test_without_a_fake_implementation_meta_tensors_are_refused():
    agree_error(
        lambda t: on(t)(meta(t, 2)), r"There was no fake impl registered for <CustomOpDef.*use `.*register_fake`"
    )
    agree(lambda t: increment(t, no_result(lambda x: x.add_(1)))(meta(t, 2)))


def test_a_shape_that_depends_on_values_has_no_fake_on_meta():
    def script(t):
        op = on(t)
        op.register_fake(lambda x: x.new_empty(t.library.get_ctx().new_dynamic_size()))
        return op(meta(t, 2))

    assert torchlike.library.get_ctx() is None
    agree_error(script, "may return an output Tensor with data-dependent shape")


# -- the object ------------------------------------------------------------------------------------------------


def test_what_an_operator_says_of_itself():
    def script(t):
        op = scale_of(t, "said::scale")
        default = t.ops.said.scale.default
        return (
            op, default, default._schema, default.name(), default.namespace, t.ops.said.scale, default.overloadpacket,
            t.ops.said.scale.overloads(), [str(tag) for tag in default.tags], op._qualname, op._name, op._namespace,
            op._opoverload is default, hash(op) == hash(op), attempt(lambda: t.ops.said.other),
            attempt(lambda: t.ops.said.scale.foo),
        )  # fmt: skip

    agree(script)


def test_tags():
    def script(t):
        op = defined(t, plus(1), schema="(Tensor x) -> Tensor", tags=t.Tag.pointwise)
        also = defined(t, plus(1), schema="(Tensor x) -> Tensor", tags=[t.Tag.pointwise, t.Tag.core])
        return [str(tag) for tag in op._opoverload.tags], [str(tag) for tag in also._opoverload.tags]

    agree(script)
    with pytest.raises(TypeError, match="tags: expected torch.Tag.*got 'x'"):
        defined(torchlike, plus(1), schema="(Tensor x) -> Tensor", tags="x")


def test_defining_a_name_again_replaces_the_operator():
    def script(t):
        name = f"{space()}::op"
        first = defined(t, plus(1), name, schema="(Tensor x) -> Tensor")
        second = defined(t, plus(2), name, schema="(Tensor x) -> Tensor")
        firsts.append(first)
        return second(t.zeros(1))

    firsts = []
    agree(script)
    assert firsts[0](torchlike.zeros(1)).item() == 2  # PyTorch's calls what is no longer there, and sometimes crashes


def test_operators_can_be_copied_and_pickled():
    op = scale_of(torchlike)._opoverload
    assert copy.deepcopy(op) is op and pickle.loads(pickle.dumps(op)) is op


@pytest.mark.parametrize(
    "make, match",
    [
        (lambda t: defined(t, plus(1), schema="(Tensor x -> Tensor"), r"expected \) but found 'arrow'"),
        (lambda t: defined(t, plus(1), schema="(Tensor(a!) x) -> ()"), r"schema suggests that the op mutates \{'x'\}"),
        (lambda t: defined(t, plus(1), schema="(Tensor x) -> ()", mutates_args=("x",)), "make these consistent"),
        (lambda t: defined(t, plus(1), schema="foo(Tensor x) -> Tensor"), "has no attribute 'op'"),
        (lambda t: defined(t, plus(1), schema="(Tensor x, *, Tensor y) -> Tensor"), "kwarg-only Tensor args"),
        (lambda t: defined(t, plus(1)), "Parameter x must have a type annotation"),
        (lambda t: t.library.custom_op("a::b", plus(1)), "mutates_args"),
        (lambda t: defined(t, plus(1), "nospace", schema="(Tensor x) -> Tensor"), ""),
        (lambda t: defined(t, plus(1), "a::b::c", schema="(Tensor x) -> Tensor"), ""),
    ],
)
def test_definitions_that_are_refused(make, match):
    agree_error(make, match)


def test_a_refused_definition_leaves_the_name_free():
    name = space()
    with pytest.raises(ValueError, match="make these consistent"):
        defined(torchlike, plus(1), f"{name}::op", schema="(Tensor(a!) x) -> ()")
    assert not hasattr(getattr(torchlike.ops, name), "op")
    assert defined(torchlike, plus(1), f"{name}::op", schema="(Tensor x) -> Tensor")(torchlike.zeros(1)) == 1


def test_what_later_issues_bring_is_refused_by_name():
    op = on(torchlike)
    with pytest.raises(ValueError, match="Expected `device_type` of type `str`"):
        op.register_autocast(3, torchlike.float16)
    with pytest.raises(NotImplementedError, match="register_effect"):
        op.register_effect("ordered")
    op.register_effect(None)
