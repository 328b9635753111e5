"""How PyTorch hands over calls: which of its functions are Python, which operator is which method, what stays aside.

Facts about PyTorch, found by running it. A function that it has in Python gives its handler every parameter that has a
default by keyword, and a dict even where there is none; one in C++ gives the arguments as they came, and None.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from types import FunctionType
from typing import TYPE_CHECKING, Any

from torchlike._core.overrides import doors

if TYPE_CHECKING:
    from torchlike._core.overrides.torch_function import Overridable
    from torchlike._decl.op import Op

_FUNCTIONAL = frozenset("""
atleast_1d atleast_2d atleast_3d block_diag broadcast_tensors cartesian_prod cdist chain_matmul einsum lu meshgrid
norm split stft tensordot unique unique_consecutive unravel_index pca_lowrank svd_lowrank
""".split())  # fmt: skip
_PYTHON = {
    "torch": _FUNCTIONAL,
    "torch.functional": _FUNCTIONAL,
    "torch.nn.init": frozenset(["constant_", "kaiming_uniform_", "normal_", "uniform_"]),
    "torch.Tensor": frozenset("""
__array__ __array_wrap__ __contains__ __deepcopy__ __dir__ __dlpack__ __dlpack_device__ __floordiv__ __format__
__ipow__ __len__ __pow__ __rdiv__ __reduce_ex__ __repr__ __reversed__ __rfloordiv__ __rlshift__ __rmatmul__ __rmod__
__rpow__ __rrshift__ __rsub__ __rtruediv__ backward is_shared lu norm register_hook register_post_accumulate_grad_hook
resize resize_as split stft storage unflatten unique unique_consecutive
""".split()),
}  # fmt: skip
# Those of torch.nn.functional that PyTorch has in C++.
_BUILT_IN = frozenset("""
adaptive_avg_pool1d avg_pool1d avg_pool2d avg_pool3d bilinear channel_shuffle conv1d conv2d conv3d conv_tbc
conv_transpose1d conv_transpose2d conv_transpose3d cosine_similarity gelu hardshrink linear logsigmoid
native_channel_shuffle one_hot pairwise_distance pdist pixel_shuffle pixel_unshuffle prelu
scaled_dot_product_attention softplus softshrink celu_ elu_ hardtanh_ leaky_relu_ relu_ rrelu_ selu_ threshold_
""".split())  # fmt: skip

# Functions that read their first argument as data, whatever it overrides; modes see them.
_OF_DATA = frozenset(["torch.as_tensor", "torch.asarray", "torch.tensor", "torch.can_cast", "torch.promote_types"])
# Names of torch that are no functions of tensors: they ask for or set a state, or read foreign data.
ASIDE = frozenset("""
are_deterministic_algorithms_enabled broadcast_shapes compile compiled_with_cxx11_abi cond default_generator
enable_grad from_dlpack from_jax_array from_numpy frombuffer get_default_device get_default_dtype
get_deterministic_debug_mode get_float32_matmul_precision get_num_interop_threads get_num_threads get_rng_state
initial_seed inference_mode is_anomaly_check_nan_enabled is_anomaly_enabled
is_deterministic_algorithms_warn_only_enabled is_grad_enabled is_inference_mode_enabled is_tensor
is_warn_always_enabled load manual_seed no_grad save seed set_default_device set_default_dtype
set_deterministic_debug_mode set_float32_matmul_precision set_grad_enabled set_num_interop_threads set_num_threads
set_printoptions set_rng_state set_warn_always typename use_deterministic_algorithms
""".split())  # fmt: skip
# Python's operators that are methods under another name.
_OPERATORS = dict(pair.split(":") for pair in """
__add__:add __radd__:add __iadd__:add_ __sub__:sub __isub__:sub_ __mul__:mul __rmul__:mul __imul__:mul_
__truediv__:div __div__:div __itruediv__:div_ __idiv__:div_ __mod__:remainder __imod__:remainder_ __matmul__:matmul
__rand__:bitwise_and __ror__:bitwise_or __rxor__:bitwise_xor __ne__:ne __lt__:lt __le__:le __gt__:gt __ge__:ge
__rdiv__:__rtruediv__ __neg__:neg __abs__:abs __pos__:positive __long__:__int__ __nonzero__:__bool__
""".split())  # fmt: skip
_QUIET = frozenset(
    ["__eq__", "__and__", "__or__", "__xor__", "__iand__", "__ior__", "__ixor__", "__lshift__", "__rshift__",
     "__ilshift__", "__irshift__", "__floordiv__", "__rfloordiv__", "__ifloordiv__", "__pow__", "__rpow__", "__ipow__",
     "__rsub__", "__rtruediv__", "__rdiv__", "__rmod__", "__rlshift__", "__rrshift__", "__rmatmul__",
     *[name for name in _OPERATORS if name not in ("__neg__", "__abs__", "__pos__", "__long__", "__nonzero__")]]
)  # fmt: skip
# What of a class is no operation on a tensor.
_NOT_METHODS = frozenset("""
__class__ __copy__ __getattr__ __getattribute__ __hash__ __init__ __init_subclass__ __iter__ __jax_array__ __new__
__numpy_dtype__ __setattr__ __setstate__ __sizeof__ __str__ __torch_function__ __torch_dispatch__ as_subclass jax
""".split())  # fmt: skip
_PRIVATE = frozenset("""
_backward_hooks _base _cdata _coalesced_ _conj _grad _grad_fn _indices _is_view _is_zerotensor _neg_view _nnz
_post_accumulate_grad_hooks _values _version
""".split())  # fmt: skip
# Functions of tensors that PyTorch does not list as overridable, though most are.
_UNLISTED = frozenset(f"torch.{name}" for name in """
Tensor.__abs__ Tensor.__delitem__ Tensor.__idiv__ Tensor.__neg__ Tensor.__pos__ Tensor.__rdiv__ Tensor._conj
Tensor._is_zerotensor Tensor._neg_view Tensor.eig Tensor.lstsq Tensor.new Tensor.new_empty
Tensor.new_empty_strided Tensor.new_full Tensor.new_ones Tensor.new_tensor Tensor.new_zeros Tensor.reinforce
Tensor.shard Tensor.solve Tensor.stride Tensor.symeig Tensor.to_padded_tensor Tensor.to_sparse_bsc
Tensor.to_sparse_bsr Tensor.to_sparse_coo Tensor.to_sparse_csc Tensor.to_sparse_csr Tensor.unflatten as_strided fill
nn.functional.grouped_mm nn.functional.hardsigmoid nn.functional.hardswish nn.functional.scaled_mm
nn.functional.sigmoid nn.functional.tanh nn.functional.upsample nn.functional.upsample_bilinear
nn.functional.upsample_nearest rand_like randint_like randn_like result_type segment_reduce set_default_tensor_type
sparse_bsc_tensor sparse_bsr_tensor sparse_csc_tensor sparse_csr_tensor vander
""".split())  # fmt: skip
# Parameters of methods that may be tensors.
_TENSORS = frozenset("""
other tensor src source mask weight weights target tensor1 tensor2 test_elements vec mat mat1 mat2 batch1 batch2
vec1 vec2 exponent values tensors like
""".split())  # fmt: skip


def place(of: str, name: str) -> str:
    """Where PyTorch has the function that its namespace ``of`` shows."""
    return "torch.functional" if of == "torch" and (name in _FUNCTIONAL or name == "istft") else of


def is_python(of: str, name: str) -> bool:
    """Whether PyTorch has it in Python."""
    if of == "torch.nn.functional":
        return name not in _BUILT_IN
    return of == "torch.distributed.distributed_c10d" or name in _PYTHON.get(of, ())


def is_of_self(of: str, name: str) -> bool:
    """Whether only the tensor whose method it is may override it: those that PyTorch has in Python, but operators."""
    return of == "torch.Tensor" and name in _PYTHON[of] and not name.startswith("__")


def is_lone(entry: Overridable) -> bool:
    """Whether it is a method that takes the tensor and nothing else."""
    if entry.place != "torch.Tensor":
        return False
    return len(inspect.signature(entry.original).parameters) == 1


def takes_input(entry: Overridable) -> bool:
    """Whether the first parameter of a function is the tensor that it is of."""
    return next(iter(inspect.signature(entry.original).parameters), "") in ("input", "self", "A")


def is_listed(of: str, name: str) -> bool:
    """Whether PyTorch lists what can be overridden under this name: getters, methods, functions not in place."""
    if of in ("torch.sparse", "torch.distributed.distributed_c10d") or f"{of}.{name}" in _UNLISTED:
        return False
    if of == "torch.Tensor":
        return "." not in name or name.endswith(".__get__")
    return not name.startswith("_") and not name.endswith("_")


def is_shared(of: str, name: str) -> bool:
    """Whether the function of torch.nn.functional is the one of that name in torch, where there is one."""
    return of == "torch.nn.functional" and name in _BUILT_IN


def takes_data(of: str, name: str) -> bool:
    return f"{of}.{name}" in _OF_DATA


def is_operator(of: str, name: str) -> bool:
    """Whether a TypeError out of it means that Python is to ask the other operand."""
    return of == "torch.Tensor" and name in _QUIET


def is_function(of: str, name: str, found: Any) -> bool:
    """Whether a name of a namespace is a function that can be overridden."""
    private = name.startswith("_") and f"_{name}" not in _PRIVATE and not name.startswith(("_foreach_", "_sym_"))
    if not isinstance(found, FunctionType) or private:
        return False
    if of == "torch":
        return name not in ASIDE and "autocast" not in name  # which asks for and sets a state, too
    return of != "torch.nn.init" or name in _PYTHON[of]


def is_method(name: str, found: Any) -> bool:
    """Whether an attribute of Tensor is a method that can be overridden."""
    if not isinstance(found, FunctionType) or name in _NOT_METHODS:
        return False
    return not name.startswith("_") or name in _PRIVATE or (name.startswith("__") and name.endswith("__"))


def is_property(name: str) -> bool:
    return not name.startswith("_") or name in _PRIVATE


def operators(attributes: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Pairs of a Python operator of Tensor and the method that it is."""
    return [(name, target) for name, target in _OPERATORS.items() if name in attributes and target in attributes]


def looks_early(function: FunctionType, name: str) -> bool:
    """Whether a method looks at its arguments before anything is armed: it may be given another tensor."""
    if doors.is_front(function) or name.startswith("__"):
        return False
    code = function.__code__
    return not _TENSORS.isdisjoint(code.co_varnames[1 : code.co_argcount + code.co_kwonlyargcount])


# -- arguments as they are handed over -------------------------------------------------------------


def binder(entry: Overridable) -> Callable[..., Any]:
    """A function of the arguments of a call that gives (args, kwargs) for handlers, or raises TypeError."""
    if "." in entry.name:
        return _as_given
    signature = inspect.signature(entry.original)
    parameters = list(signature.parameters.values())
    if entry.python:
        return _compiled(entry, parameters, _bound(entry, parameters))
    if [p.kind for p in parameters] == [inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD]:
        return _as_given
    check = _compiled(entry, parameters, "None")

    def checked(*args: Any, **kwargs: Any) -> tuple[tuple[Any, ...], dict[str, Any] | None]:
        check(*args, **kwargs)
        return args, kwargs or None

    return checked


def stand_in(entry: Overridable) -> Callable[..., Any]:
    """A function with the entry's signature that returns -1."""
    if "." in entry.name:
        names = ["self", "value"] if entry.name.endswith("__set__") else ["self"]
        parameters = [inspect.Parameter(n, inspect.Parameter.POSITIONAL_OR_KEYWORD) for n in names]
    else:
        ops = entry.door.behind.ops or ()
        given = inspect.signature(entry.original).parameters
        parameters = _of_overloads(ops, entry) if len(ops) > 1 else list(given.values())
    return _compiled(entry, parameters, "-1")


def _of_overloads(ops: Sequence[Op], entry: Overridable) -> list[inspect.Parameter]:
    """The parameters of all overloads; those that not all have are optional."""
    found: dict = {}
    for op in ops:
        for arg in op.schema.args:
            name = "input" if arg.name == "self" and entry.place != "torch.Tensor" else arg.name
            found.setdefault(name, []).append(arg)
    if any("out" in op.variants for op in ops) and entry.place != "torch.Tensor":
        found["out"] = []
    parameters = []
    for name, args in found.items():
        optional = len(args) < len(ops) or args[0].has_default
        only = not args or any(a.kwarg_only for a in args)
        kind = inspect.Parameter.KEYWORD_ONLY if only else inspect.Parameter.POSITIONAL_OR_KEYWORD
        default = (args[0].default if args and args[0].has_default else None) if optional else inspect.Parameter.empty
        parameters.append(inspect.Parameter(name, kind, default=default))
    return sorted(parameters, key=lambda p: (p.kind, p.default is not p.empty))


def _as_given(*args: Any, **kwargs: Any) -> tuple[tuple[Any, ...], dict[str, Any] | None]:
    return args, kwargs or None


def _bound(entry: Overridable, parameters: Sequence[inspect.Parameter]) -> str:
    """Source of the handed over (args, kwargs) of a function that PyTorch has in Python."""
    args, kwargs = [], []
    for p in parameters:
        if p.kind is p.VAR_POSITIONAL:
            args.append(f"*_flat({p.name})")
        elif p.kind is p.VAR_KEYWORD:
            kwargs.append(f"**{p.name}")
        elif p.default is p.empty and entry.place != "torch.nn.init":
            args.append(p.name)
        else:
            kwargs.append(f"{p.name!r}: {p.name}")
    return f"({''.join(a + ', ' for a in args)}), {{{', '.join(kwargs)}}}"


def _flat(given: tuple[Any, ...]) -> tuple[Any, ...]:
    """Tensors that were given as one sequence, perhaps after an equation, one by one."""
    if 0 < len(given) <= 2 and isinstance(given[-1], list | tuple):
        return (*given[:-1], *given[-1])
    return given


def _compiled(entry: Overridable, parameters: Sequence[inspect.Parameter], result: str) -> Callable[..., Any]:
    """A function with the given parameters that returns what ``result``, a source, says."""
    env = {
        "__name__": __name__,
        "_flat": _flat,
        **{f"_d_{p.name}": p.default for p in parameters if p.default is not p.empty},
    }
    parts, star = [], False
    for p in parameters:
        if p.kind is p.VAR_POSITIONAL:
            star = True
        elif p.kind is p.KEYWORD_ONLY and not star:
            parts.append("*")
            star = True
        prefix = {p.VAR_POSITIONAL: "*", p.VAR_KEYWORD: "**"}.get(p.kind, "")  # type: ignore[call-overload]
        parts.append(prefix + p.name + ("" if p.default is p.empty else f"=_d_{p.name}"))
    name = entry.name.partition(".")[0]
    exec(f"def {name}({', '.join(parts)}):\n    return {result}", env)
    return env[name]
