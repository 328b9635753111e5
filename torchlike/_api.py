"""The names of the ``torch`` namespace."""

from math import e, inf, nan, pi  # noqa: E402,I001

import torchlike._functions.amp
import torchlike._functions.bags
import torchlike._functions.copy
import torchlike._functions.differences
import torchlike._functions.foreach
import torchlike._functions.fused
import torchlike._functions.gamma
import torchlike._functions.histograms
import torchlike._functions.indexing
import torchlike._functions.info
import torchlike._functions.like
import torchlike._functions.linalg
import torchlike._functions.lobpcg
import torchlike._functions.loops
import torchlike._functions.memory
import torchlike._functions.operators
import torchlike._functions.native
import torchlike._functions.pointwise
import torchlike._functions.products
import torchlike._functions.random
import torchlike._functions.random_like
import torchlike._functions.fake_quantization
import torchlike._functions.rare
import torchlike._functions.vendors
import torchlike._functions.rearrange
import torchlike._functions.reduce
import torchlike._functions.restructure
import torchlike._functions.shape
import torchlike._functions.quantized
import torchlike._functions.sparse
import torchlike._functions.spread
import torchlike._functions.stft
import torchlike._functions.view_copies
import torchlike._functions.weight_norm
import torchlike._functions.windows
import torchlike._aten.layer
import torchlike._aten.engine
import torchlike._aten.wrapper_subclass
import torchlike._core.autocast.layer
import torchlike._later
import torchlike._functions.recurrent
import torchlike.interop.jax_tree
import torchlike.nn.functional
import torchlike.random  # noqa: F401
from torchlike._base.device import device, set_default_device
from torchlike._base.dtypes import ALIASES, WIDE_NAMES, dtype, finfo, get_default_dtype, iinfo
from torchlike._base.once import is_warn_always_enabled, set_warn_always
from torchlike._base.promotion import can_cast, promote_types
from torchlike._base.state import (
    enable_grad,
    inference_mode,
    is_grad_enabled,
    is_inference_mode_enabled,
    no_grad,
    set_grad_enabled,
)
from torchlike._core.autocast.context import autocast
from torchlike._core.autocast.deprecated import (
    get_autocast_cpu_dtype,
    get_autocast_gpu_dtype,
    get_autocast_ipu_dtype,
    get_autocast_xla_dtype,
    is_autocast_cpu_enabled,
    is_autocast_ipu_enabled,
    is_autocast_xla_enabled,
    set_autocast_cpu_dtype,
    set_autocast_cpu_enabled,
    set_autocast_gpu_dtype,
    set_autocast_ipu_dtype,
    set_autocast_ipu_enabled,
    set_autocast_xla_dtype,
    set_autocast_xla_enabled,
)
from torchlike._core.autocast.settings import (
    autocast_decrement_nesting,
    autocast_increment_nesting,
    clear_autocast_cache,
    get_autocast_dtype,
    is_autocast_cache_enabled,
    is_autocast_enabled,
    set_autocast_cache_enabled,
    set_autocast_dtype,
    set_autocast_enabled,
)
from torchlike._core.autograd.anomaly import is_anomaly_check_nan_enabled, is_anomaly_enabled
from torchlike._core.autograd.inference_mode import is_inference
from torchlike._aten.tags import Tag
from torchlike._aten.packets import ops
from torchlike._core.autograd import fields as _autograd
from torchlike._aten import subclass
from torchlike._core.dispatch import bind
from torchlike._core.conversion import convert
from torchlike._core.overrides.torch_function import publish
from torchlike._core.conversion.factories import (
    arange,
    as_tensor,
    empty,
    from_dlpack,
    from_jax_array,
    from_numpy,
    full,
    ones,
    tensor,
    zeros,
)
from torchlike._core.tensor.printing import prints_as_tensor, set_printoptions
from torchlike._core.tensor.size import Size
from torchlike._base.qschemes import QScheme as qscheme
from torchlike._base.qschemes import (
    per_channel_affine,
    per_channel_affine_float_qparams,
    per_channel_symmetric,
    per_tensor_affine,
    per_tensor_symmetric,
)
from torchlike._core.tensor.tensor import MemoryFormat as memory_format
from torchlike._core.tensor.tensor import MemoryLayout as layout
from torchlike._core.tensor.tensor import (
    Tensor,
    channels_last,
    channels_last_3d,
    contiguous_format,
    jagged,
    preserve_format,
    sparse_bsc,
    sparse_bsr,
    sparse_coo,
    sparse_csc,
    sparse_csr,
    strided,
)
from torchlike._decl.settings import set_default_dtype
from torchlike._functions.generator import Generator, default_generator
from torchlike._functions.legacy import TYPED

convert.install()
_autograd.install()
prints_as_tensor(Tensor)
newaxis = None
legacy_contiguous_format = contiguous_format
subclass.install()
bind.FUNCTIONS.update(publish("torch", bind.FUNCTIONS))
_NAMES = {name: kind for name, kind in ALIASES.items() if name not in WIDE_NAMES}
globals().update(_NAMES)
globals().update(bind.FUNCTIONS)
globals().update(TYPED)

__all__ = [
    "Generator", "Size", "Tag", "Tensor", "arange", "as_tensor", "autocast", "autocast_decrement_nesting",
    "autocast_increment_nesting", "can_cast", "channels_last", "channels_last_3d", "clear_autocast_cache",
    "contiguous_format", "default_generator", "device", "dtype", "e", "empty", "enable_grad", "finfo",
    "from_dlpack", "from_jax_array", "from_numpy", "full", "get_autocast_cpu_dtype", "get_autocast_dtype",
    "get_autocast_gpu_dtype", "get_autocast_ipu_dtype", "get_autocast_xla_dtype", "get_default_dtype", "iinfo",
    "inf", "inference_mode", "is_anomaly_check_nan_enabled", "is_anomaly_enabled", "is_autocast_cache_enabled",
    "is_autocast_cpu_enabled", "is_autocast_enabled", "is_autocast_ipu_enabled", "is_autocast_xla_enabled",
    "is_grad_enabled", "is_inference", "is_inference_mode_enabled", "is_warn_always_enabled", "jagged",
    "layout",
    "legacy_contiguous_format",
    "memory_format", "nan", "newaxis", "no_grad", "ones", "ops", "per_channel_affine",
    "per_channel_affine_float_qparams", "per_channel_symmetric", "per_tensor_affine", "per_tensor_symmetric", "pi",
    "preserve_format", "promote_types", "qscheme",
    "set_autocast_cache_enabled", "set_autocast_cpu_dtype", "set_autocast_cpu_enabled", "set_autocast_dtype",
    "set_autocast_enabled", "set_autocast_gpu_dtype", "set_autocast_ipu_dtype", "set_autocast_ipu_enabled",
    "set_autocast_xla_dtype", "set_autocast_xla_enabled", "set_default_device", "set_default_dtype",
    "set_grad_enabled", "set_printoptions", "set_warn_always", "sparse_bsc", "sparse_bsr", "sparse_coo", "sparse_csc",
    "sparse_csr", "strided", "tensor", "zeros",
    *_NAMES, *bind.FUNCTIONS, *TYPED,
]  # fmt: skip

globals().update(publish("torch", {name: globals()[name] for name in __all__ if name not in bind.FUNCTIONS}))
