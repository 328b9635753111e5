"""Overloads that programs of TorchScript and of ``torch.export`` call: numbers as tensors, resizing, marks of order."""

from collections.abc import Callable
from typing import Any

import torchlike._base.dtypes as dtypes
from torchlike._aten.outs import writing
from torchlike._aten.packets import ops
from torchlike._base.state import no_grad
from torchlike._composites._register import made
from torchlike._composites.gradients import pulled
from torchlike._core.dispatch.bind import FUNCTIONS
from torchlike._core.tensor.tensor import Tensor
from torchlike._ops import index
from torchlike._utils import _unflatten_dense_tensors
from torchlike.nn import functional

_aten = ops.aten
_new = FUNCTIONS

# -- numbers ---------------------------------------------------------------------------------------------

_OPTIONS = "*, ScalarType? dtype=None, Device? device=None"


def _as_tensor(t: Any, *, dtype: Any = None, device: Any = None, requires_grad: bool = False) -> Tensor:
    return _new["tensor"](t, dtype=dtype, device=device, requires_grad=requires_grad)


for _kind in ("bool", "float", "int", "complex"):
    made(f"tensor.{_kind}({_kind} t, {_OPTIONS}, bool requires_grad=False) -> Tensor")(_as_tensor)
    made(f"as_tensor.{_kind}({_kind} t, {_OPTIONS}) -> Tensor")(_as_tensor)
for _names in ("Tensor_Tensor", "Tensor_float", "float_Tensor", "Tensor_int", "int_Tensor", "Tensor_bool",
               "bool_Tensor"):  # fmt: skip
    _first, _second = _names.split("_")
    _a, _b = ("a", "b") if _first == _second else ("x", "y")
    made(f"Complex.{_names}({_first} {_a}, {_second} {_b}) -> complex")(lambda a, b: complex(float(a), float(b)))
made("_list_to_tensor(int[] self) -> Tensor")(lambda self: _new["tensor"](self, dtype=dtypes.int32))


@made("_tensor_to_list(Tensor self) -> int[]")
def _to_list(self: Tensor) -> list[int]:
    if self.dtype is not dtypes.int32:
        raise RuntimeError(f"expected scalar type Int but found {self.dtype.scalar_name} (_tensor_to_list; use .int())")
    return self.reshape(-1).tolist()


# -- changes that nothing records ------------------------------------------------------------------------


def _unrecorded(text: str) -> Callable[[Callable], None]:
    def register(change: Callable) -> None:
        def run(tensor: Tensor, *args: Any, **kwargs: Any) -> Tensor:
            with no_grad():
                return change(tensor, *args, **kwargs)

        made(text)(run)

    return register


_unrecorded("_no_grad_fill_(Tensor(a!) tensor, float val) -> Tensor(a!)")(lambda t, val: t.fill_(val))
_unrecorded("_no_grad_zero_(Tensor(a!) tensor) -> Tensor(a!)")(lambda t: t.zero_())
_unrecorded("_no_grad_uniform_(Tensor(a!) tensor, float a, float b, Generator? generator=None) -> Tensor(a!)")(
    lambda t, a, b, generator=None: t.uniform_(a, b, generator=generator)
)
_unrecorded("_no_grad_normal_(Tensor(a!) tensor, float mean, float std, Generator? generator=None) -> Tensor(a!)")(
    lambda t, mean, std, generator=None: t.normal_(mean, std, generator=generator)
)
_unrecorded("_no_grad_embedding_renorm_(Tensor weight, Tensor input, float max_norm, float norm_type) -> Tensor")(
    lambda weight, input, max_norm, norm_type: _new["embedding_renorm_"](weight, input, max_norm, norm_type)
)


@made("set_data(Tensor(a!) self, Tensor new_data) -> ()")
def _set_data(self: Tensor, new_data: Tensor) -> None:
    self.data = new_data


@made("_backward(Tensor self, Tensor[] inputs, Tensor? gradient=None, bool? retain_graph=None, "
      "bool create_graph=False) -> ()")  # fmt: skip
def _backward(
    self: Tensor, inputs: list[Tensor], gradient: Any = None, retain_graph: Any = None, create_graph: bool = False
) -> None:
    self.backward(gradient, retain_graph, create_graph, inputs=inputs)


# -- resizing --------------------------------------------------------------------------------------------

_GIVEN = {"": ("int", ""), ".size_list": ("int[]", ""), ".scale_list": ("int", "[]"),
          ".size_list_scale_list": ("int[]", "[]")}  # fmt: skip


def _resizing(name: str, number: str, rest: str, run: Callable, overloads: Any = _GIVEN) -> None:
    for overload in overloads:
        size, several = _GIVEN[overload]
        given = f"{size}? size=None, {number}{several}? scale_factor=None"
        made(f"{name}{overload}(Tensor input, {given}{rest}) -> Tensor")(run)


_resizing("__interpolate", "float", ', str mode="nearest", bool? align_corners=None, bool? recompute_scale_factor='
          "None, bool antialias=False", functional.interpolate)  # fmt: skip
_resizing("__upsample_bilinear", "int", "", lambda input, size=None, scale_factor=None: functional.interpolate(
    input, size, scale_factor, "bilinear", True))  # fmt: skip
_resizing("__upsample_nearest", "int", "", functional.interpolate, ("", ".size_list"))
_resizing("__upsample", "int", ', str mode="nearest", bool? align_corners=None', functional.interpolate,
          ("", ".size_list"))  # fmt: skip

# -- marks of order, checks and casts --------------------------------------------------------------------

made("_make_dep_token(*, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=None, "
     "MemoryFormat? memory_format=None) -> Tensor")(
    lambda *, dtype=None, layout=None, device=None, pin_memory=None, memory_format=None: _new["zeros"](
        (), dtype=dtype, device=device
    )
)  # fmt: skip


@made("_functional_assert_scalar(Scalar self, str assert_msg, Tensor dep_token) -> Tensor")
def _asserted(self: Any, assert_msg: str, dep_token: Tensor) -> Tensor:
    if not self:
        raise RuntimeError(assert_msg)
    return dep_token.clone()


def _within(size: Any, min: Any, max: Any, dep_token: Tensor) -> Tensor:
    if min is not None and size < min or max is not None and size > max:
        raise RuntimeError(f"Invalid value range for {size} between [{min}, {max}].")
    return dep_token.clone()


made("_functional_sym_constrain_range(Scalar size, int? min, int? max, Tensor dep_token) -> Tensor",
     "_functional_sym_constrain_range_for_size(Scalar size, int? min, int? max, Tensor dep_token) -> Tensor")(
    _within
)  # fmt: skip
made("_grad_sum_to_size(Tensor(a) self, int[]? size) -> Tensor(a)")(
    lambda self, size: self if size is None else self.sum_to_size(size)
)
made("_has_compatible_shallow_copy_type(Tensor self, Tensor from) -> bool")(_new["_has_compatible_shallow_copy_type"])


@made("_autocast_to_full_precision(Tensor(a) self, bool cuda_enabled, bool cpu_enabled) -> Tensor(a)")
def _full(self: Tensor, cuda_enabled: bool, cpu_enabled: bool) -> Tensor:
    short = self.dtype in (dtypes.float16, dtypes.bfloat16)
    return self.to(dtypes.float32) if short and (cpu_enabled if self.device.type == "cpu" else cuda_enabled) else self


@made("_autocast_to_reduced_precision(Tensor(a) self, bool cuda_enabled, bool cpu_enabled, ScalarType cuda_dtype, "
      "ScalarType cpu_dtype) -> Tensor(a)")  # fmt: skip
def _reduced(self: Tensor, cuda_enabled: bool, cpu_enabled: bool, cuda_dtype: Any, cpu_dtype: Any) -> Tensor:
    enabled, to = (cpu_enabled, cpu_dtype) if self.device.type == "cpu" else (cuda_enabled, cuda_dtype)
    return self.to(to) if enabled and self.dtype is dtypes.float32 else self


made(index.one_hot.schema.text)(functional.one_hot)  # which finds the largest class where none is given

# -- parts of other calls --------------------------------------------------------------------------------


made("unflatten_dense_tensors(Tensor flat, Tensor[] tensors) -> Tensor[]")(_unflatten_dense_tensors)


@made("_rowwise_prune(Tensor weight, Tensor mask, ScalarType compressed_indices_dtype) -> (Tensor, Tensor)")
def _pruned(weight: Tensor, mask: Tensor, compressed_indices_dtype: Any) -> tuple[Tensor, Tensor]:
    places = (mask.cumsum(0) - 1).where(mask, _new["tensor"](-1))
    return weight[mask], places.to(compressed_indices_dtype)


made("_add_relu_.Tensor(Tensor(a!) self, Tensor other, *, Scalar alpha=1) -> Tensor(a!)")(
    lambda self, other, *, alpha=1: self.add_(other, alpha=alpha).relu_()
)
made("_add_relu_.Scalar(Tensor(a!) self, Scalar other, Scalar alpha=1) -> Tensor(a!)")(
    lambda self, other, alpha=1: self.add_(other, alpha=alpha).relu_()
)


@made("batch_norm_update_stats(Tensor input, Tensor? running_mean, Tensor? running_var, float momentum) "
      "-> (Tensor, Tensor)", out=True)  # fmt: skip
def _statistics(input: Tensor, mean: Tensor | None, var: Tensor | None, momentum: float) -> tuple[Tensor, Tensor]:
    dims, n = [d for d in range(input.ndim) if d != 1], input.numel() // input.shape[1]
    spread, middle = _new["var_mean"](input, dims, correction=0)
    for running, now in ((mean, middle), (var, spread * (n / (n - 1)))):
        if running is not None:
            running.copy_(running * (1 - momentum) + now * momentum)
    return middle, spread


made("slow_conv3d_forward(Tensor self, Tensor weight, SymInt[3] kernel_size, Tensor? bias, SymInt[3] stride, "
     "SymInt[3] padding) -> Tensor", out="output output")(
    lambda self, weight, kernel_size, bias, stride, padding: functional.conv3d(
        self, weight, bias, tuple(stride), tuple(padding)
    )
)  # fmt: skip
made("from_file(str filename, bool? shared=None, int? size=0, *, ScalarType? dtype=None, Layout? layout=None, "
     "Device? device=None, bool? pin_memory=None) -> Tensor", out=True)(
    lambda filename, shared=None, size=0, *, dtype=None, layout=None, device=None, pin_memory=None: _new["from_file"](
        filename, shared, size, dtype=dtype
    )
)  # fmt: skip

# -- backward passes -------------------------------------------------------------------------------------


def _several_pulled(run: Callable, grad: Tensor, inputs: tuple[Any, ...], mask: Any) -> tuple[Any, ...]:
    found = pulled(run, grad, *inputs, wanted=mask)
    return tuple([x.new_zeros(x.shape) if g is None else g for g, x in zip(found, inputs, strict=True)])


made("matmul_backward(Tensor grad, Tensor self, Tensor other, bool[2] mask) -> (Tensor, Tensor)", out="out out0 out1")(
    lambda grad, self, other, mask: _several_pulled(_new["matmul"], grad, (self, other), mask)
)
made("linear_backward(Tensor self, Tensor grad_output, Tensor weight, bool[3] output_mask) "
     "-> (Tensor, Tensor, Tensor)", out="out out0 out1 out2")(
    lambda self, grad_output, weight, output_mask: _several_pulled(
        functional.linear, grad_output, (self, weight, weight.new_zeros(weight.shape[:1])), output_mask
    )
)  # fmt: skip
made("max_pool2d_backward(Tensor grad_output, Tensor self, int[2] kernel_size, int[2] stride=[], int[2] padding=0, "
     "int[2] dilation=1, bool ceil_mode=False) -> Tensor", out="out out")(
    lambda grad, self, size, stride=(), padding=0, dilation=1, ceil_mode=False: pulled(
        lambda x: functional.max_pool2d(x, size, stride or None, padding, dilation, ceil_mode), grad, self
    )[0]
)  # fmt: skip

# -- outputs ---------------------------------------------------------------------------------------------


def _with_outputs(text: str, of: str, lists: bool = False) -> None:
    """The overload ``text``, which writes what the overload ``of`` of aten gives."""
    packet, _, overload = of.partition(".")

    def run(*args: Any, **kwargs: Any) -> Any:
        return getattr(getattr(_aten, packet), overload)(*args, **kwargs)

    made(text)(writing(text[: text.index(".")], run, ("out",), False, lists))


_SIZED = "Tensor input, SymInt[]? output_size, {}float[]? scale_factors, *, Tensor(a!) out) -> Tensor(a!)"
for _mode, _align in (("bilinear", "bool align_corners, "), ("nearest", "")):
    _with_outputs(f"upsample_{_mode}2d.vec_out({_SIZED.format(_align)}", f"upsample_{_mode}2d.vec")
_LISTS = "Tensor[] self, Tensor[] src, bool non_blocking=False, *, Tensor(a!)[] out) -> ()"
_with_outputs(f"_foreach_copy.out({_LISTS}", "_foreach_copy.default", True)
_with_outputs("_foreach_zero.out(Tensor[] self, *, Tensor(a!)[] out) -> ()", "_foreach_zero.default", True)
_with_outputs(
    "normal.out(Tensor self, float mean=0., float std=1., *, Generator? generator=None, Tensor(a!) out) -> Tensor(a!)",
    "normal_functional.default",
)
_with_outputs(
    "_compute_linear_combination.out(Tensor input, Tensor coefficients, *, Tensor(a!) out) -> Tensor(a!)",
    "_compute_linear_combination.default",
)
