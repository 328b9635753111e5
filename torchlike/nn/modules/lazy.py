"""Lazy modules: layers whose sizes are known when they are first called."""

import itertools
from typing import Any

from torchlike._base.state import state
from torchlike.nn.parameter import is_lazy

__all__ = ["LazyModuleMixin"]


class LazyModuleMixin:
    """What a lazy module inherits besides the module that it becomes.

    A subclass registers :class:`UninitializedParameter` and ``UninitializedBuffer``, and defines
    ``initialize_parameters(*args)``, which is called with the arguments of the first call and
    materializes them; then the module's class becomes ``cls_to_become``, unless that is None.

    >>> import torchlike as torch
    >>> m = torch.nn.LazyLinear(2)
    >>> m(torch.ones(1, 3)).shape, m
    (torch.Size([1, 2]), Linear(in_features=3, out_features=2, bias=True))
    """

    cls_to_become: type | None = None

    def __init__(self: Any, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self._load_hook = self._register_load_state_dict_pre_hook(self._lazy_load_hook)
        self._initialize_hook = self.register_forward_pre_hook(self._infer_parameters, with_kwargs=True)

    def _save_to_state_dict(self: Any, destination, prefix, keep_vars) -> None:
        """As any module, but a tensor without a shape is saved itself: it has nothing to detach."""
        for name, tensor in self._saved_tensors():
            destination[prefix + name] = tensor if is_lazy(tensor) or keep_vars else tensor.detach()

    def _lazy_load_hook(
        self: Any, state_dict, prefix, local_metadata, strict, missing_keys, unexpected_keys, error_msgs
    ) -> None:
        """Give what has no shape as yet that of the tensor that is loaded into it."""
        for name, tensor in itertools.chain(self._parameters.items(), self._buffers.items()):
            given = state_dict.get(prefix + name)
            if is_lazy(tensor) and given is not None and not is_lazy(given):
                tensor.materialize(given.shape)

    def initialize_parameters(self: Any, *args, **kwargs) -> None:
        """Materialize the parameters and buffers for a call with these arguments; every subclass defines it."""
        raise NotImplementedError(f"initialize_parameters is not implemented for {type(self).__name__}")

    def has_uninitialized_params(self: Any) -> bool:
        """Whether a parameter or buffer of this module has no shape as yet."""
        return any(is_lazy(t) for t in itertools.chain(self._parameters.values(), self._buffers.values()))

    def _infer_parameters(self: Any, module, args, kwargs=None) -> None:
        """The hook before forward: initializes, and makes an ordinary module of this one."""
        if state.capture is not None:
            state.capture.postpone(f"initializes the parameters of {type(module).__name__}")
        module.initialize_parameters(*args, **(kwargs or {}))
        if module.has_uninitialized_params():
            raise RuntimeError(f"module {self._get_name()} has not been fully initialized")
        module._initialize_hook.remove()
        module._load_hook.remove()
        del module._initialize_hook, module._load_hook
        if module.cls_to_become is not None:
            module.__class__ = module.cls_to_become

    def _replicate_for_data_parallel(self: Any):
        raise RuntimeError(
            "Modules with uninitialized parameters can't be used with `DataParallel`. "
            "Run a dummy forward pass to correctly initialize the modules"
        )
