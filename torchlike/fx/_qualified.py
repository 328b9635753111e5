"""What graphs call functions: PyTorch's own name for each, under which generated code finds it."""

import builtins
import operator
import sys
import types
import typing
from collections.abc import Callable
from typing import Any

from torchlike._aten.packets import OpOverload, OpOverloadPacket
from torchlike._core.tensor.tensor import Tensor

PACKAGE = __name__.partition(".")[0]

# PyTorch computes these in C++ and names their module so; the name of the function is the same but for RENAMED.
_IN_NN = frozenset(
    """
avg_pool2d avg_pool3d elu_ gelu hardtanh_ leaky_relu_ linear logsigmoid one_hot scaled_dot_product_attention softplus
softshrink
""".split()
)
_IN_FUNCTIONAL = frozenset(
    """
atleast_1d atleast_2d atleast_3d block_diag broadcast_shapes broadcast_tensors cartesian_prod cdist chain_matmul einsum
lu meshgrid norm split stft tensordot unique unique_consecutive unravel_index
""".split()
)
_IN_TORCH = frozenset(
    """
adaptive_avg_pool1d avg_pool1d bilinear celu_ channel_shuffle conv1d conv2d conv3d conv_tbc conv_transpose1d
conv_transpose2d conv_transpose3d cosine_similarity hardshrink native_channel_shuffle pairwise_distance pdist
pixel_shuffle pixel_unshuffle prelu relu_ rrelu_ selu_ threshold_
""".split()
)
_IN_RANDOM = frozenset("get_rng_state initial_seed manual_seed seed set_rng_state".split())
_RENAMED = {"logsigmoid": "log_sigmoid", "threshold": "_threshold"}


def public_module(module: str) -> str:
    """The module's name as users of PyTorch know it."""
    return "torch" + module[len(PACKAGE) :] if module == PACKAGE or module.startswith(PACKAGE + ".") else module


def target_name(func: Callable) -> str:
    """The name of a function without its module, as PyTorch has it."""
    return qualified_name(func).rpartition(".")[2] if is_ours(func) else str(func.__name__)


def is_ours(func: Any) -> bool:
    """Whether this package defines the function."""
    module = getattr(func, "__module__", None) or ""
    return isinstance(func, types.FunctionType) and (module == "torch" or module.startswith(("torch.", PACKAGE)))


def qualified_name(func: Callable) -> str:
    """The dotted name of a function or class by which generated code calls it.

    Raises RuntimeError for what has no module.
    """
    name = getattr(func, "__name__", None)
    if name is None:
        raise RuntimeError(f"cannot find module for {func}")
    if getattr(builtins, name, None) is func:
        return f"builtins.{name}" if func is getattr else str(name)
    if isinstance(func, OpOverload | OpOverloadPacket):
        return f"torch.ops.{func}"
    if is_ours(func):
        return _name_here(func, name)
    module = getattr(func, "__module__", None)
    if module is None:
        if getattr(Tensor, name, None) is func:
            return f"torch.Tensor.{name}"
        raise RuntimeError(f"cannot find module for {func}")
    if module in ("_operator", "operator"):
        return f"_operator.{name}"
    return f"{_home(func, public_module(module), name)}.{name}"


def _name_here(func: Any, name: str) -> str:
    """PyTorch's name of a function of this package."""
    if Tensor.__dict__.get(name) is func:
        return f"torch.Tensor.{name}"
    module = public_module(func.__module__)
    if module.startswith("torch._functions"):
        module = "torch"
    if module == "torch._C._switches":
        module = "torch._C"
    family = module.rpartition(".")[2]
    if module in ("torch.linalg", "torch.fft", "torch.special"):
        short = name if name.startswith(f"{family}_") else f"{family}_{name}"
        return f"torch._C._{family}.{short}"
    for family in ("linalg", "fft", "special"):
        if module == "torch" and name.startswith(f"{family}_"):
            return f"torch._C._{family}.{name}"
    if module in ("torch", "torch.nn.functional"):
        if name in _IN_NN:
            return f"torch._C._nn.{_RENAMED.get(name, name)}"
        if name in _IN_TORCH:
            return f"torch.{name}"
        if module == "torch" and (name in _IN_FUNCTIONAL or name in _IN_RANDOM):
            return f"torch.{'functional' if name in _IN_FUNCTIONAL else 'random'}.{name}"
    if module.startswith("torch._") and getattr(sys.modules[PACKAGE], name, None) is func:
        return f"torch.{name}"
    return f"{module}.{_RENAMED.get(name, name) if module == 'torch.nn.functional' else name}"


def _home(func: Any, module: str, name: str) -> str:
    """The module of a class or function, where PyTorch says another than Python."""
    if func is Tensor:
        return "torch"
    return "torch" if module.startswith("torch._") and not module.startswith("torch._C") else module


def type_text(kind: Any) -> str:
    """How str(graph) and the list of globals write a type."""
    if isinstance(kind, type) and not isinstance(kind, types.GenericAlias):
        if kind.__module__ == "builtins":
            return kind.__qualname__
        name = getattr(kind, "__name__", "")
        return f"{_home(kind, public_module(kind.__module__), name)}.{kind.__qualname__}"
    if kind is ...:
        return "..."
    if isinstance(kind, types.FunctionType):
        return kind.__name__
    if typing.get_origin(kind) is not None and typing.get_args(kind):
        return _generic_text(kind)
    return repr(kind)


def _generic_text(kind: Any) -> str:
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    if origin is typing.Union and len(arguments) == 2 and type(None) in arguments:
        inner = arguments[0] if arguments[1] is type(None) else arguments[1]
        return f"typing.Optional[{type_text(inner)}]"
    if isinstance(kind, types.UnionType):
        return " | ".join("None" if a is type(None) else type_text(a) for a in arguments)
    name = repr(kind).partition("[")[0]
    return f"{name}[{', '.join(type_text(a) for a in arguments)}]"


def is_operator(func: Any, names: Any) -> bool:
    """Whether ``func`` is the function of Python's ``operator`` of one of these names."""
    name = getattr(func, "__name__", "")
    return name in names and getattr(operator, name, None) is func
