"""Notes on shapes and dtypes in code that people read."""

from typing import TYPE_CHECKING, Any

from torchlike._core.tensor.tensor import Tensor

if TYPE_CHECKING:
    from torchlike.fx.node import Node

SHORT = {
    "bfloat16": "bf16", "float64": "f64", "float32": "f32", "float16": "f16", "complex32": "c32", "complex64": "c64",
    "complex128": "c128", "int8": "i8", "int16": "i16", "int32": "i32", "int64": "i64", "bool": "b8", "uint8": "u8",
    "uint16": "u16", "uint32": "u32", "uint64": "u64", "float8_e4m3fn": "f8e4m3fn", "float8_e5m2": "f8e5m2",
    "float8_e4m3fnuz": "f8e4m3fnuz", "float8_e5m2fnuz": "f8e5m2fnuz",
}  # fmt: skip


def shape_note(node: "Node", include_stride: bool, include_device: bool) -> str:
    """``f32[2, 3]``: what is known of the value of a step, or nothing.

    What is known stands in ``meta`` under "val", "example_value", "tensor_meta" or is the dtype of a number.
    """
    for key in ("val", "example_value", "tensor_meta"):
        if key in node.meta:
            return _note(node.meta[key], include_stride, include_device)
    return ""


def _note(value: Any, stride: bool, device: bool) -> str:
    if isinstance(value, tuple | list) and not hasattr(value, "dtype"):
        return ""
    if isinstance(value, bool | int | float):
        return f"Sym({value})"
    if not isinstance(value, Tensor) and not hasattr(value, "dtype"):
        return ""
    short = SHORT.get(str(value.dtype).rpartition(".")[2], str(value.dtype))
    note = f"{short}{list(value.shape)}"
    if not isinstance(value, Tensor):
        return note
    return note + (f"{list(value.stride())}" if stride else "") + (f"{value.device}" if device else "")
