"""The declarations: schemas as in PyTorch, nothing invented, nothing twice, formulas that are derivatives."""

import importlib
import pkgutil

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch

import torchlike
from torchlike._decl import derive
from torchlike._decl.op import EXTENSIONS, REGISTRY, VARIANTS, ViewOp, demand_consistent, op, pointwise, view
from torchlike._decl.schema import Schema, SchemaError

OPS = list(REGISTRY.values())
# Random operators take their random words as an argument; composites with PyTorch's signature call them.
PUBLIC = [o for o in OPS if o.variants & {"function", "method"} and "words" not in [a.name for a in o.schema.args]]


def named(ops):
    return pytest.mark.parametrize("op", ops, ids=lambda o: o.full_name)


def real_schema(op):
    """PyTorch's schema of the same name and overload, or None."""
    packet = getattr(torch.ops.aten, op.schema.name, None)
    overload = op.schema.overload or "default"
    return getattr(packet, overload)._schema if packet is not None and overload in packet.overloads() else None


# -- schemas -------------------------------------------------------------------------------------------


@named(OPS)
def test_schemas_survive_being_printed(op):
    again = Schema(str(op.schema))
    assert again.args == op.schema.args and again.returns == op.schema.returns
    spelled = ", ".join(map(str, op.schema.args))
    assert [a.name for a in Schema(f"f({spelled}) -> Tensor").args] == [a.name for a in op.schema.args]
    assert REGISTRY[op.full_name] is op


KINDS = {"number": {"Scalar", "float"}, "float": {"float", "Scalar"}, "int": {"int", "dtype"}}


@named(PUBLIC)
def test_public_schemas_are_pytorch_s(op):
    real = real_schema(op)
    assert real is not None, f"PyTorch has no {op.full_name}"
    assert [a.name for a in op.schema.args] == [a.name for a in real.arguments], f"PyTorch: {real}"
    for ours, theirs in zip(op.schema.args, real.arguments, strict=True):
        kind = str(theirs.type).replace("Optional[", "").replace("List[", "").rstrip("]")
        assert ours.kind in KINDS.get(kind, {kind}), f"{ours} is of another kind than in {real}"
        assert ours.is_list == ("List[" in str(theirs.type)), f"{ours}; PyTorch: {real}"
        assert ours.optional == ("Optional[" in str(theirs.type)), f"{ours}; PyTorch: {real}"
        assert ours.kwarg_only == theirs.kwarg_only, f"{ours}; PyTorch: {real}"
        assert ours.has_default == theirs.has_default_value(), f"{ours}; PyTorch: {real}"
        if ours.has_default:
            assert same_default(ours.default, theirs.default_value), f"{ours}; PyTorch: {real}"


def same_default(ours, theirs):
    if isinstance(theirs, list):  # `int[2] x=0` stands for (0, 0)
        ours = ours if isinstance(ours, tuple) else (ours,) * len(theirs)
        return ours == tuple(theirs)
    return ours == theirs or isinstance(ours, str) and isinstance(theirs, int)  # an enumeration's constant


def test_no_name_is_invented():
    """Whatever the registry makes public has its name from PyTorch."""
    homes = [torch, torch.Tensor, torch.nn.functional, torch.special, torch.linalg, torch.fft, torch._C._nn]
    for o in PUBLIC:
        name = o.schema.name
        names = name, name + "_", name.removeprefix("linalg_")
        assert any(hasattr(home, n) for home in homes for n in names), f"PyTorch has no {name}"
    missing = [o.full_name for o in PUBLIC if "method" in o.variants and not hasattr(torch.Tensor, o.schema.name)]
    missing += [o.full_name for o in OPS if "inplace" in o.variants and public_inplace(o) is None]
    assert not missing


def public_inplace(o):
    """The in-place form that PyTorch has, or True for operators that are private."""
    homes = torch.Tensor, torch.nn.functional, torch
    found = [getattr(home, o.schema.name + "_") for home in homes if hasattr(home, o.schema.name + "_")]
    return found[0] if found else o.schema.name.startswith("_") or None


@named(PUBLIC)
def test_public_forms_exist_and_are_documented(op):
    for variant, home in (("function", torchlike), ("method", torchlike.Tensor)):
        if variant in op.variants:
            found = getattr(home, op.schema.name, None)
            assert found is not None, f"{variant} {op.schema.name} is not bound"
            doc = found.fget.__doc__ if isinstance(found, property) else found.__doc__
            assert doc and doc.strip(), f"{variant} {op.schema.name} has no documentation"


@named(OPS)
def test_declarations_are_consistent(op):
    assert op.variants <= VARIANTS
    assert not (op.nondiff and max(op.nondiff) >= len(op.schema.returns))
    assert set(op.dynamic) | set(op.static) == set(op.schema.args)
    if isinstance(op, ViewOp):
        assert op.schema.is_view and callable(op.read) and callable(op.write) and callable(op.prepare)
    if "inplace" in op.variants:
        assert op.inplace.op is op and op.dynamic[0].is_tensor


def test_kernels_and_formulas_fit_their_schemas():
    """Also of operators that an import leaves aside."""
    for module in pkgutil.iter_modules(torchlike._ops.__path__):
        importlib.import_module(f"torchlike._ops.{module.name}")
    checked = [o for o in (*REGISTRY.values(), *EXTENSIONS.values()) if not isinstance(o, ViewOp)]
    for o in checked:
        demand_consistent(o)
    assert len(checked) > 570


REFUSED = {
    "malformed schema": (lambda: op("f(Tensor self"), "not a schema"),
    "malformed argument": (lambda: op("f(Tensor) -> Tensor"), "expected ident but found"),
    "twice": (lambda: op("exp(Tensor self) -> Tensor")(lambda self: self), "declared twice"),
    "view twice": (
        lambda: view("t(Tensor(a) self) -> Tensor(a)", prepare=None, write=None)(lambda self: self),
        "declared twice",
    ),
    "other parameters": (lambda: op("f(Tensor self) -> Tensor")(lambda x: x), r"kernel takes \['x'\], schema has"),
    "unknown variant": (
        lambda: op("f(Tensor self) -> Tensor", variants="macro")(lambda self: self),
        "unknown variants",
    ),
    "formula of an unknown name": (
        lambda: pointwise("f(Tensor self) -> Tensor", vjp={"self": lambda grad, reslt: grad})(lambda self: self),
        r"asks for \['reslt'\]; known: ",
    ),
    "formula for an unknown input": (
        lambda: pointwise("f(Tensor self) -> Tensor", vjp={"x": lambda grad: grad})(lambda self: self),
        "vjp for unknown input",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_bad_declarations_are_refused(name):
    declare, match = REFUSED[name]
    before = dict(REGISTRY)
    with pytest.raises(SchemaError, match=match) as refused:
        declare()
    assert "f(" in str(refused.value) or "exp" in str(refused.value) or "t" in str(refused.value)
    assert before == REGISTRY


# -- formulas ------------------------------------------------------------------------------------------


def sample(op):
    """(values, wanted) of a call on random numbers between 0.2 and 0.8, away from every kink."""
    rng, values, wanted = np.random.RandomState(0), [], []
    for i, arg in enumerate(op.dynamic):
        if arg.is_tensor:
            wanted.append(i)
            values.append(jnp.asarray(rng.uniform(0.2, 0.8, (3, 4))))
        else:
            values.append(None if arg.has_default else 0.4)
    return values, tuple(wanted)


def static_of(op):
    return tuple(a.default if a.has_default else None for a in op.static)


def differentiable(op):
    """Whether PyTorch's formula and jax's derivative can be compared on the sample."""
    values, wanted = sample(op)
    try:
        out = jax.eval_shape(op.forward(static_of(op)), *values)
    except Exception:  # it wants integers, matrices, an argument without default...
        return False
    refuses = any(hasattr(f, "error") for f in op.formulas.values())
    return bool(wanted) and not refuses and not isinstance(out, tuple) and jnp.issubdtype(out.dtype, jnp.inexact)


FORMULAS = [o for o in OPS if o.pointwise and o.formulas and not o.lists and differentiable(o)]


def gradients(op, plan, values, grad):
    saved = [values[i] for i in plan.inputs]
    saved += [op.forward(static_of(op))(*values)] * len(plan.outputs)
    arguments = [*saved, grad]
    results = plan.kernel.forward(())(*arguments) if plan.kernel else ()
    results = results if isinstance(results, tuple) else (results,)
    return results if plan.route is None else plan.routed(arguments, results)


@named(FORMULAS)
def test_formulas_are_the_derivatives_of_their_kernels(op):
    values, wanted = sample(op)
    wanted = tuple(i for i in wanted if any(op.dynamic[i].name in names for names in op.formulas))
    avals = [derive.aval(v) for v in values]
    plan = derive.formula_plan(op, static_of(op), avals, wanted)
    try:
        reference = derive.default_plan(op, static_of(op), avals, wanted)
    except NotImplementedError as error:
        pytest.skip(f"jax cannot differentiate the kernel: {error}")
    shape = plan.outs[0]
    grad = jnp.asarray(np.random.RandomState(1).standard_normal(shape.shape)).astype(shape.dtype)
    ours, expected = gradients(op, plan, values, grad), gradients(op, reference, values, grad)
    for got, want, i in zip(ours, expected, wanted, strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-6, atol=1e-9, err_msg=f"{op.full_name}: {op.dynamic[i].name}")


def test_enough_formulas_are_compared():
    assert len(FORMULAS) > 40


@named([REGISTRY[n] for n in ("add.Tensor", "neg", "sub.Tensor", "clone", "transpose.int", "sum.dim_IntList")])
def test_linear_operators_save_nothing(op):
    static = {"sum.dim_IntList": ((0,), False, None), "transpose.int": (0, 1)}.get(op.full_name, static_of(op))
    values = [jnp.ones((3, 4)) if a.is_tensor else None for a in op.dynamic]
    wanted = tuple(i for i, a in enumerate(op.dynamic) if a.is_tensor)
    plan = op.derivative(static, [derive.aval(v) for v in values], wanted)
    assert plan.inputs == () and plan.outputs == ()


def test_what_a_derivative_does_not_read_is_not_saved():
    """d(xy)/dx needs y alone, of which dead-code elimination on the derivative's jaxpr tells."""
    mul = REGISTRY["mul.Tensor"]
    avals = [jax.ShapeDtypeStruct((2,), jnp.float32)] * 2
    assert mul.derivative((), avals, (0,)).names == ("other",)
    assert mul.derivative((), avals, (1,)).names == ("self",)
    assert set(mul.derivative((), avals, (0, 1)).names) == {"self", "other"}


# -- compiled kernels ----------------------------------------------------------------------------------


def test_kernels_follow_the_default_dtype():
    """Kernels read it while they are traced; a change swaps the compiled ones, and back."""
    x = torchlike.tensor([1, 4])
    for dtype in (torchlike.float32, torchlike.float64, torchlike.float32, torchlike.float64):
        before = torchlike.get_default_dtype()
        torchlike.set_default_dtype(dtype)
        try:
            assert x.sqrt().dtype is (x * 0.5).dtype is (x / 2).dtype is dtype
        finally:
            torchlike.set_default_dtype(before)


def test_resetting_a_kernel_loses_nothing():
    exp = REGISTRY["exp"]
    x = torchlike.ones(2, requires_grad=True)
    y = x.exp()
    exp.reset()
    y.sum().backward()
    x.exp().sum().backward()
    assert x.grad.tolist() == pytest.approx([2 * np.e] * 2, rel=1e-6)
