"""The ways of quantizing that PyTorch names. Tensors are not quantized here; programs compare and keep the names."""

from __future__ import annotations


class QScheme:
    """How a quantized tensor would be scaled: one of the constants of this module."""

    __slots__ = ("name",)
    name: str

    def __new__(cls, *_: object) -> QScheme:
        raise TypeError("cannot create 'torch.qscheme' instances")

    def __repr__(self) -> str:
        return f"torch.{self.name}"

    def __reduce__(self) -> str:
        return self.name


QScheme.__name__ = QScheme.__qualname__ = "qscheme"  # its public name


def _made(name: str) -> QScheme:
    new = object.__new__(QScheme)
    new.name = name
    return new


per_tensor_affine = _made("per_tensor_affine")
per_channel_affine = _made("per_channel_affine")
per_tensor_symmetric = _made("per_tensor_symmetric")
per_channel_symmetric = _made("per_channel_symmetric")
per_channel_affine_float_qparams = _made("per_channel_affine_float_qparams")
NAMED = {name: found for name, found in globals().items() if isinstance(found, QScheme)}
