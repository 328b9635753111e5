"""The ``out`` overload of an added functional one, made from its schema when ``torch.ops.aten`` is first read."""

from collections.abc import Callable
from typing import Any

from torchlike._base.state import state
from torchlike._core.dispatch.out import demand_dtype, demand_fits, demand_unrecorded, put
from torchlike._core.tensor.tensor import Tensor, value_of

_OPTIONS = "ScalarType? dtype", "Layout? layout", "Device? device", "bool? pin_memory"
_BACKWARD = "grad_input grad_input"
# PyTorch's own overload and arguments where they do not follow from the schema, or None where it has no such overload.
SPELT: dict[str, str | None] = {
    "arange.start_step": "start_out out", "range": "out_ out", "range.step": "out out",
    "empty.memory_format": "out out", "hardswish_backward": "out out", "embedding_dense_backward": "out out",
    "huber_loss_backward": "out grad_input", "_softmax_backward_data": "out grad_input",
    "nll_loss_forward": "output output total_weight", "nll_loss2d_forward": "output output total_weight",
    "native_dropout_backward": "out out", "_masked_softmax_backward": "out out", "frobenius_norm.dim": "out out",
    "_native_batch_norm_legit.no_stats": "no_stats_out out save_mean save_invstd",
    **dict.fromkeys(
        "arange.start bernoulli.p mish_backward _convolution.deprecated type_as _shape_as_tensor "
        "_sparse_mm_reduce_impl _scaled_dot_product_flash_attention_for_cpu normal_functional native_batch_norm stft "
        "_scaled_dot_product_flash_attention_for_cpu_backward _upsample_bilinear2d_aa.vec _upsample_bicubic2d_aa.vec "
        "_upsample_lanczos2d_aa.vec "
        "_foreach_mm _foreach_pow.ScalarAndTensor _convolution_double_backward _unsafe_masked_index stft.center istft "
        "_unsafe_masked_index_put_accumulate _is_all_true _is_any_true fft_fftshift fft_ifftshift nonzero "
        "_amp_foreach_non_finite_check_and_unscale _amp_update_scale".split()
    ),
}  # fmt: skip


def out_form(text: str, make: Callable[[], Callable]) -> tuple[str, Callable[[], Callable]] | None:
    """(schema, maker) of what writes the results of the overload ``text`` into ``out``, or None if PyTorch has none.

    It has one of each overload that gives new tensors and is made of no others. Options that say what a new tensor is
    are left out: they are those of the output.
    """
    head, _, result = text.rpartition(" -> ")
    full, _, arguments = head.partition("(")
    if "!" in text or "(a" in result or "Tensor" not in result or full in SPELT and SPELT[full] is None:
        return None
    kept = [a for a in arguments[:-1].split(", ") if a.split("=")[0] not in _OPTIONS]
    created = len(kept) + 4 <= len(arguments.split(", "))
    kept = kept if created else arguments[:-1].split(", ")
    name, _, overload = full.partition(".")
    several, spelt = result.count("Tensor"), SPELT.get(full) or (_BACKWARD if name.endswith("_backward") else None)
    if spelt is None or several > 1 and spelt is _BACKWARD:
        names = ["out"] if several == 1 else [f"out{i}" for i in range(several)]
        out = f"{overload}_out" if overload else "out"
    else:
        out, *names = spelt.removesuffix(" named").split()
    marks = [f"Tensor({chr(97 + i)}!)" for i in range(several)]
    lists = result == "Tensor[]"
    kept += [] if any(a == "*" for a in kept) else ["*"]
    kept += [f"{m}{'[]' * lists} {n}" for m, n in zip(marks, names, strict=True)]
    shown = [f"{m} {n}" for m, n in zip(marks, names, strict=True)] if (spelt or "").endswith(" named") else marks
    written = "()" if lists else marks[0] if several == 1 else f"({', '.join(shown)})"
    return f"{name}.{out}({', '.join(kept)}) -> {written}", lambda: writing(name, make(), tuple(names), created, lists)


def writing(name: str, call: Callable, names: tuple[str, ...], created: bool, lists: bool) -> Callable:
    def write(*args: Any, **kwargs: Any) -> Any:
        missing = [n for n in names if n not in kwargs]
        if missing:
            raise TypeError(f"aten::{name}() is missing value for argument '{missing[0]}'")
        outs = [kwargs.pop(n) for n in names]
        flat = outs[0] if lists else outs
        demand_unrecorded(f"{name}()", *_tensors((*args, *kwargs.values())), *flat)
        if created:
            kwargs |= {"dtype": outs[0].dtype, "device": outs[0].device}
        before, state.grad = state.grad, False
        try:
            made = call(*args, **kwargs)
        finally:
            state.grad = before
        for out, result in zip(flat, made if isinstance(made, tuple | list) else [made], strict=True):
            demand_dtype(name, result.dtype.np, out)
            demand_fits(name, result, out)
            put(out, value_of(result))
        return None if lists else outs[0] if len(outs) == 1 else tuple(outs)

    return write


def _tensors(values: Any) -> list[Tensor]:
    found = []
    for x in values:
        found += _tensors(x) if isinstance(x, tuple | list) else [x] if isinstance(x, Tensor) else []
    return found


__all__ = ["SPELT", "out_form", "writing"]
