"""Overloads of sparse tensors: their parts, checks, derivatives, and what writes them into others."""

from collections.abc import Callable
from typing import Any

import torchlike._base.dtypes as dtypes
from torchlike import sparse
from torchlike._aten.packets import ops
from torchlike._composites._register import made
from torchlike._core.dispatch.bind import FUNCTIONS
from torchlike._core.tensor.tensor import Tensor, sparse_coo, sparse_csr
from torchlike.masked._sparse import of_entries

_aten = ops.aten
_new = FUNCTIONS
_OPTIONS = "ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=None"
_FALSE = _OPTIONS.replace("pin_memory=None", "pin_memory=False")

# -- tensors of parts -------------------------------------------------------------------------------------

for _layout, _outer, _inner in (("csr", "crow", "col"), ("csc", "ccol", "row"), ("bsr", "crow", "col"),
                                ("bsc", "ccol", "row")):  # fmt: skip
    _parts = f"Tensor {_outer}_indices, Tensor {_inner}_indices, Tensor values, int[] size"

    def _unchecked(
        outer: Tensor, inner: Tensor, values: Tensor, size: list[int], *, dtype: Any = None, layout: Any = None,
        device: Any = None, pin_memory: Any = None, _name: str = f"sparse_{_layout}_tensor",
    ) -> Tensor:  # fmt: skip
        return _new[_name](outer, inner, values, tuple(size), dtype=dtype, device=device, check_invariants=False)

    def _checked(
        outer: Tensor, inner: Tensor, values: Tensor, size: list[int], check_pinning: Any = None, *,
        _name: str = f"sparse_{_layout}_tensor",
    ) -> None:  # fmt: skip
        _new[_name](outer, inner, values, tuple(size), check_invariants=True)

    made(f"_sparse_{_layout}_tensor_unsafe({_parts}, *, {_OPTIONS}) -> Tensor")(_unchecked)
    made(f"_validate_sparse_{_layout}_tensor_args({_parts}, bool? check_pinning=None) -> ()")(_checked)
_COMPRESSED = "Tensor compressed_indices, Tensor plain_indices, Tensor values"


@made(f"_sparse_compressed_tensor_unsafe({_COMPRESSED}, SymInt[] size, *, {_OPTIONS}) -> Tensor")
def _unchecked_parts(
    outer: Tensor, inner: Tensor, values: Tensor, size: list[int], *, dtype: Any = None, layout: Any = None,
    device: Any = None, pin_memory: Any = None,
) -> Tensor:  # fmt: skip
    if layout is None:
        raise RuntimeError("sparse_compressed_tensor_unsafe expected sparse compressed tensor layout but got none")
    made_of = _new["sparse_compressed_tensor"]
    return made_of(outer, inner, values, tuple(size), dtype=dtype, layout=layout, device=device, check_invariants=False)


@made(f"_validate_sparse_compressed_tensor_args({_COMPRESSED}, int[] size, Layout layout, bool? check_pinning=None) "
      "-> ()")  # fmt: skip
def _checked_parts(
    outer: Tensor, inner: Tensor, values: Tensor, size: list[int], layout: Any, check_pinning: Any = None
) -> None:
    _new["sparse_compressed_tensor"](outer, inner, values, tuple(size), layout=layout, check_invariants=True)


@made("_validate_compressed_sparse_indices(bool is_crow, Tensor compressed_idx, Tensor plain_idx, int cdim, int dim, "
      "int nnz) -> ()")  # fmt: skip
def _checked_indices(is_crow: bool, outer: Tensor, inner: Tensor, cdim: int, dim: int, nnz: int) -> None:
    name, size = ("csr", (cdim, dim)) if is_crow else ("csc", (dim, cdim))
    _new[f"sparse_{name}_tensor"](outer, inner, _new["ones"](nnz, device=outer.device), size, check_invariants=True)


def _demand_coo(name: str, layout: Any) -> None:
    if layout is not sparse_coo:
        raise NotImplementedError(f"Could not run 'aten::{name}': it makes tensors of layout=torch.sparse_coo alone")


@made(f"_sparse_coo_tensor_with_dims(int sparse_dim, int dense_dim, int[] size, *, {_FALSE}) -> Tensor")
def _without_entries(
    sparse_dim: int, dense_dim: int, size: list[int], *, dtype: Any = None, layout: Any = None, device: Any = None,
    pin_memory: Any = False,
) -> Tensor:  # fmt: skip
    _demand_coo("_sparse_coo_tensor_with_dims", layout)
    indices = _new["zeros"]((sparse_dim, 0), dtype=dtypes.int64, device=device)
    values = _new["zeros"]((0, *size[sparse_dim:]), dtype=dtype, device=device)
    return _new["sparse_coo_tensor"](indices, values, tuple(size))


@made("_sparse_coo_tensor_with_dims_and_tensors(int sparse_dim, int dense_dim, SymInt[] size, Tensor indices, "
      f"Tensor values, *, {_FALSE}, bool? is_coalesced=None) -> Tensor")  # fmt: skip
def _of_entries(
    sparse_dim: int, dense_dim: int, size: list[int], indices: Tensor, values: Tensor, *, dtype: Any = None,
    layout: Any = None, device: Any = None, pin_memory: Any = None, is_coalesced: Any = None,
) -> Tensor:  # fmt: skip
    _demand_coo("_sparse_coo_tensor_with_dims_and_tensors", layout)
    options = {"dtype": dtype, "device": device, "is_coalesced": is_coalesced}
    return _new["sparse_coo_tensor"](indices, values, tuple(size), **options)


# -- shapes, products and reductions ----------------------------------------------------------------------

made("hspmm(Tensor mat1, Tensor mat2) -> Tensor")(_new["hspmm"])


@made("_sparse_broadcast_to(Tensor(a) self, int[] size) -> Tensor(a)")
def _broadcast(self: Tensor, size: list[int]) -> Tensor:
    lead = len(size) - self.ndim
    if lead < 0 or any(n not in (1, size[lead + d]) for d, n in enumerate(self.shape)) or self.dense_dim():
        raise RuntimeError(f"_sparse_broadcast_to: a tensor of size {list(self.shape)} is not expanded to {size}")
    entries = self.coalesce()
    grown = [*range(lead), *[lead + d for d, n in enumerate(self.shape) if n != size[lead + d]]]
    copies = _new["ones"]([size[d] for d in grown], device=self.device).nonzero().T
    many, old = copies.shape[1], entries.indices()
    rows = [old[d - lead].repeat_interleave(many) if d >= lead else None for d in range(len(size))]
    for row, d in zip(copies, grown, strict=True):
        rows[d] = row.repeat(old.shape[1])
    return _new["sparse_coo_tensor"](_new["stack"](rows), entries.values().repeat_interleave(many), tuple(size))


for _name in ("sparse_resize", "sparse_resize_and_clear"):
    made(f"{_name}(Tensor self, int[] size, int sparse_dim, int dense_dim) -> Tensor")(
        lambda self, size, sparse_dim, dense_dim, _n=f"{_name}_": getattr(self.clone(), _n)(
            tuple(size), sparse_dim, dense_dim
        )
    )
made("copy_sparse_to_sparse(Tensor self, Tensor src, bool non_blocking=False) -> Tensor")(
    lambda self, src, non_blocking=False: self.clone().copy_(src)
)


def _reduced(name: str) -> Callable[..., Tensor]:
    def reduce(self: Tensor, dim: list[int], keepdim: bool = False, *, dtype: Any = None) -> Tensor:
        if not keepdim:
            raise RuntimeError("reduction operations on CSR tensors with keepdim=False is unsupported")
        return of_entries(name, self, self.to_sparse().coalesce(), dim or (0, 1), True, dtype)

    return reduce


for _name in ("sum", "prod"):
    made(f"_sparse_csr_{_name}.dim_dtype(Tensor self, int[1] dim, bool keepdim=False, *, ScalarType? dtype=None) "
         "-> Tensor")(_reduced(_name))  # fmt: skip

# -- derivatives ------------------------------------------------------------------------------------------


@made("to_dense_backward(Tensor grad, Tensor input, bool? masked_grad=None) -> Tensor")
def _dense_backward(grad: Tensor, input: Tensor, masked_grad: Any = None) -> Tensor:
    if input.layout is sparse_coo and masked_grad is not False:
        return grad.sparse_mask(input.coalesce())
    if input.layout is sparse_coo:
        return grad.to_sparse(input.sparse_dim())
    if input.layout is sparse_csr:
        return grad.sparse_mask(input) if masked_grad is not False else grad.to_sparse_csr()
    raise NotImplementedError(f"aten::to_dense_backward: a tensor of {input.layout}")


@made("_sparse_sum_backward(Tensor grad, Tensor self, int[] dim) -> Tensor")
def _sum_backward(grad: Tensor, self: Tensor, dim: list[int]) -> Tensor:
    dims = {d % self.ndim for d in dim}
    if any(d >= self.sparse_dim() for d in dims):
        raise NotImplementedError("aten::_sparse_sum_backward over dense dimensions: call torch.sparse.sum")
    entries = self.coalesce()
    kept = [d for d in range(self.sparse_dim()) if d not in dims]
    if not kept:
        values = grad.expand_as(entries.values()).clone()
        return _new["sparse_coo_tensor"](entries.indices(), values, self.shape, is_coalesced=True)
    if grad.layout is not sparse_coo:
        raise RuntimeError("_sparse_sum_backward_cpu: expected grad_ Tensor to be sparse, but got dense")
    dense = grad.to_dense()
    values = dense[tuple(entries.indices()[d] for d in kept)]
    return _new["sparse_coo_tensor"](entries.indices(), values, self.shape, is_coalesced=True)


@made("_sparse_mask_projection(Tensor self, Tensor mask, bool accumulate_matches=False) -> Tensor")
def _projected(self: Tensor, mask: Tensor, accumulate_matches: bool = False) -> Tensor:
    ones = _new["ones"](mask._nnz(), dtype=self.dtype, device=self.device)
    matches = _new["sparse_coo_tensor"](mask._indices(), ones, mask.shape).to_dense()
    matches = matches if accumulate_matches else matches.clamp(max=1)
    values = self._values() * matches[tuple(self._indices())]
    return _new["sparse_coo_tensor"](self._indices(), values, self.shape, is_coalesced=self.is_coalesced())


def _backward_data(name: str) -> Callable[..., Tensor]:
    def backward(grad_output: Tensor, output: Tensor, dim: int, self: Tensor) -> Tensor:
        made_of = _new["sparse_coo_tensor"]
        entries = output.coalesce()
        result, grad = entries.values(), grad_output.sparse_mask(entries).values()
        kept = [d for d in range(self.ndim) if d != dim % self.ndim]
        share = (grad if name == "log_softmax" else grad * result).detach()
        total = made_of(entries.indices()[kept], share, [self.shape[d] for d in kept]).to_dense()
        along = total[tuple(entries.indices()[d] for d in kept)]
        values = grad - result.exp() * along if name == "log_softmax" else result * (grad - along)
        return made_of(entries.indices(), values, self.shape, is_coalesced=True)

    return backward


for _name in ("softmax", "log_softmax"):
    made(f"_sparse_{_name}_backward_data(Tensor grad_output, Tensor output, int dim, Tensor self) -> Tensor")(
        _backward_data(_name)
    )

# -- what writes into sparse tensors ------------------------------------------------------------------------


def _into(text: str) -> None:
    """The overload ``text``, which copies what another of its name computes into the sparse tensor ``out``."""
    name, _, overload = text[: text.index("(")].partition(".")
    source = overload.removesuffix("out").removesuffix("_") or "default"

    def write(*args: Any, out: Tensor, **kwargs: Any) -> Tensor:
        return out.copy_(getattr(getattr(_aten, name), source)(*args, **kwargs))

    made(text)(write)


_OUT = "*, Tensor(a!) out) -> Tensor(a!)"
_into(f"hspmm.out(Tensor mat1, Tensor mat2, {_OUT}")
_into(f"copy_sparse_to_sparse.out(Tensor self, Tensor src, bool non_blocking=False, {_OUT}")
_into(f"_sparse_sparse_matmul.out(Tensor self, Tensor other, {_OUT}")
_into(f"_sparse_sum.dim_out(Tensor self, int[1] dim, {_OUT}")
_into(f"_sparse_sum_backward.out(Tensor grad, Tensor self, int[] dim, {_OUT}")
_into(f"_sparse_mask_projection.out(Tensor self, Tensor mask, bool accumulate_matches=False, {_OUT}")
_into(f"_to_sparse.out(Tensor self, *, Layout? layout=None, int[2]? blocksize=None, int? dense_dim=None, {_OUT[3:]}")
_into(f"_to_sparse.sparse_dim_out(Tensor self, int sparse_dim, {_OUT}")
_into(f"_to_dense.out(Tensor self, ScalarType? dtype=None, bool? masked_grad=None, {_OUT}")
for _name in ("softmax", "log_softmax"):
    _into(f"_sparse_{_name}.out(Tensor self, int dim, bool half_to_float, {_OUT}")
    _into(f"_sparse_{_name}_backward_data.out(Tensor grad_output, Tensor output, int dim, Tensor self, {_OUT}")


@made("sparse_sampled_addmm.out(Tensor self, Tensor mat1, Tensor mat2, *, Scalar beta=1, Scalar alpha=1, "
      "Tensor(a!) out) -> Tensor(a!)")  # fmt: skip
def _sampled(self: Tensor, mat1: Tensor, mat2: Tensor, *, beta: Any = 1, alpha: Any = 1, out: Tensor) -> Tensor:
    return out.copy_(sparse.sampled_addmm(self, mat1, mat2, beta=beta, alpha=alpha))
