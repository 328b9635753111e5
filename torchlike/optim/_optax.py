"""Optimizers of optax, behind PyTorch's interface."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax

from torchlike._base.state import enable_grad, no_grad
from torchlike._core.conversion.convert import from_jax_array
from torchlike._core.tensor.tensor import Tensor, array_of, is_tensor
from torchlike.interop.jax_functions import from_jax, is_key
from torchlike.optim.optimizer import Optimizer, ParamsT, StateDict


def from_optax(params: ParamsT, transformation: Any) -> OptaxOptimizer:
    """An optimizer that updates ``params`` by a gradient transformation of optax.

    Args:
        params: the parameters, or (name, parameter) pairs; all are one group.
        transformation: what optax's functions give, ``optax.adam(1e-3)`` or a chain: an object with ``init(params)``
            and ``update(grads, state, params)``. It sees dicts of arrays by name (``"0"``, ``"1"``... without names),
            so that masks and ``optax.multi_transform`` can tell parameters apart.

    Returns:
        An ``Optimizer`` whose ``step(closure=None, **extra)`` is one compiled program. ``extra`` goes to the
        transformation's ``update``, such as ``value=loss``. A parameter without ``.grad`` counts as one of zeros, as
        ``jax.grad`` gives. Learning rates are the transformation's: schedules of optax, ``optax.inject_hyperparams``.

    Raises:
        TypeError: ``transformation`` has no ``init`` or ``update``.
        ValueError: there are several groups of parameters.
        NotImplementedError: ``optax.lookahead``, which keeps parameters of its own.

    >>> import torchlike as torch
    >>> class Descent:  # optax.sgd(0.5)
    ...     init = staticmethod(lambda params: ())
    ...     update = staticmethod(lambda grads, state, params: ({k: -0.5 * g for k, g in grads.items()}, state))
    >>> p = torch.nn.Parameter(torch.tensor([1.0, 2.0]))
    >>> opt = torch.optim.from_optax([p], Descent)
    >>> (p * p).sum().backward()
    >>> opt.step()
    >>> p.tolist()
    [0.0, 0.0]
    """
    return OptaxOptimizer(params, transformation)


class OptaxOptimizer(Optimizer):
    """See :func:`from_optax`. ``state["optax"]`` has the leaves of the transformation's state, as tensors."""

    def __init__(self, params: ParamsT, transformation: Any) -> None:
        if not (callable(getattr(transformation, "init", None)) and callable(getattr(transformation, "update", None))):
            raise TypeError(
                "from_optax(): expected a gradient transformation with init() and update(), as optax.adam(1e-3), got "
                f"{type(transformation).__name__}"
            )
        super().__init__(params, {})
        if len(self.param_groups) > 1:
            raise ValueError(
                f"from_optax(): got {len(self.param_groups)} groups of parameters, expected one; name the parameters "
                "and use optax.multi_transform for several"
            )
        self._bind(transformation)

    def _bind(self, transformation: Any) -> None:
        group = self.param_groups[0]
        self._names = [str(n) for n in group.get("param_names", range(len(group["params"])))]
        start = transformation.init({n: array_of(p) for n, p in zip(self._names, group["params"], strict=True)})
        if type(start).__name__ == "LookaheadState":
            raise NotImplementedError(
                "from_optax(): optax.lookahead keeps parameters of its own beside those it is given; keep the slow "
                "ones with torch.optim.swa_utils.AveragedModel, or train them by jax itself (torchlike.interop.to_jax)"
            )
        leaves, self._tree = jax.tree.flatten(start)
        self._keys = {i: jax.random.key_impl(x) for i, x in enumerate(leaves) if is_key(x)}
        with no_grad():
            self.state["optax"] = [from_jax_array(jax.numpy.array(x)) for x in map(_data, leaves)]
        self._update = from_jax(self._updated(transformation.update, self._tree, self._keys))

    @staticmethod
    def _updated(update: Callable, tree: Any, keys: dict[int, Any]) -> Callable:
        def optax_step(params: dict, grads: dict, leaves: list, extra: dict) -> tuple[dict, list]:
            given = [jax.random.wrap_key_data(x, impl=keys[i]) if i in keys else x for i, x in enumerate(leaves)]
            updates, state = update(grads, jax.tree.unflatten(tree, given), params, **extra)
            found, after = jax.tree.flatten(state)
            if after != tree:
                raise ValueError(f"the transformation's state changed its structure from {tree} to {after}")
            new = {n: (p + updates[n]).astype(p.dtype) for n, p in params.items()}
            return new, [_data(x).astype(old.dtype) for x, old in zip(found, leaves, strict=True)]

        return optax_step

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        if hasattr(self, "_names"):
            raise NotImplementedError("from_optax(): a group cannot be added; make a new optimizer of all parameters")
        super().add_param_group(param_group)

    def __getstate__(self) -> dict[str, Any]:
        raise NotImplementedError(
            "an optimizer of from_optax() cannot be copied or pickled, as optax's functions cannot; make another one "
            "and give it this one's state_dict()"
        )

    def load_state_dict(self, state_dict: StateDict) -> None:
        """Take over what :meth:`state_dict` gave; ValueError if it is another transformation's."""
        given = state_dict["state"].get("optax", [])
        kinds = [[(tuple(x.shape), x.dtype) for x in leaves] for leaves in (given, self.state["optax"])]
        if kinds[0] != kinds[1]:
            raise ValueError(f"from_optax(): the state has leaves {kinds[0]}, expected {kinds[1]}")
        super().load_state_dict(state_dict)

    @no_grad()
    def step(self, closure: Callable[[], Any] | None = None, **extra: Any) -> Any:
        """Update the parameters once; ``extra`` is for the transformation's ``update``."""
        loss = None
        if closure is not None:
            with enable_grad():
                loss = closure()
        params = dict(zip(self._names, self.param_groups[0]["params"], strict=True))
        grads = {n: _gradient(p) for n, p in params.items()}
        extra = jax.tree.map(lambda x: x.detach() if is_tensor(x) else x, extra, is_leaf=is_tensor)
        old = self.state["optax"]
        new, leaves = self._update({n: p.detach() for n, p in params.items()}, grads, old, extra)
        for n, p in params.items():
            p.copy_(new[n])
        for before, after in zip(old, leaves, strict=True):
            before.copy_(after)
        return loss


def _data(x: Any) -> Any:
    """A leaf of the state as numbers: of a random key its data."""
    return jax.random.key_data(x) if is_key(x) else x


def _gradient(p: Tensor) -> Tensor:
    return p.new_zeros(p.shape) if p.grad is None else p.grad.detach()
