"""What a test file must leave in its process as it found it: files run in any order, several in one process."""

from __future__ import annotations

import os
import sys
import threading
from types import ModuleType
from typing import Any

import torch

import torchlike

FLAGS = """
get_default_dtype()
get_default_device()
is_grad_enabled()
is_inference_mode_enabled()
is_anomaly_enabled()
is_warn_always_enabled()
are_deterministic_algorithms_enabled()
is_deterministic_algorithms_warn_only_enabled()
get_num_threads()
get_float32_matmul_precision()
is_autocast_enabled("cpu")
is_autocast_enabled("cuda")
get_autocast_dtype("cpu")
get_autocast_dtype("cuda")
is_autocast_cache_enabled()
backends.cudnn.enabled
backends.cudnn.benchmark
backends.cudnn.deterministic
backends.cudnn.allow_tf32
backends.cuda.matmul.allow_tf32
backends.cuda.matmul.allow_fp16_reduced_precision_reduction
backends.cuda.matmul.allow_bf16_reduced_precision_reduction
backends.cuda.flash_sdp_enabled()
backends.cuda.math_sdp_enabled()
backends.cuda.mem_efficient_sdp_enabled()
backends.mkldnn.enabled
backends.mha.get_fastpath_enabled()
backends.opt_einsum.enabled
backends.opt_einsum.strategy
distributed.is_initialized()
sparse.check_sparse_tensor_invariants.is_enabled()
overrides._get_current_function_mode_stack()
utils._python_dispatch._get_current_dispatch_mode_stack()
""".strip().split("\n")


OWN = {
    torch: [
        "_tensor_str.PRINT_OPTS", "utils.deterministic.fill_uninitialized_memory",
        "nn.modules.module._global_forward_hooks", "nn.modules.module._global_forward_pre_hooks",
        "nn.modules.module._global_backward_hooks",
    ],
    torchlike: [
        "_tensor_str.get_printoptions()",
        *[f"nn.modules._hooks.global_{name}_hooks" for name in ("forward", "forward_pre", "backward", "backward_pre")],
    ],
}  # fmt: skip


def _flag(library: ModuleType, flag: str) -> str:
    return repr(eval(f"library.{flag}", {"library": library}))


def process_state() -> dict[str, Any]:
    """The flags of both libraries and what Python keeps for a process (variables that a library adds do not count)."""
    state = {f"{t.__name__}.{flag}": _flag(t, flag) for t in (torch, torchlike) for flag in FLAGS + OWN[t]}
    state |= {f"os.environ[{k}]": v for k, v in os.environ.items() if not k.startswith(("PYTEST_", "TORCH", "_TORCH"))}
    state["directory"] = os.getcwd()
    state["sys.path"] = sorted({p for p in sys.path if not p.endswith("_vendor")})  # setuptools adds its own
    state["threads"] = sorted(t.name for t in threading.enumerate() if not (t.daemon or "Pool" in t.name))
    state["recursion"] = sys.getrecursionlimit()
    return state
