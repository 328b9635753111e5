"""What the modes of ``torch.compile`` stand for in PyTorch."""

from typing import Any

_GRAPHS = {"triton.cudagraphs": True}
_TUNED = {"max_autotune": True, "coordinate_descent_tuning": True}
_OFF = (
    "reorder_for_peak_memory", "reorder_for_compute_comm_overlap", "triton.reorder_for_reducing_graph_partitions",
    "use_pre_grad_passes", "use_joint_graph_passes", "use_post_grad_passes", "use_dce", "allow_buffer_reuse",
)  # fmt: skip
_MODES: dict[str, dict[str, bool]] = {
    "default": {},
    "lite": {"fallback_by_default": True, "selective_decompose": True, **dict.fromkeys(_OFF, False)},
    "reduce-overhead": _GRAPHS,
    "max-autotune-no-cudagraphs": _TUNED,
    "max-autotune": {**_GRAPHS, **_TUNED},
}


def list_mode_options(mode: str | None = None, dynamic: bool | None = None) -> dict[str, Any]:
    """The options of Inductor that a mode sets, or those of every mode; XLA reads none of them.

    >>> import torchlike as torch
    >>> torch._inductor.list_mode_options("reduce-overhead")
    {'triton.cudagraphs': True}
    """
    if mode is None:
        return {name: dict(options) for name, options in _MODES.items()}
    if mode not in _MODES:
        raise RuntimeError(f"Unrecognized mode={mode}, should be one of: {', '.join(_MODES)}")
    return dict(_MODES[mode])
