"""Tensors over many devices: meshes, specs of partition, and modules laid out by rules on their parameters' names."""

from jax.sharding import Mesh as Mesh
from jax.sharding import PartitionSpec as PartitionSpec

from torchlike.sharding._rules import distribute as distribute
from torchlike.sharding._shard import make_mesh as make_mesh
from torchlike.sharding._shard import replicate as replicate
from torchlike.sharding._shard import shard as shard
from torchlike.sharding._shard import sharding_of as sharding_of
from torchlike.sharding._shard import spec_of as spec_of
