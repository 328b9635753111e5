"""torch.distributed.tensor._random: seeds of DTensors, which are those of all tensors."""

from torchlike._base.frames import warn
from torchlike.distributed.device_mesh import DeviceMesh
from torchlike.interop.refusing import refusing
from torchlike.random import manual_seed as _seed

__all__ = ["is_rng_supported_mesh", "manual_seed"]

__getattr__ = refusing(__name__, "random numbers of DTensors are those of one tensor, whatever their layout")


def is_rng_supported_mesh(device_mesh: DeviceMesh) -> bool:
    """Whether PyTorch has random numbers over a mesh: not over CPUs, of which it warns."""
    if device_mesh.device_type != "cpu":
        return True
    warn("DTensor random operators may not have complete support on cpu device mesh", UserWarning)
    return False


def manual_seed(seed: int, device_mesh: DeviceMesh) -> None:
    """``torch.manual_seed``, but over CPUs, where it warns and changes nothing, as PyTorch's."""
    if not isinstance(seed, int):
        raise AssertionError(f"seed must be an int, got {type(seed).__name__}")
    if is_rng_supported_mesh(device_mesh):
        _seed(seed)
    else:
        warn("DTensor manual_seed() may not have complete support on cpu device mesh", UserWarning)
