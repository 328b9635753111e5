"""The choice of attention kernels, masks, and attention with functions of the user: ``torch.nn.attention``."""

from torchlike.interop.lazy import on_first_use
from torchlike.nn.attention._backends import WARN_FOR_UNFUSED_KERNELS as WARN_FOR_UNFUSED_KERNELS
from torchlike.nn.attention._backends import SDPBackend as SDPBackend
from torchlike.nn.attention._backends import _backend_from_string as _backend_from_string
from torchlike.nn.attention._backends import _cur_sdpa_kernel_backends as _cur_sdpa_kernel_backends
from torchlike.nn.attention._backends import activate_flash_attention_impl as activate_flash_attention_impl
from torchlike.nn.attention._backends import current_flash_attention_impl as current_flash_attention_impl
from torchlike.nn.attention._backends import list_flash_attention_impls as list_flash_attention_impls
from torchlike.nn.attention._backends import register_flash_attention_impl as register_flash_attention_impl
from torchlike.nn.attention._backends import restore_flash_attention_impl as restore_flash_attention_impl
from torchlike.nn.attention._backends import sdpa_kernel as sdpa_kernel

__getattr__, __dir__ = on_first_use(__name__)
