"""``torch._foreach_*``: each name and overload against PyTorch, with gradients, in place, over shared memory."""

import numpy as np
import pytest
import torch
from both import agree, agree_error
from dispatch_kit import log_mode, same_calls
from story_kit import said, story

import torchlike
from torchlike._executor import fused
from torchlike._functions.foreach import FORMS

SHAPES = [(3,), (), (2, 2), (0,)]


def lists(t, n, grad=False, dtype=None):
    """``n`` lists of positive tensors, one of them transposed."""
    rng, found = np.random.default_rng(5), []
    for _ in range(n):
        made = [t.tensor(rng.uniform(0.2, 0.8, s).tolist(), dtype=dtype or t.float64) for s in SHAPES]
        made[2] = made[2].t()
        found.append([x.requires_grad_() if grad else x for x in made])
    return found


def arguments(t, form, grad):
    """One argument for each of the schema: lists of tensors, lists of numbers, numbers."""
    args, made = form.schema.args, iter(lists(t, 4, grad))
    if form.name == "_foreach_mm":
        return [[t.ones(2, 3), t.ones(4, 2) * 2], [t.ones(3, 2), t.ones(2, 1)]]
    found = []
    for a in args:
        if a.is_list:
            found.append(next(made) if a.is_tensor else [2.0, 3, 0.5, 1.5])
        elif a.is_tensor:
            packed = form.operator in ("addcmul", "addcdiv")
            found.append(t.tensor([2.0, 3, 0.5, 1.5] if packed else 1.5, dtype=t.float64))
        elif a.kind == "Scalar" and not a.has_default:
            found.append(1.5)
    if form.operator == "max":
        found[0] = found[0][:3]
    return found


def shown(form, results):
    """PyTorch gives powers of a number the order of a contiguous tensor, which `pow` alone does not."""
    return [(r, r.shape if form.operator == "pow.Scalar" else r.stride(), r.is_leaf) for r in results]


ALL = [form for overloads in FORMS.values() for form in overloads]


@pytest.mark.parametrize("form", ALL, ids=[f"{f.name}.{f.schema.overload}" for f in ALL])
def test_each_overload(form):
    def run(t):
        given = arguments(t, form, False)
        results = getattr(t, form.name)(*given)
        return type(results).__name__, shown(form, results), given, form.inplace == (results is given[0])

    agree(run)


# PyTorch's own backward of _foreach_addcdiv fails on tensors without dimensions.
DIFFERENTIABLE = [
    f for f in ALL if f.operator not in ("_powsum", "addcdiv") and not f.inplace and f.name != "_foreach_mm"
    and not (f.schema.overload == "Tensor" and f.operator.startswith("addc"))
]  # fmt: skip


@pytest.mark.parametrize(
    "form", DIFFERENTIABLE[::3], ids=[f"{f.name}.{f.schema.overload}" for f in DIFFERENTIABLE[::3]]
)
def test_gradients(form):
    def run(t):
        given = arguments(t, form, True)
        results = getattr(t, form.name)(*given)
        leaves = [x for g in given if isinstance(g, list) for x in g if isinstance(x, t.Tensor)]
        grads = t.autograd.grad(sum(r.sum() for r in results), leaves, create_graph=True, allow_unused=True)
        return [g.detach() for g in grads]

    agree(run)


def test_every_name_of_pytorch_is_there():
    theirs = {n for n in dir(torch) if n.startswith("_foreach_")}
    assert {n for n in dir(torchlike) if n.startswith("_foreach_")} == theirs
    for name in theirs:
        packet = getattr(torch.ops.aten, name)
        texts = {str(getattr(packet, o)._schema).partition("::")[2] for o in packet.overloads() if "out" not in o}
        assert {str(f.schema) for f in FORMS[name]} == texts


@story
def test_gradients_of_maximum_at_ties(t):
    x, y = t.tensor([1.0, 2, 3], requires_grad=True), t.tensor([1.0, 5, 2], requires_grad=True)
    found = []
    for name in ("maximum", "minimum", "clamp_min", "clamp_max"):
        for other in ([y], 2.0, [2.0]):
            out = getattr(t, f"_foreach_{name}")([x], other)[0]
            found.append(t.autograd.grad(out.sum(), [x, y], allow_unused=True))
    return found


@story
def test_in_place_over_history(t):
    x = t.tensor([1.0, 2.0], requires_grad=True)
    a, b = x * 1, x * 2
    held = a.exp()
    t._foreach_mul_([a, b], [x, t.tensor(2.5)])
    t._foreach_addcmul_([b], [held], [x], 2)
    (a.sum() + b.sum()).backward()
    return a, b, x.grad, a._version, b._version, said(lambda: t._foreach_add_([x], 1), "a leaf Variable")


@story
def test_tensors_that_share_memory_one_after_the_other(t):
    y, z = t.ones(3), t.arange(3.0)
    t._foreach_mul_([y, y[:2], y], [2.0, 3.0, 5.0])
    t._foreach_add_([y, z], [z, y])
    t._foreach_copy_([y[1:], z], [z[1:].clone(), y])
    t._foreach_zero_([z[:1], z[2:]])
    return y, z, y._version, z._version


@story
def test_dtypes(t):
    a, b = t.tensor([1, 2]), t.tensor([True])
    out = [t._foreach_add([a, b], 1.5), t._foreach_exp([a, b]), t._foreach_maximum([a], 1.5), t._foreach_mul([a], True)]
    t._foreach_copy_([a], [t.tensor(2.5)])
    half = t._foreach_norm([t.full((300,), 300.0).half()], 1)
    return *out, a, half, t._foreach_norm([t.tensor([3.0, 4.0])], dtype=t.float64), t._foreach_pow(2, [a])


@story
def test_keywords_and_numbers_in_tensors(t):
    y = t.tensor([1.0, 2.0])
    return (
        t._foreach_add(self=[y], other=[y], alpha=2), t._foreach_add(self=(y,), scalar=2),
        t._foreach_sub([y], t.tensor(2.0)),
        t._foreach_pow([y], exponent=[2]), t._foreach_addcmul([y], [y], [y], t.tensor([2.0])),
        t._foreach_addcdiv([y], [y], [y], value=3), t._foreach_abs(self=[y]), t._foreach_norm([y], ord=1),
        t._foreach_clone([t.ones(2, 3, 4, 5)], memory_format=t.channels_last)[0].stride(),
    )  # fmt: skip


ERRORS = [
    (lambda t, y: t._foreach_add([], []), "at least one tensor"),
    (lambda t, y: t._foreach_abs([]), "at least one tensor"),
    (lambda t, y: t._foreach_mm([], []), "_foreach_mm requires non-empty"),
    (lambda t, y: t._foreach_add([y], [y, y]), "same number of tensors, got 1 and 2"),
    (lambda t, y: t._foreach_addcmul([y], [y], [y, y]), "same number of tensors, got 1 and 2"),
    (lambda t, y: t._foreach_add([y], [1.0, 2.0]), "same number of elements as scalar list"),
    (lambda t, y: t._foreach_lerp([y], [y], [0.5, 1]), "same number of elements as scalar list"),
    (lambda t, y: t._foreach_add(y, y), "_foreach_add.. received an invalid combination"),
    (lambda t, y: t._foreach_add([y], 2, alpha=2), "_foreach_add.. received an invalid combination"),
    (lambda t, y: t._foreach_add([y]), "_foreach_add.. received an invalid combination"),
    (lambda t, y: t._foreach_add([y], [y, None]), "expected Tensor as element 1 in argument 1, but got NoneType"),
    (lambda t, y: t._foreach_abs([1]), "expected Tensor as element 0 in argument 0, but got int"),
    (lambda t, y: t._foreach_abs(iter([y])), "'self' .position 1. must be tuple of Tensors, not list_iterator"),
    (lambda t, y: t._foreach_norm([y], "fro"), "argument 'ord' .* must be Number, not str"),
    (lambda t, y: t._foreach_add([y], [t.ones(3)]), "must match|shapes"),
    (lambda t, y: t._foreach_add_([t.ones(2, dtype=t.int64)], 1.5), "can't be cast"),
    (lambda t, y: t._foreach_add([y], t.ones(2)), "scalar tensor expected to be 0 dim but it has 1 dimensions"),
    (lambda t, y: t._foreach_addcmul([y], [y], [y], t.ones(2)), "length of scalars to match input of length 1"),
    (lambda t, y: t._foreach_addcmul([y], [y], [y], t.ones(1, 1)), "dimension 1. Got 2"),
    (lambda t, y: t._foreach_max([t.ones(0)]), "max"),
    (lambda t, y: t._foreach_norm([t.ones(0)], float("inf")), "norm on an empty tensor"),
    (lambda t, y: t._foreach_sub([y > 0], [y > 0]), "bool"),
    (lambda t, y: t._foreach_powsum([t.tensor([1])]), "not implemented for 'Long'"),
    (lambda t, y: t._foreach_powsum([y.clone().requires_grad_()])[0].backward(), "_foreach_powsum is not implemented"),
]  # fmt: skip


@pytest.mark.parametrize("n", range(len(ERRORS)))
def test_errors(n):
    f, match = ERRORS[n]
    agree_error(lambda t: f(t, t.tensor([1.0, 2.0])), match)


def test_numbers_in_a_tensor_have_no_gradient():
    y = torchlike.ones(1)
    with pytest.raises(NotImplementedError, match="_foreach_addcmul.*no gradient for the numbers"):
        torchlike._foreach_addcmul([y], [y], [y], torchlike.ones(1, requires_grad=True))


def test_a_failed_call_changes_nothing():
    a, b = torchlike.ones(2), torchlike.ones(3)
    with pytest.raises(RuntimeError, match="shapes"):
        torchlike._foreach_add_([a, b], [a, torchlike.ones(2)])
    assert (a == 1).all() and a._version == 0


def test_under_vmap_and_compile():
    def f(x):
        return torchlike._foreach_mul([x, x.sum()], [2.0, 3.0])

    x = torchlike.arange(6.0).reshape(3, 2)
    got, again = torchlike.func.vmap(f)(x), torchlike.compile(f)(x)
    assert torchlike.equal(got[0], x * 2) and torchlike.equal(got[1], x.sum(1) * 3)
    assert torchlike.equal(again[0], x * 2) and torchlike.equal(again[1], x.sum() * 3)


def test_one_program_for_a_list():
    xs = [torchlike.ones(2) for _ in range(5)]
    made = []
    before = fused.compiled.cache_info().misses
    for n in range(4):
        made.append(torchlike._foreach_mul_(xs, float(n)))
    assert fused.compiled.cache_info().misses - before <= 2  # a number is no part of a program
    assert all((x == 0).all() for x in xs)


def test_modes_see_the_call():
    same_calls(
        "x, y = torch.ones(2, requires_grad=True), torch.ones(2)\n"
        "torch._foreach_add([x, y], [y, x], alpha=2)\n"
        "torch._foreach_exp([y])\n"
        "torch._foreach_mul_([y, y], 2.0)\n"
        "torch._foreach_norm([y])\n"
    )


@story
def test_history_under_a_mode(t):
    x = t.tensor([1.0, 2.0], requires_grad=True)
    with log_mode(t):
        out = t._foreach_mul([x, x], [3.0, 4.0])
        a = x * 1
        t._foreach_mul_([a], [x])
    (out[0].sum() + out[1].sum() + a.sum()).backward()
    return x.grad


@story
def test_subclasses_see_the_call(t):
    seen = []

    class Own(t.Tensor):
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            seen.append(func.__name__)
            return super().__torch_function__(func, types, args, kwargs or {})

    x = t.ones(2).as_subclass(Own)
    return type(t._foreach_add([x], [x])[0]).__name__, seen
