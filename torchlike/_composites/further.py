"""Overloads of lists, storages, tangents, sequences of several lengths and the loss over alignments."""

from typing import Any

from torchlike import autograd
from torchlike._aten.outs import writing
from torchlike._aten.packets import ops
from torchlike._composites._register import made
from torchlike._core.dispatch.bind import FUNCTIONS
from torchlike._core.dispatch.dispatch import call
from torchlike._core.tensor.tensor import Tensor
from torchlike._decl.function_schema import of_code
from torchlike._ops import ctc
from torchlike.autograd import forward_ad
from torchlike.nn.functional import margin

_aten = ops.aten
_new = FUNCTIONS

# -- lists ------------------------------------------------------------------------------------------------


def _equal(a: list[Tensor], b: list[Tensor]) -> bool:
    return len(a) == len(b) and all([bool(x == y) for x, y in zip(a, b, strict=True)])


made("eq.Tensor_list(Tensor[] a, Tensor[] b) -> bool")(_equal)
made("ne.Tensor_list(Tensor[] a, Tensor[] b) -> bool")(lambda a, b: not _equal(a, b))
made("count.Tensor(Tensor[] self, Tensor el) -> int")(lambda self, el: sum(bool(x == el) for x in self))
made("sorted.Tensor(Tensor[](a) input) -> Tensor[]")(lambda input: sorted(input, key=lambda x: x.item()))


@made("index.list_Tensor(Tensor[] self, Tensor el) -> int")
def _place(self: list[Tensor], el: Tensor) -> int:
    for i, x in enumerate(self):
        if bool(x == el):
            return i
    raise RuntimeError(f"'{el.item()}' is not in list")


# -- kinds, storages, gradients and tangents ----------------------------------------------------------------


def _kind(code: int | None) -> Any:
    return None if code is None else of_code(code)


made("to.prim_Device(Tensor(a) self, Device? device, int? dtype=None, bool non_blocking=False, bool copy=False) "
     "-> Tensor(a|b)")(
    lambda self, device, dtype=None, non_blocking=False, copy=False: self.to(
        device, _kind(dtype) or self.dtype, non_blocking, copy
    )
)  # fmt: skip
made("to.prim_dtype(Tensor(a) self, int? dtype=None, bool non_blocking=False, bool copy=False) -> Tensor(a|b)")(
    lambda self, dtype=None, non_blocking=False, copy=False: self.to(_kind(dtype) or self.dtype, non_blocking, copy)
)
made("to.prim_other(Tensor(a) self, bool non_blocking=False, bool copy=False) -> Tensor(a|b)")(
    lambda self, non_blocking=False, copy=False: self.to(self.dtype, non_blocking, copy)
)
made("as_tensor(Tensor(a) data, *, ScalarType? dtype=None, Device? device=None) -> Tensor(a|b)")(_new["as_tensor"])
made("cpu(Tensor(a) self) -> Tensor(a|b)")(lambda self: self.cpu())
made("cuda(Tensor(a) self) -> Tensor(a|b)")(lambda self: self.cuda())
made("set(Tensor self) -> Tensor")(lambda self: self.detach().clone().set_())
made("set.source_Tensor(Tensor self, Tensor source) -> Tensor")(lambda self, source: self.detach().clone().set_(source))
made("set.source_Storage(Tensor self, Storage source) -> Tensor")(
    lambda self, source: self.detach().clone().set_(source)
)
made("set.source_Storage_storage_offset(Tensor self, Storage source, SymInt storage_offset, SymInt[] size, "
     "SymInt[] stride=[]) -> Tensor")(
    lambda self, source, offset, size, stride=(): self.detach().clone().set_(source, offset, tuple(size), tuple(stride))
)  # fmt: skip


@made("backward(Tensor self, Tensor? gradient=None, bool? retain_graph=None, bool create_graph=False) -> ()")
def _backward(self: Tensor, gradient: Any = None, retain_graph: Any = None, create_graph: bool = False) -> None:
    self.backward(gradient, retain_graph, create_graph)


@made("backward.TensorList(Tensor[] tensors, Tensor?[]? grad_tensors=None, bool? retain_graph=None, "
      "bool create_graph=False) -> ()")  # fmt: skip
def _backward_all(
    tensors: list[Tensor], grad_tensors: Any = None, retain_graph: Any = None, create_graph: bool = False
) -> None:
    autograd.backward(tensors, grad_tensors, retain_graph, create_graph)


@made("grad(Tensor[] outputs, Tensor[] inputs, Tensor?[]? grad_outputs=None, bool? retain_graph=None, "
      "bool create_graph=False, bool allow_unused=False) -> Tensor?[]")  # fmt: skip
def _grad(
    outputs: list[Tensor], inputs: list[Tensor], grad_outputs: Any = None, retain_graph: Any = None,
    create_graph: bool = False, allow_unused: bool = False,
) -> list[Tensor | None]:  # fmt: skip
    found = autograd.grad(outputs, inputs, grad_outputs, retain_graph, create_graph, allow_unused=allow_unused)
    return list(found)


made("_make_dual(Tensor(a) primal, Tensor tangent, int level) -> Tensor(a)")(
    lambda primal, tangent, level: forward_ad.make_dual(primal, tangent, level=level)
)
made("_unpack_dual(Tensor(a) dual, int level) -> (Tensor(a) primal, Tensor tangent)")(
    lambda dual, level: tuple(forward_ad.unpack_dual(dual, level=level))
)
made("_fw_primal(Tensor(a) self, int level) -> Tensor(a)")(
    lambda self, level: forward_ad.unpack_dual(self, level=level).primal
)

# -- outputs ----------------------------------------------------------------------------------------------

made("_efficientzerotensor.out(SymInt[] size, *, Tensor(a!) out) -> Tensor(a!)")(
    lambda size, *, out: out.resize_(tuple(size)).zero_()
)
_RRELU = ("Tensor(b!) noise, Scalar lower=0.125, Scalar upper=0.33333333333333331, bool training=False, "
          "Generator? generator=None")  # fmt: skip
made(f"rrelu_with_noise.out(Tensor self, {_RRELU}, *, Tensor(a!) out) -> Tensor(a!)")(
    writing("rrelu_with_noise", lambda *args: _aten.rrelu_with_noise.default(*args), ("out",), False, False)
)


def _of_conv(grad: Tensor, self: Tensor, weight: Tensor, kernel: Any, stride: list[int], padding: list[int]) -> Any:
    ones, whole = [1, 1], [True] * 3
    return _aten.convolution_backward(
        grad, self, weight, [weight.shape[0]], stride, padding, ones, False, [0, 0], 1, whole
    )


made("_slow_conv2d_backward.grad_input(Tensor grad_output, Tensor self, Tensor weight, SymInt[2] kernel_size, "
     "SymInt[2] stride, SymInt[2] padding, *, Tensor(a!) grad_input, Tensor(b!) grad_weight, Tensor(c!) grad_bias) "
     "-> (Tensor(a!), Tensor(b!), Tensor(c!))")(
    writing("_slow_conv2d_backward", _of_conv, ("grad_input", "grad_weight", "grad_bias"), False, False)
)  # fmt: skip

# -- sequences of several lengths -----------------------------------------------------------------------------

made("_pack_sequence(Tensor output, Tensor batch_sizes, Tensor? sorted_indices, Tensor? unsorted_indices) "
     "-> (Tensor, Tensor, Tensor?, Tensor?)")(lambda *given: given)  # fmt: skip


def _one(offsets: list[Tensor]) -> list[int]:
    if len(offsets) != 1:
        raise RuntimeError(f"jagged tensors have one list of offsets here, got {len(offsets)}")
    return offsets[0].tolist()


@made("_jagged_to_padded_dense_forward(Tensor values, Tensor[] offsets, SymInt[] max_lengths, "
      "float padding_value=0.) -> Tensor")  # fmt: skip
def _padded(values: Tensor, offsets: list[Tensor], max_lengths: list[int], padding_value: float = 0.0) -> Tensor:
    ends = _one(offsets)
    rows = values.new_full((len(ends) - 1, max_lengths[0], *values.shape[1:]), padding_value)
    for row, start, end in zip(rows, ends, ends[1:], strict=False):
        kept = values[start:end][: max_lengths[0]]
        row[: len(kept)] = kept
    return rows


@made("_padded_dense_to_jagged_forward(Tensor dense, Tensor[] offsets, SymInt? total_L=None) -> Tensor")
def _jagged(dense: Tensor, offsets: list[Tensor], total_L: int | None = None) -> Tensor:
    ends = _one(offsets)
    return _new["cat"]([row[: end - start] for row, start, end in zip(dense, ends, ends[1:], strict=False)])


# -- the loss over alignments -------------------------------------------------------------------------------


def _loss(
    log_probs: Tensor, targets: Tensor, input_lengths: Any, target_lengths: Any, blank: int = 0,
    zero_infinity: bool = False,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    arrays = margin.sequences(log_probs, targets, input_lengths, target_lengths, blank)
    found = call(ctc.ctc_loss, arrays, (int(blank), bool(zero_infinity)))
    plain = tuple([x.detach() for x in arrays])
    width = 2 * max(arrays[3].tolist(), default=0) + 1
    scores = call(ctc.ctc_scores, plain, (int(blank),))[..., :width]
    impossible = call(ctc.ctc_loss, plain, (int(blank), False)).isinf()
    return _new["where"](impossible, float("inf"), found), scores


def _of_loss(
    grad: Tensor, log_probs: Tensor, targets: Tensor, input_lengths: Any, target_lengths: Any, loss: Tensor,
    log_alpha: Tensor, blank: int, zero_infinity: bool = False,
) -> Tensor:  # fmt: skip
    leaf = log_probs.detach().requires_grad_()
    arrays = margin.sequences(leaf, targets, input_lengths, target_lengths, blank)
    with autograd.enable_grad():
        found = call(ctc.ctc_loss, arrays, (int(blank), bool(zero_infinity)))
    return autograd.grad(found, leaf, grad)[0]


for _overload, _lengths in (("", "int[]"), (".Tensor", "Tensor")):
    _given = f"{_lengths} input_lengths, {_lengths} target_lengths"
    made(f"_ctc_loss{_overload}(Tensor log_probs, Tensor targets, {_given}, int blank=0, bool zero_infinity=False) "
         "-> (Tensor, Tensor)", out=True, saves=(0,))(_loss)  # fmt: skip
    made(f"_ctc_loss_backward{_overload}(Tensor grad, Tensor log_probs, Tensor targets, {_given}, "
         "Tensor neg_log_likelihood, Tensor log_alpha, int blank, bool zero_infinity=False) -> Tensor",
         out="out out" if not _overload else False)(_of_loss)  # fmt: skip
