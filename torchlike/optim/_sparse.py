"""Steps of optimizers by sparse gradients: one program for all parameters of a group that have one."""

from collections.abc import Callable, Sequence
from typing import Any

from torchlike._core.sparse.value import coo_of, layout_name, value
from torchlike._core.tensor.mutation import wholes, write
from torchlike._core.tensor.tensor import Tensor, value_of
from torchlike._executor import fused
from torchlike._ops.optim_sparse import update_sparse


def has_sparse_grad(p: Tensor) -> bool:
    """Whether the gradient of a parameter is sparse."""
    grad = p.grad
    return grad is not None and value(grad) is not None


@fused.in_turn
def advance(
    rule: Callable[..., Any], params: Sequence[Tensor], states: Sequence[Sequence[Tensor]], numbers: dict[str, Any],
    steps: Sequence[Tensor] = (), maximize: bool = False, given: Sequence[Tensor] | None = None,
) -> None:  # fmt: skip
    """Change parameters and their states in place by a rule of ``_ops.optim_sparse``; ``given``: the gradients."""
    grads = []
    for grad in [p.grad for p in params] if given is None else given:
        v = coo_of(grad)
        if v is None:
            raise RuntimeError(
                f"a step by a sparse gradient expected sparse coordinate tensor layout but got {layout_name(grad)}"
            )
        v.demand_within()
        grads.append((value_of(v.indices), value_of(v.values)))
    values, old = [value_of(p) for p in params], [tuple([value_of(t) for t in s]) for s in states]
    counts = [value_of(t) for t in steps]
    found = {k: value_of(v) if isinstance(v, Tensor) else float(v) for k, v in numbers.items()}

    def keep(new: Any) -> None:
        for p, array in zip(params, new[0], strict=True):
            write(p, array)
        for s, arrays in zip(states, new[1], strict=True):
            for t, array in zip(s, arrays, strict=True):
                write(t, array)
        for t, array in zip(steps, new[2], strict=True):
            write(t, array)

    storages = wholes((*params, *[t for s in states for t in s]))
    static = (("rule", rule), ("maximize", maximize))
    fused.replace(update_sparse, static, (0, 2), (values, grads, old, counts, found), keep, storages)
