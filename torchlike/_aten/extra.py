"""Overloads of ``torch.ops.aten`` that no declaration gives: factories, and what is no operator call here."""

import math
from collections.abc import Callable, Sequence
from typing import Any, NoReturn

import torchlike._base.dtypes as dtypes
from torchlike._aten.packets import ops
from torchlike._aten.python_dispatch import invoke, invoke_with, modes_set_to, normalised
from torchlike._aten.source import SOURCE, Overload
from torchlike._aten.tags import Tag
from torchlike._core.conversion.indexing import MASKS, gathered, put
from torchlike._core.dispatch.bind import FUNCTIONS
from torchlike._core.dispatch.dispatch import call
from torchlike._core.dispatch.inplace import call_inplace
from torchlike._core.dispatch.layers import DISPATCH
from torchlike._core.dispatch.out import call_out
from torchlike._core.tensor.statistics import move_statistic
from torchlike._core.tensor.tensor import Tensor
from torchlike._decl.op import REGISTRY
from torchlike._executor.immediate import Abstract

_OPTIONS = "*, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=None"
_LIKE = _OPTIONS + ", MemoryFormat? memory_format=None"
_RANDOM = "*, Generator? generator=None"


def _function(name: str) -> Callable:
    def call(*args: Any, **kwargs: Any) -> Any:
        return FUNCTIONS[name](*args, **kwargs)

    return call


def _method(name: str) -> Callable:
    def call(self: Any, *args: Any, **kwargs: Any) -> Any:
        return getattr(Tensor, name)(self, *args, **kwargs)

    return call


def _add(text: str, call: Callable, *tags: Tag, saves: tuple[int, ...] = ()) -> None:
    SOURCE.add(Overload(text, lambda: call, tags, saves=saves))


_SEEDED = Tag.nondeterministic_seeded

for _text in (
    "zeros(SymInt[] size, @)", "ones(SymInt[] size, @)", "full(SymInt[] size, Scalar fill_value, @)",
    "arange(Scalar end, @)", "arange.start(Scalar start, Scalar end, @)",
    "arange.start_step(Scalar start, Scalar end, Scalar step=1, @)",
    "linspace(Scalar start, Scalar end, int steps, @)",
    "logspace(Scalar start, Scalar end, int steps, float base=10., @)", "eye(SymInt n, @)",
    "eye.m(SymInt n, SymInt m, @)", "scalar_tensor(Scalar s, @)",
    "empty_strided(SymInt[] size, SymInt[] stride, @)", "range(Scalar start, Scalar end, @)",
    "range.step(Scalar start, Scalar end, Scalar step=1, @)",
):  # fmt: skip
    _add(_text.replace("@", _OPTIONS) + " -> Tensor", _function(_text[: _text.index("(")].split(".")[0]))
for _text in (
    "rand(SymInt[] size, @)", "randn(SymInt[] size, @)", "randint(SymInt high, SymInt[] size, @)",
    "randint.low(SymInt low, SymInt high, SymInt[] size, @)", "randperm(SymInt n, @)",
):  # fmt: skip
    _filled = _OPTIONS.replace("dtype=None", "dtype=4") if "rand(" not in _text and "randn(" not in _text else _OPTIONS
    _add(_text.replace("@", _filled) + " -> Tensor", _function(_text[: _text.index("(")].split(".")[0]), _SEEDED)


def _no_sparse_reduction(self: Any, other: Any, reduce: str) -> NoReturn:
    raise NotImplementedError(
        f"aten::_sparse_mm_reduce_impl(reduce={reduce!r}): products of sparse matrices with another reduction than sum "
        "are not in torchlike"
    )


_add(f"empty.memory_format(SymInt[] size, {_LIKE}) -> Tensor", _function("empty"))
for _name in ("zeros", "ones", "empty"):
    _add(f"{_name}_like(Tensor self, {_LIKE}) -> Tensor", _function(f"{_name}_like"))
    _add(f"new_{_name}(Tensor self, SymInt[] size, {_OPTIONS}) -> Tensor", _method(f"new_{_name}"))
_add(f"full_like(Tensor self, Scalar fill_value, {_LIKE}) -> Tensor", _function("full_like"))
_SEEDED_LIKE = "*, Generator? generator" + _LIKE[1:]
for _name, _given in (
    ("rand_like", "Tensor self"), ("randn_like", "Tensor self"), ("randint_like", "Tensor self, SymInt high"),
):  # fmt: skip
    _add(f"{_name}({_given}, {_LIKE}) -> Tensor", _function(_name), _SEEDED)
    _add(f"{_name}.generator({_given}, {_SEEDED_LIKE}) -> Tensor", _function(_name), _SEEDED)
for _name, _more in (("low_dtype", _LIKE), ("low_generator_dtype", _SEEDED_LIKE)):
    _text = f"randint_like.{_name}(Tensor self, SymInt low, SymInt high, {_more}) -> Tensor"
    _add(_text, _function("randint_like"), _SEEDED)
_add(f"new_full(Tensor self, SymInt[] size, Scalar fill_value, {_OPTIONS}) -> Tensor", _method("new_full"))
_add(
    f"new_empty_strided(Tensor self, SymInt[] size, SymInt[] stride, {_OPTIONS}) -> Tensor",
    _method("new_empty_strided"),
)

_GEOMETRY = ", SymInt storage_offset, SymInt[] size, SymInt[] stride=[]"
for _name, _more in (
    ("set_", ""), ("set_.source_Tensor", ", Tensor source"), ("set_.source_Storage", ", Storage source"),
    ("set_.source_Storage_storage_offset", ", Storage source" + _GEOMETRY),
    ("set_.source_Tensor_storage_offset", ", Tensor source" + _GEOMETRY),
):  # fmt: skip
    _add(f"{_name}(Tensor(a!) self{_more}) -> Tensor(a!)", _method("set_"), Tag.inplace)

# -- random numbers: the kernels over words are shown under these names ----------------------------------------------

for _text in (
    "uniform_(Tensor(a!) self, float from=0., float to=1., @)",
    "normal_(Tensor(a!) self, float mean=0., float std=1., @)",
    "log_normal_(Tensor(a!) self, float mean=1., float std=2., @)",
    "exponential_(Tensor(a!) self, float lambd=1., @)", "cauchy_(Tensor(a!) self, float median=0., float sigma=1., @)",
    "geometric_(Tensor(a!) self, float p, @)", "random_(Tensor(a!) self, @)", "random_.to(Tensor(a!) self, int to, @)",
    "random_.from(Tensor(a!) self, int from, int? to, @)", "bernoulli_.float(Tensor(a!) self, float p=0.5, @)",
    "bernoulli_.Tensor(Tensor(a!) self, Tensor p, @)",
):  # fmt: skip
    _call = _method(_text[: _text.index("(")].split(".")[0])
    _add(_text.replace("@", _RANDOM) + " -> Tensor(a!)", _call, Tag.inplace, _SEEDED)
for _text in (
    "bernoulli(Tensor self, @)", "bernoulli.p(Tensor self, float p, @)", "poisson(Tensor self, *)",
    "_standard_gamma(Tensor self, *)", "_sample_dirichlet(Tensor self, *)",
    "normal.Tensor_float(Tensor mean, float std=1., @)", "normal.float_Tensor(float mean, Tensor std, @)",
    "normal.Tensor_Tensor(Tensor mean, Tensor std, @)", "binomial(Tensor count, Tensor prob, *)",
    "multinomial(Tensor self, SymInt num_samples, bool replacement=False, @)",
):  # fmt: skip
    _text = _text.replace("@", _RANDOM).replace("*)", "Generator? generator=None)")
    _add(_text + " -> Tensor", _function(_text[: _text.index("(")].split(".")[0]), _SEEDED)


# -- layers and losses: PyTorch's operators, over those of torchlike that compute more or less than they -------------


def _op(name: str, inputs: tuple, static: tuple = ()) -> Any:
    return call(REGISTRY[name], inputs, static)


def _empty(like: Any) -> Any:
    return FUNCTIONS["empty"](0, dtype=like.dtype, device=like.device)


def _softmaxes(name: str) -> Callable:
    return lambda self, dim, half_to_float: _op(f"{name}.int", (self,), (dim, None))


def _batch_norm(
    input: Any, weight: Any, bias: Any, mean: Any, var: Any, training: bool, momentum: float, eps: float
) -> Any:
    if not training:
        out = _op("_native_batch_norm_eval", (input, weight, bias, mean, var, eps))
        return out, _empty(input), _empty(input)
    inputs = input, weight, bias, mean, var, momentum, eps
    *out, new_mean, new_var = _op("native_batch_norm", inputs, (False,))
    move_statistic(mean, new_mean, True)
    move_statistic(var, new_var, True)
    return tuple(out)


def _group_norm(input: Any, weight: Any, bias: Any, n: int, c: int, hxw: int, group: int, eps: float) -> Any:
    return tuple(_op("native_group_norm", (input, weight, bias, eps), (group,)))


def _nll(name: str) -> Callable:
    def forward(self: Any, target: Any, weight: Any, reduction: int, ignore_index: int) -> Any:
        out = _op(name, (self, target, weight), (reduction, ignore_index))
        kept = (target != ignore_index).to(self.dtype)
        if weight is not None:
            kept = kept * weight[target.clamp(min=0)]
        return out, kept.sum() if reduction else self.new_zeros(())

    return forward


def _flash(
    query: Any, key: Any, value: Any, dropout_p: float = 0.0, is_causal: bool = False, *, attn_mask: Any = None,
    scale: Any = None,
) -> Any:  # fmt: skip
    factor, shared = query.shape[-1] ** -0.5 if scale is None else scale, key.shape[1] != query.shape[1]
    keys = key.repeat_interleave(query.shape[1] // key.shape[1], 1) if shared else key
    scores = (query @ keys.transpose(-2, -1)) * factor
    if is_causal:
        allowed = query.new_ones(scores.shape[-2:]).tril().bool()
        scores = scores.masked_fill(~allowed, float("-inf"))
    if attn_mask is not None:
        scores = scores + attn_mask if attn_mask.is_floating_point() else scores.masked_fill(~attn_mask, float("-inf"))
    out = _op(
        "_scaled_dot_product_attention", (query, key, value, attn_mask, None, dropout_p, scale), (is_causal, shared)
    )
    if out.shape == query.shape:  # in the memory order of the query, as PyTorch's kernel gives it
        out = FUNCTIONS["empty_like"](query).copy_(out)
    return out, scores.logsumexp(-1)


def by_position(t: Any) -> Any:
    """``t`` with the heads beside each position in memory, as PyTorch's kernel gives it."""
    return t.transpose(1, 2).contiguous().transpose(1, 2)


_add("_softmax(Tensor self, int dim, bool half_to_float) -> Tensor", _softmaxes("softmax"))
_add("_log_softmax(Tensor self, int dim, bool half_to_float) -> Tensor", _softmaxes("log_softmax"))
_add(
    "native_batch_norm(Tensor input, Tensor? weight, Tensor? bias, Tensor? running_mean, Tensor? running_var, "
    "bool training, float momentum, float eps) -> (Tensor, Tensor, Tensor)",
    _batch_norm,
)
_add(
    "native_group_norm(Tensor input, Tensor? weight, Tensor? bias, SymInt N, SymInt C, SymInt HxW, int group, "
    "float eps) -> (Tensor, Tensor, Tensor)",
    _group_norm,
    saves=(1, 2),
)
for _name in ("nll_loss", "nll_loss2d"):
    _add(
        f"{_name}_forward(Tensor self, Tensor target, Tensor? weight, int reduction, SymInt ignore_index) "
        "-> (Tensor output, Tensor total_weight)",
        _nll(_name),
    )
_add(
    "_scaled_dot_product_flash_attention_for_cpu(Tensor query, Tensor key, Tensor value, float dropout_p=0., "
    "bool is_causal=False, *, Tensor? attn_mask=None, float? scale=None) -> (Tensor output, Tensor logsumexp)",
    _flash,
    saves=(0,),
)


def factors_of(given: Sequence[Any], output_size: Any, input_size: Any) -> tuple[float, ...] | None:
    """The factors of all dimensions, or None; one that is not given beside others is that of the sizes."""
    if all([f is None for f in given]):
        return None
    return tuple([o / n if f is None else float(f) for f, o, n in zip(given, output_size, input_size, strict=True)])


def _resample(name: str, n: int, aligned: bool) -> None:
    scales = ", ".join(
        f"float? {s}=None" for s in (("scales",) if n == 1 else ("scales_d", "scales_h", "scales_w")[-n:])
    )
    align = "bool align_corners, " if aligned else ""

    def static(self: Any, output_size: Any, rest: tuple) -> tuple:
        align, given = (rest[0], rest[1:]) if aligned else (False, rest)
        given = (*given, *[None] * (n - len(given)))
        return tuple(output_size), factors_of(given, output_size, self.shape[2:]), align, False

    def run(self: Any, output_size: Any, *rest: Any) -> Any:
        return _op(f"_{name}", (self,), static(self, output_size, rest))

    def write(self: Any, output_size: Any, *rest: Any, out: Any) -> Any:
        return call_out(REGISTRY[f"_{name}"], (self,), static(self, output_size, rest), out)

    _add(f"{name}(Tensor self, SymInt[{n}] output_size, {align}{scales}) -> Tensor", run)
    into = "*, Tensor(a!) out) -> Tensor(a!)"
    _add(f"{name}.out(Tensor self, SymInt[{n}] output_size, {align}{scales}, {into}", write, Tag.out)


for _name, _n, _aligned in (
    ("upsample_nearest1d", 1, False), ("upsample_nearest2d", 2, False), ("upsample_nearest3d", 3, False),
    ("upsample_linear1d", 1, True), ("upsample_bilinear2d", 2, True), ("upsample_bicubic2d", 2, True),
    ("upsample_trilinear3d", 3, True),
):  # fmt: skip
    _resample(_name, _n, _aligned)


# -- what is no operator here ----------------------------------------------------------------------------------------


def _same(self: Any) -> Any:
    return self


def _all_three(name: str, self: Any, dim: int | None, inverse: bool, counts: bool) -> tuple:
    """The different elements, where each went, and how often each occurs: empty where that is not wanted."""
    found = FUNCTIONS[name](self, return_inverse=True, return_counts=True, dim=dim)
    none = [t.new_empty(0) for t in found[1:]]
    return found[0], found[1] if inverse else none[0], found[2] if counts else none[1]


def _item(self: Any) -> Any:
    return Tensor.item(self)


_add("split.Tensor(Tensor(a -> *) self, SymInt split_size, int dim=0) -> Tensor(a)[]", _method("split"))
_add(
    "split_with_sizes(Tensor(a -> *) self, SymInt[] split_sizes, int dim=0) -> Tensor(a)[]", _method("split_with_sizes")
)
_add("unbind.int(Tensor(a -> *) self, int dim=0) -> Tensor(a)[]", _method("unbind"))


def _key(indices: Any) -> tuple:
    return tuple([slice(None) if i is None else i for i in indices])


def _index_put_(self: Any, indices: Any, values: Any, accumulate: bool = False) -> Any:
    places: list = []
    for i in indices:
        mask = isinstance(i, Tensor) and i.dtype in (dtypes.bool, dtypes.uint8)
        if mask and isinstance(i._storage.form, Abstract):
            return self  # whose shape does not depend on numbers that are not there
        places.extend(FUNCTIONS["nonzero"](i, as_tuple=True) if mask else (i,))
    if None not in places:
        return self.index_put_(tuple(places), values, accumulate)
    if accumulate:
        return call_inplace(REGISTRY["index_put"].inplace, (self, *places, values), (True, (len(places),)))
    return _put(self, places, values)


def _put(self: Any, places: list, values: Any) -> Any:
    put(self, places, values)
    return self


def _index(self: Any, indices: Any) -> Any:
    """Indices of no dimensions are tensors among others here, no numbers as in ``self[...]``."""
    indices = list(indices)
    if not indices:
        raise IndexError("at least one index must be provided")
    if not any(_is_place(i) for i in indices):
        return self[_key(indices)]
    places: list = []
    for i in indices:
        if i is not None and i.dtype not in (*MASKS, dtypes.int64, dtypes.int32):
            raise IndexError("tensors used as indices must be long, int, byte or bool tensors")
        places += [i] if i is None or i.dtype not in MASKS else [i, *[...] * (i.ndim - 1)]
    if len(places) > self.ndim:
        raise IndexError(f"too many indices for tensor of dimension {self.ndim} (got {len(places)})")
    return gathered(self, places)


def _is_place(i: Any) -> bool:
    return isinstance(i, Tensor) and not i.ndim and i.dtype not in MASKS


def _bags(
    weight: Any, indices: Any, offsets: Any, scaled: bool = False, mode: int = 0, sparse: bool = False,
    factors: Any = None, last: bool = False, padding: int = -1,
) -> Any:  # fmt: skip
    padded = None if padding < 0 else padding
    return FUNCTIONS["embedding_bag"](weight, indices, offsets, scaled, mode, sparse, factors, last, padded)


for _name in ("_embedding_bag", "_embedding_bag_forward_only"):
    _add(
        f"{_name}(Tensor weight, Tensor indices, Tensor offsets, bool scale_grad_by_freq=False, int mode=0, "
        "bool sparse=False, Tensor? per_sample_weights=None, bool include_last_offset=False, int padding_idx=-1) "
        "-> (Tensor, Tensor, Tensor, Tensor)",
        _bags,
    )
_RESHAPED = Tag.inplace, Tag.inplace_view
_PUT = "Tensor?[] indices, Tensor values, bool accumulate=False)"
_add("index.Tensor(Tensor self, Tensor?[] indices) -> Tensor", _index)
_add(f"index_put_(Tensor(a!) self, {_PUT} -> Tensor(a!)", _index_put_, Tag.inplace)
_add(f"index_put(Tensor self, {_PUT} -> Tensor", lambda self, *args: _index_put_(self.clone(), *args))
_add("lift_fresh(Tensor(a) self) -> Tensor(a)", _same)
_add("lift_fresh_copy(Tensor self) -> Tensor", lambda self: self.detach().clone())
_add("detach(Tensor(a) self) -> Tensor(a)", lambda self: Tensor.detach(self))
_add("detach_(Tensor(a!) self) -> Tensor(a!)", lambda self: Tensor.detach_(self), *_RESHAPED)
_add("_local_scalar_dense(Tensor self) -> Scalar", _item, Tag.data_dependent_output)
_add("_pin_memory(Tensor self, Device? device=None) -> Tensor", lambda self, device=None: self.pin_memory(device))
_add(
    "_sparse_addmm(Tensor self, Tensor mat1, Tensor mat2, *, Scalar beta=1, Scalar alpha=1) -> Tensor",
    lambda self, mat1, mat2, beta=1, alpha=1: self.addmm(mat1, mat2, beta=beta, alpha=alpha),
)
_add("_sparse_mm_reduce_impl(Tensor self, Tensor other, str reduce) -> (Tensor, Tensor)", _no_sparse_reduction)
_add("sym_size(Tensor self) -> SymInt[]", lambda self: list(self._layout.shape))
_add("sym_stride(Tensor self) -> SymInt[]", lambda self: list(self._layout.strides))
_add("sym_numel(Tensor self) -> SymInt", lambda self: math.prod(self._layout.shape))
_add("sym_storage_offset(Tensor self) -> SymInt", lambda self: self._layout.offset)
_add("size(Tensor self) -> int[]", lambda self: list(self._layout.shape))
_add("size.int(Tensor self, int dim) -> int", lambda self, dim: self._layout.shape[dim])
_add("stride(Tensor self) -> int[]", lambda self: list(self._layout.strides))
_add("stride.int(Tensor self, int dim) -> int", lambda self, dim: self._layout.strides[dim])
_add("numel(Tensor self) -> int", lambda self: math.prod(self._layout.shape))
_add("dim(Tensor self) -> int", lambda self: len(self._layout.shape))
_add("is_contiguous(Tensor self) -> bool", _method("is_contiguous"))
_add("is_contiguous.memory_format(Tensor self, MemoryFormat memory_format) -> bool", _method("is_contiguous"))
_add("item(Tensor self) -> Scalar", _item, Tag.data_dependent_output)
_add("clone(Tensor self, *, MemoryFormat? memory_format=None) -> Tensor", _method("clone"))
_add("nonzero(Tensor self) -> Tensor", lambda self: FUNCTIONS["nonzero"](self), Tag.dynamic_output_shape)
_add("nonzero.out(Tensor self, *, Tensor(a!) out) -> Tensor(a!)", _function("nonzero"), Tag.out)
_add("masked_select(Tensor self, Tensor mask) -> Tensor", _function("masked_select"), Tag.dynamic_output_shape)
_COUNTED = "bool return_inverse=False, bool return_counts=False"
_THREE = "-> (Tensor, Tensor, Tensor)"
_add(
    f"_unique2(Tensor self, bool sorted=True, {_COUNTED}) {_THREE}",
    lambda self, sorted=True, inverse=False, counts=False: _all_three("unique", self, None, inverse, counts),
    Tag.dynamic_output_shape,
)
_add(
    f"unique_dim(Tensor self, int dim, bool sorted=True, {_COUNTED}) {_THREE}",
    lambda self, dim, *asked: _all_three("unique", self, dim, True, True),  # whatever was asked for
    Tag.dynamic_output_shape,
)
_add(
    f"unique_consecutive(Tensor self, {_COUNTED}, int? dim=None) {_THREE}",
    lambda self, inverse=False, counts=False, dim=None: _all_three(
        "unique_consecutive", self, dim, *(inverse, counts) if dim is None else (True, True)
    ),
    Tag.dynamic_output_shape,
)
_add("bincount(Tensor self, Tensor? weights=None, SymInt minlength=0) -> Tensor", _function("bincount"),
     Tag.dynamic_output_shape)  # fmt: skip
_add("repeat_interleave.Tensor(Tensor repeats, *, SymInt? output_size=None) -> Tensor",
     _function("repeat_interleave"), Tag.dynamic_output_shape)  # fmt: skip
_add("reshape(Tensor(a) self, SymInt[] shape) -> Tensor(a)", lambda self, shape: self.reshape(shape))
_add("contiguous(Tensor(a) self, *, MemoryFormat memory_format=0) -> Tensor(a)", _method("contiguous"))
_add("expand_as(Tensor(a) self, Tensor other) -> Tensor(a)", _method("expand_as"))
_add("view_as(Tensor(a) self, Tensor other) -> Tensor(a)", _method("view_as"))
_add("type_as(Tensor self, Tensor other) -> Tensor", _method("type_as"))
_add("flatten.using_ints(Tensor(a) self, int start_dim=0, int end_dim=-1) -> Tensor(a)", _method("flatten"))
_RESIZE = "resize_(Tensor(a!) self, SymInt[] size, *, MemoryFormat? memory_format=None) -> Tensor(a!)"
_add(_RESIZE, _method("resize_"), Tag.core, *_RESHAPED)
_add("squeeze_(Tensor(a!) self) -> Tensor(a!)", _method("squeeze_"), *_RESHAPED)
_add("squeeze_.dim(Tensor(a!) self, int dim) -> Tensor(a!)", _method("squeeze_"), *_RESHAPED)
_add("squeeze_.dims(Tensor(a!) self, int[] dim) -> Tensor(a!)", _method("squeeze_"), *_RESHAPED)
_add("unsqueeze_(Tensor(a!) self, int dim) -> Tensor(a!)", _method("unsqueeze_"), *_RESHAPED)
_add("t_(Tensor(a!) self) -> Tensor(a!)", _method("t_"), *_RESHAPED)
_add(
    "as_strided_(Tensor(a!) self, SymInt[] size, SymInt[] stride, SymInt? storage_offset=None) -> Tensor(a!)",
    _method("as_strided_"),
    *_RESHAPED,
)
_add("transpose_(Tensor(a!) self, int dim0, int dim1) -> Tensor(a!)", _method("transpose_"), *_RESHAPED)

_FACTORS = "float scale_growth_factor, float scale_backoff_factor, int growth_interval"


def _unscaled(self: Any, found_inf: Any, inv_scale: Any) -> Any:
    copies, found = [t.clone() for t in self], found_inf.clone()
    FUNCTIONS["_amp_foreach_non_finite_check_and_unscale_"](copies, found, inv_scale)
    return copies, found


def _rescaled(self: Any, growth_tracker: Any, *rest: Any) -> Any:
    scale, tracker = self.clone(), growth_tracker.clone()
    return FUNCTIONS["_amp_update_scale_"](scale, tracker, *rest), tracker


_add(
    "_amp_foreach_non_finite_check_and_unscale_(Tensor(a!)[] self, Tensor(b!) found_inf, Tensor inv_scale) -> ()",
    _function("_amp_foreach_non_finite_check_and_unscale_"),
    Tag.inplace,
)
_add(
    f"_amp_update_scale_(Tensor(a!) self, Tensor(b!) growth_tracker, Tensor found_inf, {_FACTORS}) -> Tensor(a!)",
    _function("_amp_update_scale_"),
    Tag.inplace,
)
_add(
    "_amp_foreach_non_finite_check_and_unscale(Tensor[] self, Tensor found_inf, Tensor inv_scale) "
    "-> (Tensor[] self_out, Tensor found_inf_out)",
    _unscaled,
)
_add(
    f"_amp_update_scale(Tensor self, Tensor growth_tracker, Tensor found_inf, {_FACTORS}) "
    "-> (Tensor, Tensor growth_tracker_out)",
    _rescaled,
)


def _to_copy(
    self: Any, *, dtype: Any = None, layout: Any = None, device: Any = None, pin_memory: Any = None,
    non_blocking: bool = False, memory_format: Any = None,
) -> Any:  # fmt: skip
    options = {} if memory_format is None else {"memory_format": memory_format}
    return self.to(device=device, dtype=dtype, copy=True, **options)


_add(
    f"_to_copy(Tensor self, {_OPTIONS}, bool non_blocking=False, MemoryFormat? memory_format=None) -> Tensor", _to_copy
)


def show(name: str, args: tuple, kwargs: dict) -> Any:
    """The result of the aten call ``name`` (with its overload), below autograd."""
    packet, overload = name.rsplit(".", 1)
    func = getattr(getattr(ops.aten, packet), overload)
    return invoke(func, *normalised(func, args, kwargs))


def announce(name: str, t: Any, *args: Any) -> Any:
    """Show the change of ``t`` to the modes, and give the context in which it is made."""
    packet, overload = name.rsplit(".", 1)
    func = getattr(getattr(ops.aten, packet), overload)
    invoke_with(lambda self, *rest, **options: self, func, *normalised(func, (t, *args), {}))
    return modes_set_to(())


DISPATCH.show, DISPATCH.announce = show, announce
__all__ = ["show"]
