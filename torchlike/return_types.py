"""``torch.return_types``: the classes of results with names."""

from torchlike._core.tensor.arguments import RETURN_TYPES
from torchlike.interop.alias import missing_names

globals().update(RETURN_TYPES)

__getattr__ = missing_names(__name__)
