"""``torch.distributed.checkpoint.utils``: parts of a state by the names that checkpoints have for them."""

from collections.abc import Mapping
from typing import Any

from torchlike._core.tensor.tensor import Tensor
from torchlike.distributed.checkpoint._chunks import is_described, pieces_of
from torchlike.distributed.checkpoint.metadata import MetadataIndex

__all__ = ["find_state_dict_object", "find_tensor_shard"]


def find_tensor_shard(tensor: Any, index: MetadataIndex) -> Tensor:
    """The part of a tensor that an index names. ValueError: it has no such part here."""
    if is_described(tensor):
        return tensor.__get_tensor_shard__(index)
    pieces = pieces_of(tensor)
    offsets = tuple(index.offset) if index.offset is not None else (0,) * tensor.dim()
    for piece in pieces:
        if tuple(piece.offsets) == offsets:
            return tensor if piece.tensor.shape == tensor.shape and type(tensor) is Tensor else piece.tensor
    raise ValueError(f"FQN: '{index.fqn}' is not a DTensor, can't find shard at index {index.offset}")


def find_state_dict_object(state_dict: Mapping[str, Any], index: MetadataIndex) -> Any:
    """What an index names. ValueError: there is none."""
    if index.fqn not in state_dict:
        raise ValueError(f"Could not find FQN: '{index.fqn}'")
    found = state_dict[index.fqn]
    if isinstance(found, Tensor):
        return find_tensor_shard(found, index)
    if index.offset is not None:
        raise ValueError(f"FQN: '{index.fqn}' is not a ShardedTensor, can't find by offset: '{index.offset}'")
    return found
