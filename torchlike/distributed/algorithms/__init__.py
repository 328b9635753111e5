"""``torch.distributed.algorithms``: ways to bring gradients together."""
