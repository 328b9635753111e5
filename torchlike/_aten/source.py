"""What ``torch.ops.aten`` holds: the declared operators in all their forms, and those that :func:`aten` adds."""

import re
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from torchlike._aten.packets import OpOverload, OpOverloadPacket, complete, ops
from torchlike._aten.tags import Tag
from torchlike._core.dispatch.front import _compiled
from torchlike._core.dispatch.out import call_out
from torchlike._decl.function_schema import parse_schema
from torchlike._decl.op import REGISTRY, Op


class Overload(NamedTuple):
    """One overload before anyone asked for it: its schema, what makes the callable, its tags."""

    text: str
    make: Callable[[], Callable]
    tags: tuple[Tag, ...] = ()


# Schemas that PyTorch has otherwise than the declaration, whose kernel takes more or less than its public operator.
_CORRECTED = {
    "_reshape_alias": "(Tensor(a) self, SymInt[] size, SymInt[] stride) -> Tensor(a)",
    "_unsafe_view": "(Tensor self, SymInt[] size) -> Tensor",
    "expand": "(Tensor(a) self, SymInt[] size, *, bool implicit=False) -> Tensor(a)",
    "split.Tensor": "(Tensor(a -> *) self, SymInt split_size, int dim=0) -> Tensor(a)[]",
    "split_with_sizes": "(Tensor(a -> *) self, SymInt[] split_sizes, int dim=0) -> Tensor(a)[]",
    "unbind.int": "(Tensor(a -> *) self, int dim=0) -> Tensor(a)[]",
    "_adaptive_avg_pool2d": "(Tensor self, SymInt[2] output_size) -> Tensor",
    "_adaptive_avg_pool3d": "(Tensor self, SymInt[3] output_size) -> Tensor",
    "repeat": "(Tensor self, SymInt[] repeats) -> Tensor",
    "tile": "(Tensor self, SymInt[] dims) -> Tensor",
    "tril": "(Tensor self, SymInt diagonal=0) -> Tensor",
    "triu": "(Tensor self, SymInt diagonal=0) -> Tensor",
    "kthvalue": "(Tensor self, SymInt k, int dim=-1, bool keepdim=False) -> (Tensor values, Tensor indices)",
    "topk": "(Tensor self, SymInt k, int dim=-1, bool largest=True, bool sorted=True)"
    " -> (Tensor values, Tensor indices)",
    "linalg_vander": "(Tensor x, *, SymInt? N=None) -> Tensor",
    "allclose": "(Tensor self, Tensor other, float rtol=1e-05, float atol=1e-08, bool equal_nan=False) -> bool",
    "equal": "(Tensor self, Tensor other) -> bool",
    "all.dims": "(Tensor self, int[]? dim=None, bool keepdim=False) -> Tensor",
    "any.dims": "(Tensor self, int[]? dim=None, bool keepdim=False) -> Tensor",
    "linalg_eigh": '(Tensor self, str UPLO="L") -> (Tensor eigenvalues, Tensor eigenvectors)',
    "linalg_eigvalsh": '(Tensor self, str UPLO="L") -> Tensor',
    "pdist": "(Tensor self, float p=2.) -> Tensor",
}
# In-place overloads that PyTorch calls otherwise than the operator itself.
_RENAMED = {
    "floor_divide_": "floor_divide_.Tensor", "ldexp_.Tensor": "ldexp_", "pow_.Tensor_Tensor": "pow_.Tensor",
    "pow_.Tensor_Scalar": "pow_.Scalar",
}  # fmt: skip
_NOT_INPLACE = frozenset(("hardshrink", "softplus", "softshrink"))
# Private names that are PyTorch's own; other private ones, and kernels over random words, are torchlike's alone.
_PYTORCHS = frozenset(
    "_reshape_alias _unsafe_view _to_copy _conj _neg_view _adaptive_avg_pool2d _adaptive_avg_pool3d "
    "_weight_norm_interface _euclidean_dist _prelu_kernel".split()
)
_OURS = frozenset(
    "softsign tanhshrink softmin local_response_norm native_batch_norm native_group_norm linalg_pinv "
    "linalg_matrix_rank rrelu".split()
)
# Names of the overload with out=, where it is not "out" nor made from the overload's own name.
_OUT = {
    "all": "all_out", "any": "all_out", "mean": "dtype_out", "max": "unary_out", "min": "unary_out",
    "kthvalue": "values", "mode": "values", "sort": "values", "topk": "values", "sort.stable": "values_stable",
    "linalg_cholesky_ex": "L", "qr": "Q", "linalg_svd": "U", "triangular_solve": "X", "linalg_inv_ex": "inverse",
    "max.dim": "dim_max", "min.dim": "dim_min", "median.dim": "dim_values", "nanmedian.dim": "dim_values",
    "max.other": "out", "min.other": "out", "sum.dim_IntList": "IntList_out", "prod.dim_int": "int_out",
    "div.Tensor_mode": "out_mode", "xlogy.Tensor": "OutTensor", "xlogy.Scalar_Self": "OutScalar_Self",
    "xlogy.Scalar_Other": "OutScalar_Other",
}  # fmt: skip
_PLAIN_OUT = frozenset("add sub mul div copysign ldexp mean all any var std".split())


def is_ours(op: Any) -> bool:
    """Whether an operator is a part of torchlike that PyTorch has no name for."""
    name = op.schema.name
    if any(a.name == "words" for a in op.schema.args) or name in _OURS:
        return True
    return name[0] == "_" and name not in _PYTORCHS


class Source:
    """The overloads of a namespace, by name; the declared ones are found when first asked for."""

    def __init__(self, namespace: str) -> None:
        self.namespace = namespace
        self.added: dict[str, dict[str, Overload]] = {}
        self._index: dict[str, dict[str, Overload]] | None = None

    @property
    def index(self) -> dict[str, dict[str, Overload]]:
        """{name: {overload: entry}}."""
        found = self._index
        if found is None:
            complete()
            found = {}
            for op in REGISTRY.values():
                if is_ours(op) == (self.namespace == "torchlike"):
                    for text, make, tags in _forms(op):
                        name, overload = _names(text)
                        found.setdefault(name, {}).setdefault(overload, Overload(text, make, tags))
            for name, overloads in self.added.items():
                found.setdefault(name, {}).update(overloads)
            self._index = found
        return found

    def add(self, entry: Overload) -> None:
        """One more overload."""
        name, overload = _names(entry.text)
        self.added.setdefault(name, {})[overload] = entry
        if self._index is not None:
            self._index.setdefault(name, {})[overload] = entry

    def names(self) -> Iterable[str]:
        return self.index

    def overloads(self, name: str) -> Iterable[str]:
        return self.index.get(name, ())

    def make(self, packet: OpOverloadPacket, overload: str) -> OpOverload:
        """The object of one overload."""
        entry = self.index[packet.__name__][overload]
        schema = parse_schema(f"{self.namespace}::{entry.text}")
        return OpOverload(packet, schema, _Late(entry.make), entry.tags)


class _Late:
    """A callable that is made on its first call."""

    __slots__ = ("_make", "_call")

    def __init__(self, make: Callable[[], Callable]) -> None:
        self._make = make
        self._call: Callable | None = None

    def __call__(self, /, *args: Any, **kwargs: Any) -> Any:
        call = self._call
        if call is None:
            call = self._call = self._make()
        return call(*args, **kwargs)


def _names(text: str) -> tuple[str, str]:
    name, _, overload = text[: text.index("(")].partition(".")
    return name, overload or "default"


def schema_text(op: Op) -> str:
    """The operator's schema as PyTorch has it."""
    tail = _CORRECTED.get(op.full_name)
    return re.sub(r" (result\d)(?=[,)])", "", op.schema.text) if tail is None else op.full_name + tail


def _forms(op: Op) -> Iterable[tuple[str, Callable[[], Callable], tuple[Tag, ...]]]:
    """(schema, maker, tags) of the operator itself, in place, with out= and with a number."""
    text = schema_text(op)
    name, overload = op.schema.name, op.schema.overload
    head, tail = text[: text.index("(")], text[text.index("(") :]
    kind = (Tag.pointwise,) if op.strides else ()
    yield text, lambda: _compiled(op, "method", False, {}), kind
    if op.inplace is not None and tail.startswith("(Tensor self") and name not in _NOT_INPLACE:
        changed = _changing(head.replace(name, name + "_", 1), tail)
        yield changed, lambda: _compiled(op, "inplace", False, {}), (Tag.inplace, *kind)
    if "out" in op.variants and op.full_name not in ("std", "var"):
        yield f"{name}.{out_name(op)}{_with_out(op, tail)}", lambda: _out_front(op), (Tag.out, *kind)
    if op.numbers and overload == "Tensor" and "Tensor other" in tail:
        yield from _scalar_forms(op, tail, kind)


def _scalar_forms(
    op: Op, tail: str, kind: tuple[Tag, ...]
) -> Iterable[tuple[str, Callable[[], Callable], tuple[Tag, ...]]]:
    """The overloads whose second operand is a number."""
    name = op.schema.name
    overload = "Tensor_Scalar" if name.endswith("_shift") else "Scalar"
    tail = tail.replace("Tensor other", "Scalar other").replace("*, Scalar alpha", "Scalar alpha")
    if f"{name}.{overload}" in REGISTRY:
        return
    yield f"{name}.{overload}{tail}", lambda: _by_position(_compiled(op, "method", False, {})), kind
    if op.inplace is not None:
        changed = _changing(f"{name}_.{overload}", tail)
        yield changed, lambda: _by_position(_compiled(op, "inplace", False, {})), (Tag.inplace, *kind)


def _changing(head: str, tail: str) -> str:
    """The schema of the in-place form."""
    args = tail.replace("(Tensor self", "(Tensor(a!) self", 1).rsplit(" -> ", 1)[0]
    return f"{_RENAMED.get(head, head)}{args} -> Tensor(a!)"


def _by_position(front: Callable) -> Callable:
    """``front`` with its keyword-only ``alpha`` as a third positional argument."""

    def scalar(self: Any, other: Any, *alpha: Any, **kwargs: Any) -> Any:
        return front(self, other, **({"alpha": alpha[0]} if alpha else kwargs))

    return scalar


def out_name(op: Op) -> str:
    """The overload with ``out=``."""
    overload = op.schema.overload
    found = _OUT.get(op.full_name)
    if found is not None:
        return found
    if not overload or overload in ("Tensor", "dim") and op.schema.name in _PLAIN_OUT:
        return "out"
    return f"{overload}_out"


def _results(op: Op) -> list[str]:
    """The names of the arguments that results are written into."""
    names = [name for _, name in op.schema.returns]
    if op.full_name in ("max.dim", "min.dim"):
        return [op.schema.name, "max_values" if op.schema.name == "max" else "min_indices"]
    if op.full_name == "triangular_solve":
        return ["X", "M"]
    return [n if n and len(names) > 1 else "out" if len(names) == 1 else f"out{i}" for i, n in enumerate(names)]


def _with_out(op: Op, tail: str) -> str:
    args = tail[1 : tail.rindex(") -> ")]
    names = _results(op)
    outs = ", ".join(f"Tensor({chr(97 + i)}!) {n}" for i, n in enumerate(names))
    star = "" if "*, " in args else "*, "
    kept = [n or "" for _, n in op.schema.returns]
    results = ", ".join(f"Tensor({chr(97 + i)}!) {n}".rstrip() for i, n in enumerate(kept))
    return f"({args}, {star}{outs}) -> " + (f"({results})" if len(names) > 1 else results)


def _out_front(op: Op) -> Callable:
    names = _results(op)
    front = _compiled(op, "method", True, {})

    def write(*args: Any, **kwargs: Any) -> Any:
        outs = tuple([kwargs.pop(n) for n in names])
        _, found, inputs, static, _ = front(*args, **kwargs)
        return call_out(found, inputs, static, outs if len(outs) > 1 else outs[0])

    return write


SOURCE, OWN = Source("aten"), Source("torchlike")
ops.aten._source, ops.torchlike._source = SOURCE, OWN


def aten(text: str, *tags: Tag) -> Callable[[Callable], OpOverload]:
    """Add the overload with this schema to ``torch.ops.aten``; the decorated function computes it."""

    def add(function: Callable) -> OpOverload:
        SOURCE.add(Overload(text, lambda: function, tags))
        name, overload = _names(text)
        return getattr(getattr(ops.aten, name), overload)

    return add


# The objects of operators: those that were declared for other namespaces, and those that have been asked for.
EXTENDED: dict[Any, OpOverload] = {}


def overload_of(op: Any) -> OpOverload:
    """The public object of a declared operator."""
    found = EXTENDED.get(op)
    if found is None:
        namespace = ops.torchlike if is_ours(op) else ops.aten
        found = EXTENDED[op] = getattr(getattr(namespace, op.schema.name), op.schema.overload or "default")
    return found


__all__ = ["EXTENDED", "OWN", "SOURCE", "Overload", "Source", "aten", "is_ours", "overload_of", "schema_text"]
