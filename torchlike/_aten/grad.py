"""PyTorch's own backward operators: overloads of ``torch.ops.aten`` over the derived kernels of torchlike."""

import functools
import operator
from collections.abc import Callable
from typing import Any

from torchlike._aten.extra import by_position, factors_of
from torchlike._aten.source import SOURCE, Overload
from torchlike._core.dispatch.dispatch import call, plan_for
from torchlike._core.tensor.tensor import Tensor, alias, value_of
from torchlike._decl.function_schema import parse_schema
from torchlike._decl.op import REGISTRY


def _vjp(name: str, inputs: tuple, static: tuple, wanted: tuple, grads: tuple, outputs: tuple | None = None) -> tuple:
    """The gradients of the inputs with these indices, by the derived kernel of a declared operator."""
    op = REGISTRY[name]
    stands = [_marked(x, i in wanted) for i, x in enumerate(inputs)]
    plan = plan_for(op, stands, static, [value_of(x) if isinstance(x, Tensor) else x for x in inputs])
    if outputs is None and plan.outputs:
        out = call(op, inputs, static)
        outputs = out if isinstance(out, tuple) else (out,)
    arguments = [inputs[i] for i in plan.inputs] + [(outputs or ())[i] for i in plan.outputs]
    arguments += [grads[i] for i in plan.diff]
    got = call(plan.kernel, tuple(arguments), ()) if plan.kernel else ()
    return tuple(plan.routed(arguments, got if isinstance(got, tuple) else (got,)))


def _marked(x: Any, wanted: bool) -> Any:
    if not isinstance(x, Tensor):
        return x
    new = alias(x)
    new._rg = wanted
    return new


def _add(text: str) -> Callable[[Callable], Callable]:
    def register(function: Callable) -> Callable:
        SOURCE.add(Overload(text, lambda: function))
        return function

    return register


def _declared(name: str) -> Callable[[Callable], Callable]:
    """The backward operator that the declaration of ``name`` tells of."""
    return _add(next(iter(REGISTRY[name].backward.values()))[0])


def _backward(declared: Any, text: str, sources: dict) -> None:
    """The operator of this schema, which is the derivative of ``declared``, by the kernel of that."""
    arguments = parse_schema(f"aten::{text}").arguments
    order, lengths = [a.name for a in arguments], {a.name: a.N for a in arguments if a.N}
    results = declared.result_names or ("result", *(f"result{i}" for i in range(1, len(declared.schema.returns))))

    def backward(*args: Any, **kwargs: Any) -> Any:
        given = dict(zip(order, args, strict=False)) | kwargs
        named, dtype = {}, None
        for name, value in given.items():
            value = (value,) * lengths[name] if value.__class__ is int and name in lengths else value
            source = sources.get(name, name)
            if source == "result.dtype":
                dtype = value
            elif isinstance(source, str):
                named[source] = value
            elif not callable(source) and value is not source:
                raise NotImplementedError(
                    f"{text[: text.index('(')]}: {name}={value!r} is not supported, only {source!r}"
                )
        outputs = tuple([named.get(r) for r in results])
        grad = given[order[0]]
        stand = next((o for o in outputs if o is not None), grad)
        if dtype is not None:
            _demand_alike(text[: text.index("(")], grad, stand)
        inputs = tuple([_input(a, named, stand) for a in declared.dynamic])
        static = declared.exactly(tuple([_key(named.get(a.name, a.default)) for a in declared.static]))
        got = _vjp(declared.full_name, inputs, static, (0,), (grad,), outputs)[0]
        return got if dtype is None else got.to(dtype)

    _add(text)(backward)


def _demand_alike(name: str, grad: Any, output: Any) -> None:
    """Refuse gradients that are not of the shape and the floating dtype of the result."""
    if grad.shape != output.shape:
        raise RuntimeError(
            f"{name}(): Expected tensor for argument #1 'grad' to have same size as tensor for argument #2 'output'; "
            f"but {list(grad.shape)} does not equal {list(output.shape)}"
        )
    if not grad.is_floating_point():
        raise NotImplementedError(f"\"{name}\" not implemented for '{grad.dtype.scalar_name}'")
    if grad.dtype is not output.dtype:
        raise RuntimeError(
            f"{name}(): expected scalar type {grad.dtype.scalar_name} but found {output.dtype.scalar_name}"
        )


def _of_size(declared: Any, text: str) -> None:
    """The derivative of a resampling, which is told the shape of what was resampled."""
    order = [a.name for a in parse_schema(f"aten::{text}").arguments]

    def backward(*args: Any, **kwargs: Any) -> Any:
        given = dict(zip(order, args, strict=False)) | kwargs
        scales = [given.get(n) for n in order if n.startswith("scales")]
        factors = factors_of(scales, given["output_size"], given["input_size"][2:])
        static = _key(given["output_size"]), factors, given.get("align_corners", False), False
        grad = given["grad_output"]
        stand = grad.new_zeros(list(given["input_size"]))
        return _vjp(declared.full_name, (stand,), declared.exactly(static), (0,), (grad,))[0]

    _add(text)(backward)


def _input(a: Any, named: dict, stand: Any) -> Any:
    """What the derivative is given for an argument; where it has no such argument it reads no more than the shape."""
    if a.name in named:
        return named[a.name]
    if a.is_tensor and not a.optional:
        return stand
    return a.default if a.has_default or a.optional else 0


def _key(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value


def _add_all() -> None:
    for op in list(REGISTRY.values()):
        declared: dict = op.backward if isinstance(op.backward, dict) else {}
        for text, sources in declared.values():
            if not isinstance(text, str) or not text.endswith(") -> Tensor") or "num_weights" in text:
                continue
            if "input_size" in text:
                _of_size(op, text)
            else:
                _backward(op, text, sources)


_add_all()


@_declared("embedding")
def embedding_backward(grad: Any, indices: Any, num_weights: int, padding_idx: int, scale_grad_by_freq: bool) -> Any:
    weight = grad.new_zeros(num_weights, grad.shape[-1])
    return _vjp("embedding", (weight, indices), (padding_idx, scale_grad_by_freq, False), (0,), (grad,))[0]


def _chosen(grads: tuple, wanted: tuple, mask: list) -> tuple:
    """The gradients by place, None where the mask says that one is not wanted."""
    found = dict(zip(wanted, grads, strict=True))
    return tuple([found.get(i) for i in range(len(mask))])


@_declared("convolution")
def convolution_backward(grad: Any, input: Any, weight: Any, bias_sizes: Any, *rest: Any) -> Any:
    *static, mask = rest
    bias = grad.new_zeros(bias_sizes) if mask[2] else None
    wanted = tuple([i for i, yes in enumerate(mask) if yes])
    got = _vjp("convolution", (input, weight, bias), tuple(map(_key, static)), wanted, (grad,)) if wanted else ()
    return _chosen(got, wanted, mask)


@_add(
    "_convolution_double_backward(Tensor? ggI, Tensor? ggW, Tensor? ggb, Tensor gO, Tensor weight, Tensor self, "
    "SymInt[] stride, SymInt[] padding, SymInt[] dilation, bool transposed, SymInt[] output_padding, SymInt groups, "
    "bool[3] output_mask) -> (Tensor, Tensor, Tensor)"
)
def convolution_double_backward(
    for_input: Any, for_weight: Any, for_bias: Any, grad: Any, weight: Any, input: Any, *rest: Any
) -> Any:
    """The gradients of ``grad``, ``input`` and ``weight``, from those of the input's, weight's and bias' gradients.

    A convolution is linear in its input and in its weight, so they are three convolutions. The mask is not asked, as in
    PyTorch; there is None where every gradient that counts is None.
    """
    *static, _ = rest
    run, key = REGISTRY["convolution"], tuple(map(_key, static))
    parts = []
    if for_input is not None:
        parts.append(call(run, (for_input, weight, None), key))
    if for_weight is not None:
        parts.append(call(run, (input, for_weight, None), key))
    if for_bias is not None:
        parts.append(for_bias.reshape(-1, *(1,) * (weight.dim() - 2)).expand(grad.shape))
    of_input = of_weight = None
    if for_weight is not None:
        of_input = convolution_backward(grad, input, for_weight, None, *static, [True, False, False])[0]
    if for_input is not None:
        of_weight = convolution_backward(grad, for_input, weight, None, *static, [False, True, False])[1]
    return functools.reduce(operator.add, parts) if parts else None, of_input, of_weight


def _normed(name: str, inputs: tuple, static: tuple, outputs: tuple, grad: Any, mask: list) -> tuple:
    wanted = tuple([i for i, yes in enumerate(mask) if yes and inputs[i] is not None])
    got = _vjp(name, inputs, static, wanted, (grad,), outputs) if wanted else ()
    return _chosen(got, wanted, mask)


@_declared("native_layer_norm")
def layer_norm_backward(
    grad: Any, input: Any, normalized_shape: Any, mean: Any, rstd: Any, weight: Any, bias: Any, mask: list
) -> Any:
    inputs, outputs = (input, weight, bias, 1e-05), (None, mean, rstd)
    return _normed("native_layer_norm", inputs, (_key(normalized_shape),), outputs, grad, mask)


@_declared("native_batch_norm")
def batch_norm_backward(
    grad: Any, input: Any, weight: Any, mean: Any, var: Any, save_mean: Any, save_invstd: Any, train: bool, eps: float,
    mask: list,
) -> Any:  # fmt: skip
    bias = input.new_zeros(input.shape[1]) if mask[2] else None
    if train:
        inputs, outputs = (input, weight, bias, mean, var, 0.1, eps), (None, save_mean, save_invstd)
        return _normed("native_batch_norm", inputs, (False,), outputs, grad, mask)
    return _normed("_native_batch_norm_eval", (input, weight, bias, mean, var, eps), (), (), grad, mask)


@_declared("native_group_norm")
def group_norm_backward(
    grad: Any, input: Any, mean: Any, rstd: Any, weight: Any, n: int, c: int, hxw: int, group: int, mask: list
) -> Any:
    bias = input.new_zeros(c) if mask[2] else None
    return _normed("native_group_norm", (input, weight, bias, 1e-05), (group,), (None, mean, rstd), grad, mask)


@_add(
    "_scaled_dot_product_flash_attention_for_cpu_backward(Tensor grad_out, Tensor query, Tensor key, Tensor value, "
    "Tensor out, Tensor logsumexp, float dropout_p, bool is_causal, *, Tensor? attn_mask=None, float? scale=None) "
    "-> (Tensor grad_query, Tensor grad_key, Tensor grad_value)"
)
def flash_backward(
    grad: Any, query: Any, key: Any, value: Any, out: Any, logsumexp: Any, dropout_p: float, is_causal: bool, *,
    attn_mask: Any = None, scale: Any = None,
) -> Any:  # fmt: skip
    inputs = query, key, value, attn_mask, None, dropout_p, scale
    shared = key.shape[1] != query.shape[1]
    got = _vjp("_scaled_dot_product_attention", inputs, (is_causal, shared), (0, 1, 2), (grad,))
    return tuple(map(by_position, got))
