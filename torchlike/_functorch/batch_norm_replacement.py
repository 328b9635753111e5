"""``replace_all_batch_norm_modules_`` where functorch has it."""

from torchlike.func._batch_norm import replace_all_batch_norm_modules_ as replace_all_batch_norm_modules_
from torchlike.interop.alias import missing_names

__getattr__ = missing_names(__name__)
