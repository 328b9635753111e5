"""What programs took from functorch's ``_src.eager_transforms``."""

from torchlike.interop.alias import missing_names

__getattr__ = missing_names(__name__)
