"""``jacrev``, ``jacfwd`` and ``hessian``: whole Jacobians, row by row or column by column, mapped over."""

import functools
import itertools
from collections.abc import Callable, Iterator
from typing import Any

from torchlike._base.state import followed, state
from torchlike._core.dispatch.bind import FUNCTIONS
from torchlike._core.tensor.tensor import Tensor
from torchlike.func._arguments import made, replaced, selected
from torchlike.func._grad import vjp_of
from torchlike.func._jvp import jvp
from torchlike.func._vmap import vmap
from torchlike.utils._pytree import tree_flatten, tree_map, tree_unflatten


def jacrev(
    func: Callable,
    argnums: int | tuple[int, ...] = 0,
    *,
    has_aux: bool = False,
    chunk_size: int | None = None,
    _preallocate_and_copy: bool = False,
) -> Callable:
    """The function that computes the Jacobian of ``func`` backwards, one row for each number that ``func`` returns.

    Args:
        func: takes and returns tensors, nested in tuples, lists and dicts. Where it returns such a nest, each tensor
            of it is replaced by the Jacobians with respect to the arguments.
        argnums: which positional argument to differentiate with respect to; a tuple for several.
        has_aux: ``func`` returns ``(output, aux)``; the result is ``(jacobian, aux)``.
        chunk_size: how many rows to compute at once; all if None. With 1, no operator needs to be mapped.

    The Jacobian of an output of shape ``S`` with respect to an argument of shape ``T`` has the shape ``S + T``. Where
    outputs have more numbers than arguments, :func:`jacfwd` is faster. ``_preallocate_and_copy`` is accepted: chunks
    are joined in one copy in any case.

    Raises:
        ValueError: a ``chunk_size`` that is not positive. RuntimeError: as :func:`vjp`, and outputs of integers.

    >>> import torchlike as torch
    >>> torch.func.jacrev(torch.square)(torch.tensor([1.0, 2.0]))
    tensor([[2., 0.],
            [0., 4.]])
    """
    if not (chunk_size is None or chunk_size > 0):
        raise ValueError("jacrev: `chunk_size` should be greater than 0.")

    @functools.wraps(func)
    def wrapped(*args: Any) -> Any:
        demand_real("jacrev", "inputs", args)
        out, pull, *aux = vjp_of(func, argnums, args, has_aux)
        demand_real("jacrev", "outputs", out)
        outs, out_spec = tree_flatten(out)
        for o in outs:
            if not (o.dtype.is_floating_point or o.dtype.is_complex):
                raise RuntimeError(
                    "vjp(f, ...): All outputs of f must be floating-point or complex Tensors, got Tensor with dtype "
                    f"{o.dtype}"
                )
        inputs, in_spec = tree_flatten(selected(args, argnums))

        def rows(basis: list) -> list:
            return tree_flatten(pull(tree_unflatten(basis, out_spec)))[0]

        found = _rows(rows, outs, chunk_size, inputs)
        split = [f.split([o.numel() for o in outs]) for f in found]
        jacobians = [
            tree_unflatten([s[k].reshape(o.shape + x.shape) for s, x in zip(split, inputs, strict=True)], in_spec)
            for k, o in enumerate(outs)
        ]
        result = tree_unflatten(jacobians, out_spec)
        return (result, *aux) if has_aux else result

    return wrapped


def _rows(rows: Callable, outs: list[Tensor], chunk_size: int | None, inputs: list[Tensor]) -> list[Tensor]:
    """The gradients of each number in ``outs``: for each input a tensor whose first axis counts them."""
    count = sum(o.numel() for o in outs)
    if not count:
        return [x.new_zeros((0, *x.shape)) for x in inputs]
    parts = []
    for start, stop in _chunks(count, chunk_size):
        basis = _basis(outs, start, stop)
        if stop == start + 1:  # nothing to map: of a scalar function this is its gradient
            parts.append([g.unsqueeze(0) for g in rows([b.squeeze(0) for b in basis])])
        else:
            parts.append(vmap(rows)(basis))
    return [column[0] if len(column) == 1 else FUNCTIONS["cat"](column) for column in zip(*parts, strict=True)]


def _chunks(count: int, size: int | None) -> Iterator[tuple[int, int]]:
    size = count if size is None else size
    return ((start, min(start + size, count)) for start in range(0, count, size))


def _basis(tensors: list[Tensor], start: int, stop: int) -> list[Tensor]:
    """Rows ``start`` to ``stop`` of the identity matrix over all numbers in the tensors, in their shapes."""
    if len(tensors) == 1 and not start and stop == tensors[0].numel():
        t = tensors[0]
        return [FUNCTIONS["eye"](stop, dtype=t.dtype, device=t.device).reshape(stop, *t.shape)]
    ends = list(itertools.accumulate(t.numel() for t in tensors))
    found = []
    for t, end in zip(tensors, ends, strict=True):
        row = FUNCTIONS["arange"](start, stop, device=t.device).unsqueeze(1)
        column = FUNCTIONS["arange"](end - t.numel(), end, device=t.device)
        found.append((row == column).to(t.dtype).reshape(stop - start, *t.shape))
    return found


def jacfwd(
    func: Callable, argnums: int | tuple[int, ...] = 0, has_aux: bool = False, *, randomness: str = "error"
) -> Callable:
    """The function that computes the Jacobian of ``func`` forwards, one column for each number of the arguments.

    Args:
        func, argnums, has_aux, and the result: as for :func:`jacrev`, which is faster where arguments have more
            numbers than outputs.
        randomness: what random operators in ``func`` do, see :func:`vmap`.

    Raises:
        ValueError: arguments that are not floating point. RuntimeError: as :func:`jvp`.

    >>> import torchlike as torch
    >>> torch.func.jacfwd(torch.square)(torch.tensor([1.0, 2.0]))
    tensor([[2., 0.],
            [0., 4.]])
    """

    @functools.wraps(func)
    def wrapped(*args: Any) -> Any:
        inputs, in_spec = tree_flatten(selected(args, argnums))
        _demand_tensors(inputs)
        demand_real("jacfwd", "inputs", args)

        def partial(*chosen: Any) -> Any:
            for x in tree_flatten(args)[0]:
                if isinstance(x, Tensor):
                    state.levels[-1].adopt(x)  # an argument may be changed in place, and have a tangent then
            return followed(func)(*replaced(args, argnums, made(tree_unflatten(list(chosen), in_spec))))

        def push(basis: list) -> Any:
            out, dots, *aux = jvp(partial, tuple(inputs), tuple(basis), has_aux=has_aux)
            demand_real("jacfwd", "outputs", out)
            return (dots, *aux) if has_aux else (dots, None)

        count = sum(x.numel() for x in inputs)
        dots, aux = vmap(push, out_dims=(-1, None), randomness=randomness)(_basis(inputs, 0, count))
        counts = [x.numel() for x in inputs]

        def columns(dot: Tensor) -> Any:
            parts = dot.split(counts, -1) if len(counts) > 1 else (dot,)
            shape = dot.shape[:-1]
            return tree_unflatten([p.reshape(shape + x.shape) for p, x in zip(parts, inputs, strict=True)], in_spec)

        result = tree_map(columns, dots)
        return (result, aux) if has_aux else result

    return wrapped


def demand_real(name: str, what: str, tree: Any) -> None:
    """Refuse complex tensors: of them a Jacobian would need a convention."""
    for i, x in enumerate(tree_flatten(tree)[0]):
        if isinstance(x, Tensor) and x.dtype.is_complex:
            raise RuntimeError(
                f"{name}: Expected all {what} to be real but received complex tensor at flattened input idx: {i}"
            )


def _demand_tensors(inputs: list) -> None:
    for x in inputs:
        if not isinstance(x, Tensor):
            raise AttributeError(
                f"'{type(x).__name__}' object has no attribute 'numel': jacfwd differentiates with respect to Tensors"
            )


def hessian(func: Callable, argnums: int | tuple[int, ...] = 0) -> Callable:
    """The function that computes the second derivatives of ``func``: ``jacfwd(jacrev(func))``.

    Of a scalar function of a tensor of shape ``T`` the result has the shape ``T + T``; for ``argnums`` and nests of
    tensors see :func:`jacrev`.

    Raises RuntimeError as :func:`jacrev` and :func:`jacfwd`; NotImplementedError for an operator without forward mode:
    ``jacrev(jacrev(func))`` needs none.

    >>> import torchlike as torch
    >>> torch.func.hessian(lambda x: (x**3).sum())(torch.tensor([1.0, 2.0]))
    tensor([[ 6.,  0.],
            [ 0., 12.]])
    """
    return jacfwd(jacrev(func, argnums), argnums)
