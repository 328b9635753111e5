"""torch.library.opcheck, next to PyTorch: what it finds, what it returns and raises."""

import numpy as np
import pytest
import torch._functorch.config
from both import agree, agree_error, attempt
from library_kit import defined, no_result, space, through_numpy

import torchlike

UNARY = "(Tensor x) -> Tensor"


@pytest.fixture(autouse=True)
def aliasing_passes():
    """PyTorch raises for a result that is an argument where the variable CI is set, as in its own tests."""
    with torch._functorch.config.patch(error_on_custom_op_aliasing=False):
        yield


def good(t):
    op = defined(t, lambda x: x * 2, schema=UNARY)
    op.register_fake(lambda x: t.empty_like(x))
    op.register_autograd(lambda ctx, g: g * 2)
    return op


def without_fake(t):
    return defined(t, lambda x: x * 2, schema=UNARY)


def without_formula(t):
    op = without_fake(t)
    op.register_fake(lambda x: t.empty_like(x))
    return op


def fakes(fake):
    def make(t):
        op = without_fake(t)
        op.register_fake(lambda x: fake(t, x))
        return op

    return make


def secretly_changing(t):
    op = defined(t, lambda x: x.add_(1).clone(), schema=UNARY)
    op.register_fake(lambda x: t.empty_like(x))
    return op


def falsely_changing(t):
    op = defined(t, lambda x: x.clone(), schema="(Tensor(a!) x) -> Tensor", mutates_args=("x",))
    op.register_fake(lambda x: t.empty_like(x))
    return op


def changing(t):
    return defined(t, no_result(lambda x: x.add_(1)), schema="(Tensor(a!) x) -> ()", mutates_args=("x",))


KEPT: list = []


def of_library(function):
    def make(t):
        lib = t.library.Library(space(), "FRAGMENT")
        lib.define(f"op{UNARY}")
        lib.impl("op", lambda x: function(x), "CPU")
        lib.impl("op", lambda x: t.empty_like(x), "Meta")
        KEPT.append(lib)
        return getattr(t.ops, lib.ns).op.default

    return make


def numpy_kernel(t):
    op = defined(t, lambda x: t.from_numpy(np.exp(x.numpy())), schema=UNARY)
    op.register_fake(lambda x: t.empty_like(x))
    op.register_autograd(
        lambda ctx, g: g * ctx.saved_tensors[0], setup_context=lambda ctx, inputs, output: ctx.save_for_backward(output)
    )
    return op


def lists(t):
    op = defined(t, lambda xs, n: [x * n for x in xs], schema="(Tensor[] xs, int n) -> Tensor[]")
    op.register_fake(lambda xs, n: [t.empty_like(x) for x in xs])
    op.register_autograd(
        lambda ctx, g: ([q * ctx.n for q in g], None),
        setup_context=lambda ctx, inputs, output: setattr(ctx, "n", inputs[1]),
    )
    return op


MAKERS = {
    "good": good, "without fake": without_fake, "without formula": without_formula,
    "secretly changing": secretly_changing,
    "falsely changing": falsely_changing, "changing": changing, "numpy": numpy_kernel,
    "fake of another shape": fakes(lambda t, x: t.empty(x.shape[0])),
    "fake of another dtype": fakes(lambda t, x: t.empty_like(x, dtype=t.int32)),
    "fake of other strides": fakes(lambda t, x: t.empty(x.shape[1], x.shape[0]).t()),
    "fake of another kind": fakes(lambda t, x: (t.empty_like(x),)),
    "library": of_library(lambda x: x * 2), "library, aliasing": of_library(lambda x: x),
    "library, viewing": of_library(lambda x: x[:]), "aten": lambda t: t.ops.aten.sin.default,
}  # fmt: skip


def outcome(found):
    """Which checks passed, and what the others raised."""
    return {name: value if value == "SUCCESS" else type(value).__name__ for name, value in found.items()}


@pytest.mark.parametrize("requires_grad", [False, True])
@pytest.mark.parametrize("name", MAKERS)
def test_what_each_check_finds(name, requires_grad):
    def script(t):
        x = t.arange(6.0).reshape(2, 3).requires_grad_(requires_grad)
        found = outcome(t.library.opcheck(MAKERS[name](t), (x,), raise_exception=False))
        if name.startswith("library") and requires_grad:
            del found["test_aot_dispatch_dynamic"]  # PyTorch's programs lose such gradients, ours have them
        return found, x

    agree(script)


def test_lists_of_tensors():
    agree(
        lambda t: outcome(
            t.library.opcheck(lists(t), ([t.ones(2, requires_grad=True), t.ones(3)], 3), raise_exception=False)
        )
    )


def test_arguments_by_keyword():
    agree(lambda t: outcome(t.library.opcheck(lists(t), ([t.ones(2)],), {"n": 3}, raise_exception=False)))


def test_numpy_kernels_that_write():
    t = torchlike
    x, y = t.ones(3), t.zeros(3)
    assert set(t.library.opcheck(through_numpy(t), (x, y)).values()) == {"SUCCESS"}
    assert y.tolist() == [0, 0, 0]


@pytest.mark.parametrize(
    "check, match",
    [
        (lambda t: t.library.opcheck(secretly_changing(t), (t.ones(2),)),
         "test_schema failed with Argument x is not defined as"),
        (lambda t: t.library.opcheck(of_library(lambda x: x)(t), (t.ones(2),)),
         "Argument x is not defined to alias output but"),
        (lambda t: t.library.opcheck(without_fake(t), (t.ones(2),)),
         "test_faketensor failed with There was no fake impl"),
        (lambda t: t.library.opcheck(MAKERS["fake of another shape"](t), (t.ones(2, 3),)),
         r"Shapes .*2, 3.*\[2\].* are not equal!"),
        (lambda t: t.library.opcheck(MAKERS["fake of another dtype"](t), (t.ones(2, 3),)),
         "Dtypes torch.float32 and torch.int32"),
        (lambda t: t.library.opcheck(MAKERS["fake of other strides"](t), (t.ones(2, 3),)),
         r"Strides are \(3, 1\) and \(1, 2\)"),
        (lambda t: t.library.opcheck(without_formula(t), (t.ones(2, requires_grad=True),)),
         "test_aot_dispatch_dynamic failed with Try"),
        (
            lambda t: t.library.opcheck(of_library(lambda x: x * 2)(t), (t.ones(2, requires_grad=True),)),
            "test_autograd_registration failed with .*at least one output of this operator has requires_grad=True",
        ),
        (lambda t: t.library.opcheck(good(t), (t.ones(2),), {"k": 1}), "test_schema failed with"),
        (lambda t: t.library.opcheck(good(t), (t.ones(2),), test_utils="foo"),
         r"test_utils=\('foo',\)\), expected test_utils to be"),
        (lambda t: t.library.opcheck("a::b", (t.ones(2),)),
         "op must be instance of torch._ops.OpOverload.*<class 'str'>"),
        (lambda t: t.library.opcheck(good(t), (t.ones(2),), atol=1), "specify one of rtol/atol, you must specify both"),
    ],
)  # fmt: skip
def test_the_first_failure_is_raised(check, match):
    agree_error(check, match)


@pytest.mark.parametrize(
    "utils",
    ["test_schema", ["test_schema", "test_faketensor"], ("test_aot_dispatch_static",), "test_aot_dispatch_dynamic", []],
)
def test_chosen_checks(utils):
    agree(lambda t: attempt(lambda: t.library.opcheck(good(t), (t.ones(2),), test_utils=utils)))


@pytest.mark.parametrize(
    "form", [lambda t, op: op, lambda t, op: op._opoverload, lambda t, op: op._opoverload.overloadpacket]
)
def test_forms_of_the_operator(form):
    agree(lambda t: t.library.opcheck(form(t, good(t)), [t.ones(2)], test_utils="test_schema", atol=1, rtol=1))
