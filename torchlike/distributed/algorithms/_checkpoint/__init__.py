"""``torch.distributed.algorithms._checkpoint``: activation checkpointing of chosen modules."""
