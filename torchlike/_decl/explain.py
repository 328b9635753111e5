"""What one declaration gives: every name it answers to, its dtype rule, its derivative.

``python -m torchlike explain amax`` prints it; the table of operators in the documentation is made of it.
"""

from torchlike._decl.op import REGISTRY, Op, ViewOp, parameters


def surface(op: Op) -> list[str]:
    """Every public name of an operator: function, method, in-place, ``out=``, Python operator."""
    name = op.schema.name
    names = [f"torch.{name}"] * ("function" in op.variants)
    names += [f"Tensor.{name}"] * ("method" in op.variants)
    names += [f"Tensor.{name}_"] * ("inplace" in op.variants)
    names += [f"torch.{name}(out=)"] * ("out" in op.variants)
    return names + ([f"{op.operator}"] if op.operator else [])


def derivative(op: Op) -> str:
    """How the operator is differentiated, in a few words."""
    if op.formulas is None:
        return "view" if isinstance(op, ViewOp) else "jax.vjp"
    return "formula" if op.formulas else "none"


def saved(op: Op) -> list[str]:
    """What explicit formulas keep for the backward."""
    kept = {a.name for a in op.dynamic} | {"result", *(op.result_names or ())}
    formulas: dict = op.formulas or {}
    return sorted({p for f in formulas.values() for p in parameters(f)} & kept)


def describe(op: Op) -> str:
    """A readable account of one declaration."""
    lines = [str(op.schema), f"  names       {', '.join(surface(op)) or 'internal'}", f"  node        {op.node}"]
    lines += [f"  dtypes      {op.dtype}", f"  derivative  {derivative(op)}"]
    if op.formulas:
        lines.append(f"  saves       {', '.join(saved(op)) or 'nothing'}")
    lines.append(f"  runtime     {', '.join(a.name for a in op.dynamic)}")
    lines.append(f"  static      {', '.join(a.name for a in op.static) or 'nothing'}")
    return "\n".join(lines)


def find(name: str) -> list[Op]:
    """The declarations of a name, with or without its overload."""
    return [op for key, op in REGISTRY.items() if name in (key, op.schema.name)]
