"""What ``torch._foreach_*`` takes: each overload as PyTorch's schema, and the operator that it is of each tensor."""

from functools import cached_property

from torchlike._core.dispatch.front import _compiled
from torchlike._decl.op import REGISTRY, Inplace
from torchlike._decl.schema import Schema

_UNARY = """
abs acos asin atan ceil cos cosh erf erfc exp expm1 floor frac lgamma log log10 log1p log2 neg reciprocal round rsqrt
sigmoid sign sin sinh sqrt tan tanh trunc
""".split()
# name.overload | arguments after the first | operator of one tensor, where its name is not the overload's
_BOTH = """
add.Scalar | Scalar scalar | add.Tensor
add.ScalarList | Scalar[] scalars | add.Tensor
add.Tensor | Tensor other, *, Scalar alpha=1 | add.Tensor
add.List | Tensor[] other, *, Scalar alpha=1 | add.Tensor
sub.Scalar | Scalar scalar | sub.Tensor
sub.ScalarList | Scalar[] scalars | sub.Tensor
sub.List | Tensor[] other, *, Scalar alpha=1 | sub.Tensor
mul.Scalar | Scalar scalar | mul.Tensor
mul.ScalarList | Scalar[] scalars | mul.Tensor
mul.Tensor | Tensor other | mul.Tensor
mul.List | Tensor[] other | mul.Tensor
div.Scalar | Scalar scalar | div.Tensor
div.ScalarList | Scalar[] scalars | div.Tensor
div.Tensor | Tensor other | div.Tensor
div.List | Tensor[] other | div.Tensor
clamp_max.Scalar | Scalar scalar | clamp_max
clamp_max.ScalarList | Scalar[] scalars | clamp_max
clamp_max.List | Tensor[] other | clamp_max.Tensor
clamp_min.Scalar | Scalar scalar | clamp_min
clamp_min.ScalarList | Scalar[] scalars | clamp_min
clamp_min.List | Tensor[] other | clamp_min.Tensor
maximum.Scalar | Scalar scalar | _maximum_number
maximum.ScalarList | Scalar[] scalars | _maximum_number
maximum.List | Tensor[] other | maximum
minimum.Scalar | Scalar scalar | _minimum_number
minimum.ScalarList | Scalar[] scalars | _minimum_number
minimum.List | Tensor[] other | minimum
pow.List | Tensor[] exponent | pow.Tensor_Tensor
pow.Scalar | Scalar exponent | pow.Tensor_Scalar
pow.ScalarList | Scalar[] exponent | pow.Tensor_Scalar
lerp.List | Tensor[] tensors1, Tensor[] weights | lerp.Tensor
lerp.Scalar | Tensor[] tensors1, Scalar weight | lerp.Scalar
lerp.ScalarList | Tensor[] tensors1, Scalar[] weight | lerp.Scalar
addcmul.Scalar | Tensor[] tensor1, Tensor[] tensor2, Scalar value=1 | addcmul
addcmul.ScalarList | Tensor[] tensor1, Tensor[] tensor2, Scalar[] scalars | addcmul
addcmul.Tensor | Tensor[] tensor1, Tensor[] tensor2, Tensor scalars | addcmul
addcdiv.Scalar | Tensor[] tensor1, Tensor[] tensor2, Scalar value=1 | addcdiv
addcdiv.ScalarList | Tensor[] tensor1, Tensor[] tensor2, Scalar[] scalars | addcdiv
addcdiv.Tensor | Tensor[] tensor1, Tensor[] tensor2, Tensor scalars | addcdiv
"""
# schema after _foreach_ | operator of one tensor
_ALONE = """
pow.ScalarAndTensor(Scalar self, Tensor[] exponent) -> Tensor[] | pow.Scalar
max(Tensor[] self) -> Tensor[] | max
norm.Scalar(Tensor[] self, Scalar ord=2, ScalarType? dtype=None) -> Tensor[] | linalg_vector_norm
powsum.Scalar(Tensor[] self, Scalar ord=2, ScalarType? dtype=None) -> Tensor[] | _powsum
mm(Tensor[] self, Tensor[] mat2) -> Tensor[] | mm
clone(Tensor[] self, *, MemoryFormat? memory_format=None) -> Tensor[] | clone
zero_(Tensor(a!)[] self) -> () | zero
copy_(Tensor(a!)[] self, Tensor[] src, bool non_blocking=False) -> () | copy
"""
_KEYWORDS = {"alpha": "alpha", "value": "value", "dtype": "dtype", "memory_format": "memory_format"}


class Form:
    """One overload. ``text`` is its schema; ``inplace``: whether it writes the tensors of its first list."""

    def __init__(self, text, operator):
        self.text, self.operator = text, operator
        self.inplace = text.endswith("()")

    @cached_property
    def schema(self):
        return Schema(self.text)

    @property
    def name(self):
        return self.schema.name

    @cached_property
    def op(self):
        """The operator of one tensor."""
        return REGISTRY[self.operator]

    @cached_property
    def target(self):
        """The kernel that runs: the operator, or its in-place form, which the public name need not have."""
        if not self.inplace:
            return self.op
        return self.op.inplace or Inplace(self.op)

    @cached_property
    def _front(self):
        return _compiled(self.op, "method", True, {})

    @cached_property
    def keywords(self):
        """{index of an argument: the name under which the operator takes it}."""
        packed = {"scalars": "value"} if self.operator in ("addcmul", "addcdiv") else {}
        names = _KEYWORDS | packed
        return {i: names[a.name] for i, a in enumerate(self.schema.args) if a.name in names}

    def calls(self, given):
        """(inputs, static arguments) of the operator for each tensor; ``given`` holds every argument."""
        length = next(len(x) for a, x in zip(self.schema.args, given, strict=True) if a.is_list)
        columns = [x if a.is_list else (x,) * length for a, x in zip(self.schema.args, given, strict=True)]
        named, front = self.keywords, self._front
        made = []
        for row in zip(*columns, strict=True):
            plain = [x for i, x in enumerate(row) if i not in named]
            _, _, inputs, static, _ = front(*plain, **{name: row[i] for i, name in named.items()})
            made.append((inputs, static))
        return made


def _forms():
    for name in _UNARY:
        yield f"{name}(Tensor[] self) -> Tensor[]", name
        yield f"{name}_(Tensor(a!)[] self) -> ()", name
    for line in _BOTH.strip().splitlines():
        head, arguments, operator = line.split(" | ")
        name, _, overload = head.partition(".")
        yield f"{name}.{overload}(Tensor[] self, {arguments}) -> Tensor[]", operator
        yield f"{name}_.{overload}(Tensor(a!)[] self, {arguments}) -> ()", operator
    for line in _ALONE.strip().splitlines():
        yield tuple(line.split(" | "))


def forms():
    """{name: its overloads}."""
    found = {}
    for text, operator in _forms():
        name = "_foreach_" + text[: text.index("(")].partition(".")[0]
        found.setdefault(name, []).append(Form("_foreach_" + text, operator))
    return found
