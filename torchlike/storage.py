"""``torch.storage``: the memory of tensors, as bytes or as elements."""

from torchlike._core.conversion.loaded import loaded_bytes as _load_from_bytes
from torchlike._core.tensor.untyped_storage import TypedStorage, UntypedStorage

__all__ = ["TypedStorage", "UntypedStorage", "_load_from_bytes"]
