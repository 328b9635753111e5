"""torch.distributed.checkpoint.planner_helpers: what planners of one's own are made of."""

from torchlike.distributed.checkpoint.default_planner import create_read_items_for_chunk_list

__all__ = ["create_read_items_for_chunk_list"]
