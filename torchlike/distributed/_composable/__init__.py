"""Older places of what changes modules in place: :mod:`torchlike.distributed._composable.fsdp`."""

from torchlike.distributed._composable import fsdp as fsdp
