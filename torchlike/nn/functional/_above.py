"""What ``torch.nn.functional`` has of what is imported later: ``torch.nn.grad``, and names that it uses in PyTorch."""

from typing import Any

from torchlike.interop.alias import missing_names
from torchlike.interop.lazy import on_first_use

_missing = missing_names("torchlike.nn.functional")
_of_nn = on_first_use("torchlike.nn")[0]
_of_overrides = (
    "handle_torch_function", "has_torch_function", "has_torch_function_unary", "has_torch_function_variadic",
)  # fmt: skip
_of_torch = on_first_use(
    "torchlike",
    {"Tensor": "_core.tensor.tensor", "boolean_dispatch": "_jit_internal", **dict.fromkeys(_of_overrides, "overrides")},
)[0]


def __getattr__(name: str) -> Any:
    if name == "grad":
        return _of_nn(name)
    return _of_torch(name) if name in ("Tensor", "boolean_dispatch", *_of_overrides) else _missing(name)
