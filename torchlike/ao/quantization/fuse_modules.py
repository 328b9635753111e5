"""torch.ao.quantization.fuse_modules: layers one after the other become one."""

from __future__ import annotations

import copy
from typing import Any

from torchlike import nn
from torchlike.ao.nn import intrinsic as nni
from torchlike.nn.utils.fusion import fuse_conv_bn_eval, fuse_linear_bn_eval

_TRAINED = {
    (nn.Conv1d, nn.BatchNorm1d): nni.ConvBn1d, (nn.Conv2d, nn.BatchNorm2d): nni.ConvBn2d,
    (nn.Conv3d, nn.BatchNorm3d): nni.ConvBn3d, (nn.Conv1d, nn.BatchNorm1d, nn.ReLU): nni.ConvBnReLU1d,
    (nn.Conv2d, nn.BatchNorm2d, nn.ReLU): nni.ConvBnReLU2d, (nn.Conv3d, nn.BatchNorm3d, nn.ReLU): nni.ConvBnReLU3d,
    (nn.Linear, nn.BatchNorm1d): nni.LinearBn1d,
}  # fmt: skip
_PAIRS = {
    (nn.Conv1d, nn.ReLU): nni.ConvReLU1d, (nn.Conv2d, nn.ReLU): nni.ConvReLU2d, (nn.Conv3d, nn.ReLU): nni.ConvReLU3d,
    (nn.Linear, nn.ReLU): nni.LinearReLU, (nn.BatchNorm2d, nn.ReLU): nni.BNReLU2d,
    (nn.BatchNorm3d, nn.ReLU): nni.BNReLU3d,
}  # fmt: skip
_TRANSPOSED = {
    (nn.ConvTranspose1d, nn.BatchNorm1d), (nn.ConvTranspose2d, nn.BatchNorm2d), (nn.ConvTranspose3d, nn.BatchNorm3d)
}  # fmt: skip


def _together(is_qat: bool, modules: list[Any]) -> Any:
    """The one module that computes what these do one after the other."""
    kinds = tuple(type(m) for m in modules)
    if kinds in _PAIRS:
        return _PAIRS[kinds](*modules)
    if kinds not in _TRAINED and kinds not in _TRANSPOSED:
        names = ", ".join(k.__name__ for k in kinds)
        raise AssertionError(f"did not find fuser method for: {names}; see fuse_modules() for what goes together")
    if len({m.training for m in modules[:2]}) > 1:
        raise AssertionError("Conv and BN both must be in the same mode (train or eval).")
    if is_qat:
        if kinds in _TRANSPOSED:
            raise NotImplementedError(f"Cannot fuse train modules: {kinds}")
        if modules[1].num_features != getattr(modules[0], "out_channels", getattr(modules[0], "out_features", 0)):
            raise AssertionError("Output channel of Conv2d must match num_features of BatchNorm2d")
        return _TRAINED[kinds](*modules)
    layer, norm = modules[:2]
    if kinds[0] is nn.Linear:
        first = fuse_linear_bn_eval(layer, norm)
    else:
        first = fuse_conv_bn_eval(layer, norm, kinds in _TRANSPOSED)
    return _PAIRS[type(first), nn.ReLU](first, modules[2]) if len(modules) > 2 else first


def fuse_known_modules(mod_list: list[Any], is_qat: bool, additional_fuser_method_mapping: Any = None) -> list[Any]:
    """What takes the places of some modules: the fused one, and Identity for the others."""
    if additional_fuser_method_mapping:
        raise NotImplementedError("fuse_known_modules(): fusers of one's own are not supported by torchlike")
    fused = _together(is_qat, mod_list)
    for hook in mod_list[0]._forward_pre_hooks.values():
        fused.register_forward_pre_hook(hook)
    mod_list[0]._forward_pre_hooks.clear()
    for hook in mod_list[-1]._forward_hooks.values():
        fused.register_forward_hook(hook)
    mod_list[-1]._forward_hooks.clear()
    rest = []
    for _ in mod_list[1:]:
        empty = nn.Identity()
        empty.training = mod_list[0].training
        rest.append(empty)
    return [fused, *rest]


def _at(model: Any, name: str) -> Any:
    return model.get_submodule(name)


def _put(model: Any, name: str, module: Any) -> None:
    above, _, last = name.rpartition(".")
    setattr(_at(model, above) if above else model, last, module)


def _fuse(model: Any, modules_to_fuse: Any, is_qat: bool, inplace: bool, fuser_func: Any) -> Any:
    model = model if inplace else copy.deepcopy(model)
    lists = [modules_to_fuse] if all(isinstance(name, str) for name in modules_to_fuse) else modules_to_fuse
    for names in lists:
        found = fuser_func([_at(model, name) for name in names], is_qat)
        for name, module in zip(names, found, strict=True):
            _put(model, name, module)
    return model


def fuse_modules(
    model: Any, modules_to_fuse: Any, inplace: bool = False, fuser_func: Any = fuse_known_modules,
    fuse_custom_config_dict: Any = None,
) -> Any:  # fmt: skip
    """A copy of ``model``, in evaluation mode, in which batch norms are folded in and relu goes with what is before it.

    Args:
        modules_to_fuse: names of modules one after the other, or a list of such lists: a convolution or linear layer,
            its batch norm, relu; or two of them.

    >>> import torchlike as torch
    >>> model = torch.nn.Sequential(torch.nn.Linear(2, 3), torch.nn.ReLU()).eval()
    >>> torch.ao.quantization.fuse_modules(model, ["0", "1"])[1]
    Identity()
    """
    return _fuse(model, modules_to_fuse, False, inplace, fuser_func)


def fuse_modules_qat(
    model: Any, modules_to_fuse: Any, inplace: bool = False, fuser_func: Any = fuse_known_modules,
    fuse_custom_config_dict: Any = None,
) -> Any:  # fmt: skip
    """As :func:`fuse_modules`, for models that will be trained: batch norms stay, in fused modules."""
    return _fuse(model, modules_to_fuse, True, inplace, fuser_func)
