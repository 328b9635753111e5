"""torch._subclasses.fake_tensor: programs ask whether a tensor is fake; none is. The device ``meta`` has no numbers."""

from typing import Any

from torchlike.interop.alias import missing_names
from torchlike.interop.unbuilt import refused

FakeTensor = refused("torch._subclasses.fake_tensor", "FakeTensor")
FakeTensorMode = refused("torch._subclasses.fake_tensor", "FakeTensorMode")

__getattr__ = missing_names(__name__)


def is_fake(x: Any) -> bool:
    """False."""
    return False
