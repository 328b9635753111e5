"""Writes docs/operators.md from the declarations: ``python docs/make_operators.py``."""

import dis
import functools
import inspect
import itertools
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

import missing_overloads

import torchlike
import torchlike.storage  # gives Tensor a method
from torchlike import nn, optim
from torchlike._core.dispatch import bind
from torchlike._core.tensor.tensor import Tensor
from torchlike._decl import explain
from torchlike._decl.op import REGISTRY, ViewOp

PAGE = Path(__file__).with_name("operators.md")
CALLS = Path(__file__).with_name("backward_calls.txt")
HEAD = """\
# Operators, layers, optimizers

Made from the declarations by `python docs/make_operators.py`; a test keeps it current. `python -m torchlike explain
NAME` shows one in full.

- *dtypes*: what inputs are cast to before anything is computed: nothing, where none is said; *floats*, integers and
  bools to the default float; *promoted*, to their common dtype; *int64*, of integers and bools.
- *derivative*: `jax.vjp` of the kernel, a formula (where PyTorch saves other values or defines another value at a
  kink), that of a view, or none; and the aten operator that it is one call of, where it is.
- *autocast*: what autocast does with the inputs, on the CPU and on other devices.
- *aten calls*: what dispatch modes see: an operator of the same name, nothing said; those that PyTorch composes it
  of, some of them for some arguments alone; or one of torchlike's own.
- *unlike JAX's*: points at which the derivative differs from that of JAX's function ([kinks](kinks.md)). The gradient
  of a complex number is the conjugate of JAX's everywhere ([conventions](conventions.md)).
"""

# What PyTorch's database of operators finds to differ, and why it stays.
GAPS = [
    ("`embedding_bag`", "`scale_grad_by_freq`", "its gradient is refused: PyTorch divides by counts of other rows"),
    (
        "`embedding_bag`",
        "`include_last_offset`, with a last offset before the end of the input",
        "sums end there but for float64, as PyTorch's; so do gradients, where PyTorch's of means do not",
    ),
    ("batches of CSR, CSC, BSR and BSC", "products of matrices", "refused by name"),
    ("`detach()`, `data` of COO", "sums and products in place", "change the tensor too; PyTorch's leave it as it was"),
    ("`MaskedTensor`", "sparse layouts", "refused: masks of sparse tensors"),
    ("`as_masked_tensor`", "gradient of data", "a Tensor with 0 where the mask is False; PyTorch's has the mask"),
    ("`masked.mean`, `masked.var`, `masked.std`", "of a MaskedTensor", "under its mask; PyTorch counts all elements"),
    ("`linalg.*`, `qr`, `svd`, `lu*`, `cholesky*`", "strides under vmap, of `numpy()`", "results lie by rows there"),
    ("`unravel_index`", "strides", "those of one tensor of all coordinates"),
    (
        "`triangular_solve`, `cholesky_inverse`",
        "jvp",
        "the map that the gradient is the transpose of; PyTorch's is another one",
    ),
    ("`linalg.eigh`", "jvp of tangents that are not symmetric", "of the triangle that is read; PyTorch's reads both"),
    ("`as_strided_scatter`", "gradient of self", "0 where src was written; PyTorch gives it there and 0 elsewhere"),
    ("`*_scatter` of views", "strides of an input with gaps", "dense in its order; PyTorch's are those of the input"),
    ("`linalg.lstsq`", "driver gelsy, where `rcond` is near a ratio", "the rank is by singular values, as of gelsd"),
    ("`linear_cross_entropy` in chunks", "gradgrad", "differentiated twice; PyTorch's second derivative is 0"),
    (
        "`topk`, `kthvalue`, `mode`, `argsort`, `sort`",
        "places of equal elements",
        "in their order (`mode`: the last); PyTorch promises none: its CPU sorts by introsort beyond 16 elements, and "
        "selects by Hoare's partitions. Their order would take ten times the time and a second to compile",
    ),
    ("`topk(sorted=False)`", "order of the elements", "sorted all the same; PyTorch's depends on its algorithm"),
    (
        "`resize_`",
        "CSC, BSR, BSC and hybrid tensors",
        "NotImplementedError; PyTorch resizes them as if they were CSR, into parts that do not fit their layout",
    ),
    ("`csr.data = a`", "", "`a` with its values; PyTorch keeps the old values under the new size"),
    ("`matrix_exp`", "bfloat16, float16", "right; PyTorch gives NaN or numbers far off, 2e4 for 1"),
    ("`pow`, `__rpow__`", "complex64", "within 3e-6 of the modulus, as PyTorch's, but other last digits"),
    ("`logcumsumexp`", "jvp", "right to 3e-6 in float32"),
    ("`var_mean`, `std_mean`", "infinities", "the mean is that of `mean`; PyTorch's depends on the order of elements"),
    ("`interpolate`", "`antialias` to a width of 1", "each row is its own; PyTorch repeats the first"),
    ("`fft.ihfft2`, `fft.ihfftn`", "out=", "whole; PyTorch leaves a part of the given tensor as it was"),
    ("`conv_transpose*`", "float16, bfloat16", "rounded once; PyTorch rounds each step where the processor lacks them"),
    (
        "`special.bessel_*`, `special.airy_ai`",
        "float64",
        "PyTorch's numbers, which are off by up to 9e-7 (beyond 5) and 3e-6 (left of -2.09)",
    ),
    ("`special.bessel_*`", "float32, large arguments", "of the angle in 64 bits; PyTorch rounds the angle to float32"),
    ("`cosh`, `sinh`, `special.modified_bessel_i*`", "where `exp` overflows", "right; PyTorch's are infinite"),
    ("`special.ndtr`", "below -4", "right; PyTorch's lose their digits and are 0 from -8.3 on in float64"),
    ("`special.log_ndtr`", "gradient far below 0", "right; PyTorch's is infinite or 0"),
    (
        "`elu`, `celu`, `selu`, `hardtanh`, `relu6`, `hardshrink`, `softshrink`, `hardswish`",
        "gradient at NaN",
        "that of PyTorch's vectors; in what is left over of a tensor it has 1 there",
    ),
    ("`special.*_polynomial_*`", "float32", "the same recurrences; XLA's are other last digits"),
    (
        "about 150 operators",
        "uint16, uint32, uint64",
        "computed by the rules of other integers; PyTorch has no kernels for these on the CPU (add, max, gather, mm)",
    ),
    (
        "in-place operators, of `unfold` and `as_strided`",
        "a tensor whose elements share memory",
        "each element is computed from what was there before; PyTorch's depend on the order of its loop",
    ),
    ("`mm`, `bmm`, `addmm`, `baddbmm`", "`out_dtype=`", "NotImplementedError; PyTorch has them on CUDA alone"),
    ("`narrow_copy`", "a dimension that there is not", "IndexError, as of `narrow`; PyTorch fails in an assertion"),
    ("`pixel_unshuffle`", "tensors without elements", "blocks of pixels go to channels; PyTorch keeps the shape"),
    ("`quantize_per_channel`", "NaN", "the integer of `quantize_per_tensor`; PyTorch gives 0"),
    ("`_foreach_*`", "requires_grad", "of the lists' own results; in PyTorch all require grad where one does"),
    ("`angle`", "strides, of complex numbers", "those of the input; PyTorch's are contiguous"),
    ("`einsum`", "strides", "contiguous; PyTorch's are those of its products, sums and diagonals"),
    ("`Tensor.__rdiv__`", "of a number for the tensor", "the quotient; PyTorch asks the number for `reciprocal`"),
    ("`ormqr`, `householder_product`", "gradient of empty matrices", "zeros; PyTorch gives None"),
    ("`addbmm_`", "a tensor of no dimensions", "refused; PyTorch resizes it"),
    ("`narrow`", "start as a tensor", "of integers and one element alone; TypeError for others"),
    ("`cat`, `gather`", "out= that is expanded", "resized; PyTorch refuses a storage of numpy's"),
    ("`_foreach_pow` of a number", "strides", "as `pow`; PyTorch's are contiguous"),
    (
        "`matrix_power`, `linalg.matrix_power`",
        "out= of another dtype, n of 0 or 1",
        "refused as for other n; PyTorch casts",
    ),
    ("`diff`", "out= of another dtype, n of 0", "cast as for other n; PyTorch refuses"),
    ("factories", "`pin_memory=True` without an accelerator", "accepted without effect; PyTorch raises RuntimeError"),
    ("`linear_cross_entropy` in chunks", "calls that dispatch modes see", "those of the whole: XLA cuts them"),
    ("`multi_head_attention_forward`", "calls, of `bias_k`, `add_zero_attn`", "one, `torchlike._multi_head_attention`"),
    ("`batch_norm`", "calls, of no elements, not training", "as of other tensors; PyTorch copies and scales them"),
    ("`to_sparse`", "calls", "a kernel of torchlike's; PyTorch's is `_to_sparse`"),
    ("`embedding_bag`", "calls, with `per_sample_weights`", "no copy of these, which PyTorch's kernel may want"),
    ("`gaussian_nll_loss`", "calls", "variances are looked at after they have been broadcast, in PyTorch before"),
    ("`linalg.norm`", "calls, of matrices without elements", "the sum of what there is not; PyTorch makes zeros"),
    ("`special.ndtr`", "calls", "`special_ndtr`: PyTorch's `erf` loses digits, see above"),
    (
        "`det`, `linalg.det`",
        "gradient of matrices whose determinant is 0",
        "the cofactors; 0 in PyTorch, and where a dispatch mode looks on: those are its calls",
    ),
    (
        "`linalg.eig`, `linalg.eigvals`; `svd`, `eigh` of complex matrices",
        "calls of backward",
        "one kernel, which checks that the loss depends on no phase",
    ),
    ("`linalg.lstsq`", "calls of backward", "one kernel: residuals are differentiable here, too"),
    (
        "`ormqr`, `householder_product`",
        "calls of backward",
        "those of the reflections, without loops over slices in place",
    ),
    ("`special.log_ndtr`", "calls of backward", "those of a scaled function: PyTorch's are infinite or 0 far below 0"),
    (
        "`as_strided`, `as_strided_copy`, `as_strided_scatter`, `stft`",
        "calls of backward",
        "places and `index_put`: PyTorch writes into a view of new memory that is laid out as the input's",
    ),
    (
        "`diagonal_scatter`, `select_scatter`, `slice_scatter`, `pad` in circles",
        "calls of backward",
        "a write into a view: kernels of torchlike's; PyTorch has nodes of their own, or clones the part",
    ),
    (
        "`embedding_bag`, `ctc_loss`, `segment_reduce`, `_segment_reduce`",
        "calls of backward",
        "one kernel of torchlike's: PyTorch's takes what its forward alone has saved",
    ),
    ("`multi_head_attention_forward`", "calls of backward, of `bias_k`, `add_zero_attn`", "of one kernel, as forward"),
    (
        "`linear_cross_entropy`",
        "calls of backward, in chunks, of one vector",
        "of the whole, and views in place of `unsqueeze`",
    ),
    (
        "`logcumsumexp`, `renorm`, `mvlgamma`",
        "calls of backward",
        "of jax's formula: PyTorch's loses infinities, widens to float64, adds a dimension of shifts",
    ),
    ("`bilinear`", "calls of backward", "products and sums; PyTorch has an operator of three factors"),
    (
        "`block_diag`, `combinations`",
        "calls of backward",
        "other calls of the same numbers: padding, writes to places",
    ),
    (
        "`dist`, `ldexp`, `frexp`, `amax`, `amin`, `gradient`, `native_dropout_backward`",
        "calls of backward",
        "as PyTorch's but one: the difference saved, `exp2`, a cast, a view later or more, `div` by a tensor",
    ),
    (
        "`_softmax_backward_data`, `native_group_norm` (all three results)",
        "calls of backward",
        "of their derivatives as jax has them; PyTorch's have formulas of their own",
    ),
    (
        "`sgn`, `max_pool2d_with_indices_backward`, `cat`, `index_put`, `_unsafe_masked_index`, "
        "`_unsafe_masked_index_put_accumulate`",
        "calls of backward",
        "zeros are made by `zeros_like` or `new_zeros`, masks are places; PyTorch has others, and an operator of masks",
    ),
    (
        "`rrelu`",
        "calls of backward, of random slopes",
        "the product with the slopes; PyTorch's operator multiplies by them, too",
    ),
    (
        "`max_unpool1d`, `masked.sum`, `masked.mean`, `sum`, `expand_as`, `linalg.vecdot`, "
        "`split`, `unsafe_split`, `repeat`, `tile`, `adaptive_avg_pool1d`",
        "calls of backward, where nothing changes: no or one dimension, part or element",
        "without views, sums and `cat` of one; with others",
    ),
    (
        "`fft.fft`, `fft.ifft`, `fft.ihfft`, `fft.rfft`, `rot90`, `pixel_shuffle`, `constant_pad_nd`, `pad`, "
        "`max_unpool2d`, `cdist`, `cosine_similarity`",
        "calls of backward, the last, and copies",
        "a gradient that lies in order becomes `.grad` as it is, one of no elements too; PyTorch copies where its own "
        "strides differ",
    ),
    (
        "`__radd__`, `__rmul__`, `__rdiv__`, `linalg.matrix_power`, `linalg.multi_dot`",
        "calls of backward",
        "those of the operands as they were given, and in the order of the products",
    ),
    ("`fft.ihfft2`, `fft.ihfftn`", "calls of backward", "a lazy conjugate; PyTorch's is a copy"),
    (
        "`matmul`, `__rmatmul__`, `svd_lowrank`, `pca_lowrank`",
        "calls of backward",
        "of a matrix and a stack: products of the stack, which PyTorch folds; `transpose` for `t`",
    ),
    (
        "`native_batch_norm`, `_native_batch_norm_legit`, `_batch_norm_with_update`, `batch_norm`",
        "calls of backward, not training or of no elements",
        "`native_batch_norm_backward` with statistics that PyTorch has not saved, or has another operator for",
    ),
    ("`einsum`", "calls, of backward too", "one, and those of jax's products; PyTorch has views and `bmm` of pairs"),
    ("`scaled_dot_product_attention`", "calls of backward, of `enable_gqa`", "sums at places; PyTorch has views"),
    ("`_upsample_bilinear2d_aa`", "calls of backward", "a kernel of torchlike's"),
    ("`chalf`", "", "refused: jax has no complex32"),
    ("`batch_norm`", "gradient of a running statistic without elements", "refused as of others; PyTorch looks at none"),
    ("`lobpcg`", "`tracker`", "refused: eigenpairs are computed without iteration"),
]


DTYPES = {
    "same": "", "int_to_float": "floats", "promote": "promoted", "promote_types": "promoted", "bool_to_int": "int64",
    "int_to_float but bool": "floats, bools refused", "of_quotient": "promoted, floats",
    "float_and_exponent": "that of a float and an exponent",
}  # fmt: skip


def _aten_names(f):
    """The names of aten that a function of calls writes, itself or through others that take ``aten``."""
    if isinstance(f, functools.partial):
        return _aten_names(f.func) | {a for a in f.args if isinstance(a, str) and hasattr(torchlike.ops.aten, a)}
    captured = [c.cell_contents for c in f.__closure__ or ()]
    found, codes = set(), [f.__code__]
    for code in codes:
        codes += [c for c in code.co_consts if inspect.iscode(c)]
        steps = [i for i in dis.get_instructions(code) if i.opname != "PUSH_NULL"]
        pairs = [(a, b) for a, b in itertools.pairwise(steps) if a.argval == "aten"]
        asked = [b.argval for _, b in pairs if b.opname in ("LOAD_ATTR", "LOAD_METHOD", "LOAD_CONST")]
        words = [w.split(".")[0] for w in [*asked, *captured] if isinstance(w, str)]
        found |= {w for w in words if hasattr(torchlike.ops.aten, w)}
        others = [f.__globals__.get(n) for n in code.co_names] + captured
        for g in others:
            if inspect.isfunction(g) and g is not f and g.__code__.co_varnames[:1] == ("aten",):
                found |= _aten_names(g)
    return found


def _calls(op):
    if isinstance(op, ViewOp):
        return ""
    if op.aten.calls:
        return ", ".join(f"`{n}`" for n in sorted(_aten_names(op.aten.calls))) or "several"
    return "own" if op.aten.own else ""


def _derivative(op):
    whole = {d[0] for d in (op.backward or {}).values() if isinstance(d[0], str)} if not callable(op.backward) else ()
    return ", ".join([explain.derivative(op), *sorted({f"`{name.split('(')[0]}`" for name in whole})])


def _autocast(op):
    words = {place: rule if isinstance(rule, str) else "by its arguments" for place, rule in op.autocast.items()}
    if len(words) == 2 and len(set(words.values())) == 1:
        return f"`{words['cpu']}`"
    return ", ".join(f"{place} `{rule}`" for place, rule in words.items())


def operators():
    """Rows (forms, dtypes, derivatives, autocast, calls), by name, of the declared operators with a public form."""
    rows = {}
    for op in REGISTRY.values():
        names = explain.surface(op)
        if names:
            row = rows.setdefault(op.schema.name, tuple({} for _ in range(5)))
            facts = [DTYPES[op.dtype]], [_derivative(op)], [_autocast(op)], [_calls(op)]
            for column, found in zip(row, ([n.replace(op.schema.name, "x") for n in names], *facts), strict=True):
                column.update(dict.fromkeys([f for f in found if f]))
    return rows


def unlike():
    """The points, by operator, at which its derivative is not that of JAX's function."""
    points = {}
    for kink in torchlike.conventions.kinks():
        points.setdefault(kink.operator.split(".")[0], {}).update(dict.fromkeys(kink.points))
    return points


def composites():
    """Names of functions and methods that are plain Python over operators."""
    declared = set(operators())
    functions = {n for n in bind.FUNCTIONS if n not in declared}
    methods = {n for n, f in vars(Tensor).items() if not n.startswith("_") and n not in declared and callable(f)}
    return functions, methods - {n + "_" for n in declared}


def classes(module, base):
    """Public classes of a module that derive from ``base``."""
    found = {n: getattr(module, n) for n in dir(module)}
    return sorted(n for n, c in found.items() if inspect.isclass(c) and issubclass(c, base) and c is not base)


def functional():
    """Public functions of nn.functional."""
    return sorted(n for n, f in vars(nn.functional).items() if callable(f) and not (n[0] == "_" or inspect.isclass(f)))


def count():
    """How many PyTorch names of functions and methods there are."""
    functions, methods = composites()
    return len(set(operators()) | functions | methods)


def backward_calls():
    """What ``measure_backward_calls.py`` found: how much is PyTorch's, and a row for each entry that differs."""
    rows = [line.split(" | ") for line in CALLS.read_text().splitlines()]
    counts = [[int(n) for n in facts.split(" of ")] for _, facts, *_ in rows]
    same = sum(not differ for differ, _ in counts)
    passes, differing = sum(n for _, n in counts), sum(differ for differ, _ in counts)
    lines = [
        "",
        "### Calls of backward, measured",
        "",
        f"Under a dispatch mode {same} of {len(rows)} entries of PyTorch's database of operators have its calls in "
        "backward, with operands of the same shapes in the same order, in all of up to five samples of float64 "
        f"({passes - differing} of {passes} samples; `python docs/measure_backward_calls.py`). The others, whose "
        "reasons the table above has:",
        "",
        "| entry | samples that differ | first, PyTorch's | torchlike's |",
        "|---|---|---|---|",
    ]
    for (name, facts, *first), (differ, _) in zip(rows, counts, strict=True):
        if differ:
            lines.append(f"| `{name}` | {facts} | {' | '.join(f'`{call}`' for call in first)} |")
    return lines


def _forms(forms):
    order = ["torch.x", "Tensor.x", "Tensor.x_", "torch.x(out=)"]
    words = {"torch.x": "function", "Tensor.x": "method", "Tensor.x_": "in-place", "torch.x(out=)": "out="}
    symbols = sorted(f"`{f}`" for f in forms if f not in words)
    return ", ".join([words[f] for f in order if f in forms] + symbols)


def page():
    """The text of docs/operators.md."""
    titles = ["name", "forms", "dtypes", "derivative", "autocast", "aten calls", "unlike JAX's"]
    lines = [HEAD, "## Operators", "", f"| {' | '.join(titles)} |", "|---" * len(titles) + "|"]
    points = unlike()
    for name, (forms, *facts) in sorted(operators().items()):
        forms = _forms(forms).replace("|", chr(92) + "|")
        at = [f"`{p}`" for p in points.get(name, ())]
        at = ", ".join(at[:3] + [f"{len(at) - 3} more"] * (len(at) > 3))
        lines.append("| " + " | ".join([f"`{name}`", forms, *["; ".join(sorted(f)) for f in facts], at]) + " |")
    functions, methods = composites()
    sections = [
        ("Functions made of them", sorted(functions)),
        ("Methods made of them", sorted(methods - functions)),
        ("torch.nn", classes(nn, nn.Module)),
        ("torch.nn.functional", functional()),
        ("torch.optim", classes(optim, optim.Optimizer)),
        ("torch.optim.lr_scheduler", classes(optim.lr_scheduler, optim.lr_scheduler.LRScheduler)),
    ]
    for title, names in sections:
        lines += ["", f"## {title}", "", ", ".join(f"`{n}`" for n in names)]
    lines += ["", "## What stays different", "", "| operators | where | why |", "|---|---|---|"]
    lines += [f"| {names} | {where} | {why} |" for names, where, why in GAPS]
    lines += backward_calls()
    lines += missing_overloads.section()
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    PAGE.write_text(page())
    print(f"{PAGE.name}: {count()} names, torchlike {torchlike.__version__}")
