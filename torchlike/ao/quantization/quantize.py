"""torch.ao.quantization.quantize: models of floats become quantized ones, in eager mode."""

from __future__ import annotations

import copy
import warnings
from typing import Any

from torchlike import nn
from torchlike.ao._torch import torch
from torchlike.ao.nn.intrinsic.fused import _FusedModule
from torchlike.ao.nn.quantized.functional_modules import FloatFunctional, QFunctional
from torchlike.ao.quantization import qconfig as settings
from torchlike.ao.quantization import quantization_mappings as mappings
from torchlike.ao.quantization.fake_quantize import FakeQuantizeBase
from torchlike.ao.quantization.observer import _is_activation_post_process
from torchlike.ao.quantization.stubs import DeQuantStub, QuantWrapper
from torchlike.interop.refusing import refusing

__getattr__ = refusing(__name__, "torchlike quantizes in eager mode only: prepare, convert and quantize_dynamic")


def propagate_qconfig_(module: Any, qconfig_dict: Any = None, prepare_custom_config_dict: Any = None) -> None:
    """Give all modules in ``module`` a ``qconfig``: that of ``qconfig_dict`` for the name or the class, else their own,
    else that of the module around them.
    """
    _give(module, qconfig_dict or {}, getattr(module, "qconfig", None), "")


def _give(module: Any, named: dict[Any, Any], above: Any, prefix: str) -> None:
    setting = named.get(prefix, named.get(type(module), getattr(module, "qconfig", above)))
    _demand_valid(setting, module)
    module.qconfig = setting
    for name, child in module.named_children():
        _give(child, named, setting, f"{prefix}.{name}" if prefix else name)


def _demand_valid(setting: Any, module: Any) -> None:
    if setting is None or not isinstance(module, nn.ConvTranspose1d | nn.ConvTranspose2d | nn.ConvTranspose3d):
        return
    if "PerChannel" in repr(setting.weight):
        raise AssertionError("Per channel weight observer is not supported yet for ConvTranspose{n}d.")


def _observer_forward_hook(self: Any, input: Any, output: Any) -> Any:
    """What was computed, which the observer sees."""
    return self.activation_post_process(output)


def _watch(module: Any, make: Any) -> None:
    """Let an observer see the results of a module."""
    if make is None:
        return
    first = next(iter([*module.parameters(), *module.buffers()]), None)
    observer = make()
    module.add_module("activation_post_process", observer if first is None else observer.to(first.device))
    module.register_forward_hook(_observer_forward_hook)
    module._forward_hooks.move_to_end(next(reversed(module._forward_hooks)), last=False)


def _add_observers(module: Any, kinds: set[Any], apart: set[Any]) -> None:
    for child in module.children():
        setting = getattr(child, "qconfig", None)
        if type(child) is nn.Dropout or type(child) is DeQuantStub:
            continue
        if isinstance(child, FloatFunctional):
            if setting is not None:
                child.activation_post_process = setting.activation()
        elif setting is not None and _fixed(child, setting) is not None:
            _watch(child, _fixed(child, setting))
        elif setting is not None and _is_observed(child, kinds, apart):
            _watch(child, setting.activation)
        elif not _is_activation_post_process(child):
            _add_observers(child, kinds, apart)


def _fixed(child: Any, setting: Any) -> Any:
    """The fake quantizer of a function whose range is known, where others are faked too."""
    make = mappings.DEFAULT_MODULE_TO_ACT_POST_PROCESS.get(type(child))
    return make if make is not None and isinstance(setting.activation(), FakeQuantizeBase) else None


def _is_observed(child: Any, kinds: set[Any], apart: set[Any]) -> bool:
    if type(child) in apart:
        return True
    return type(child) in kinds and type(child) is not nn.Sequential


def prepare(
    model: Any, inplace: bool = False, allow_list: Any = None, observer_non_leaf_module_list: Any = None,
    prepare_custom_config_dict: Any = None,
) -> Any:  # fmt: skip
    """A copy of ``model`` whose layers with a ``qconfig`` observe what they compute: run it on data, then convert it.

    Args:
        inplace: change ``model`` itself.
        allow_list: the classes of modules that observe, :func:`get_default_qconfig_propagation_list` by default.

    >>> import torchlike as torch
    >>> q = torch.ao.quantization
    >>> model = q.QuantWrapper(torch.nn.Linear(2, 2)).eval()
    >>> model.qconfig = q.get_default_qconfig("onednn")
    >>> ready = q.prepare(model)
    >>> _ = ready(torch.ones(1, 2))
    >>> type(q.convert(ready).module)
    <class 'torchlike.ao.nn.quantized.linear.Linear'>
    """
    if prepare_custom_config_dict:
        raise NotImplementedError("prepare(): prepare_custom_config_dict is not supported by torchlike")
    model = model if inplace else copy.deepcopy(model)
    propagate_qconfig_(model)
    if not any(getattr(m, "qconfig", None) for m in model.modules()):
        warnings.warn(
            "None of the submodule got qconfig applied. Make sure you passed correct configuration through "
            "`qconfig_dict` or by assigning the `.qconfig` attribute directly on submodules",
            stacklevel=2,
        )
    kinds = mappings.get_default_qconfig_propagation_list() if allow_list is None else set(allow_list)
    _add_observers(model, kinds | set(mappings.DEFAULT_QAT_MODULE_MAPPINGS.values()), set(
        observer_non_leaf_module_list or ()))  # fmt: skip
    return model


def prepare_qat(model: Any, mapping: Any = None, inplace: bool = False) -> Any:
    """A copy of ``model``, in training mode, whose layers round as quantized ones will: train it, then convert it."""
    if not model.training:
        raise AssertionError("prepare_qat only works on models in training mode")
    mapping = mappings.get_default_qat_module_mappings() if mapping is None else mapping
    model = model if inplace else copy.deepcopy(model)
    propagate_qconfig_(model)
    convert(model, mapping=mapping, inplace=True, remove_qconfig=False)
    return prepare(model, inplace=True, observer_non_leaf_module_list=set(mapping.values()))


def convert(
    module: Any, mapping: Any = None, inplace: bool = False, remove_qconfig: bool = True, is_reference: bool = False,
    convert_custom_config_dict: Any = None, use_precomputed_fake_quant: bool = False,
) -> Any:  # fmt: skip
    """A copy of a prepared model whose layers are quantized, with the scales that were observed."""
    if is_reference or convert_custom_config_dict:
        raise NotImplementedError("convert(): is_reference and convert_custom_config_dict are not supported")
    module = module if inplace else copy.deepcopy(module)
    found = mappings.get_default_static_quant_module_mappings() if mapping is None else mapping
    _convert(module, found, use_precomputed_fake_quant)
    if remove_qconfig:
        _remove_settings(module)
    return module


def _convert(module: Any, mapping: dict[Any, Any], precomputed: bool) -> None:
    new = {}
    for name, child in module.named_children():
        if not isinstance(child, _FusedModule):
            _convert(child, mapping, precomputed)
        new[name] = swap_module(child, mapping, {}, precomputed)
    for name, child in new.items():
        module._modules[name] = child


def swap_module(
    mod: Any, mapping: dict[Any, Any], custom_module_class_mapping: Any = None, use_precomputed_fake_quant: bool = False
) -> Any:
    """What ``mapping`` says that a module with a ``qconfig`` becomes, with its hooks; else the module."""
    if getattr(mod, "qconfig", None) is None or type(mod) not in mapping:
        return mod
    before = dict(mod._forward_pre_hooks)
    after = [hook for hook in mod._forward_hooks.values() if hook is not _observer_forward_hook]
    first = next(iter([*mod.parameters(), *mod.buffers()]), None)
    new = mapping[type(mod)].from_float(mod, use_precomputed_fake_quant=use_precomputed_fake_quant)
    for hook in before.values():
        new.register_forward_pre_hook(hook)
    for hook in after:
        new.register_forward_hook(hook)
    return new if first is None else new.to(first.device)


def _remove_settings(module: Any) -> None:
    """Take settings and observers away."""
    for child in module.children():
        _remove_settings(child)
    if hasattr(module, "qconfig"):
        del module.qconfig
    if hasattr(module, "activation_post_process") and not isinstance(module, QFunctional):
        for key, hook in [*module._forward_hooks.items()]:
            if hook is _observer_forward_hook:
                del module._forward_hooks[key]
        del module.activation_post_process


def add_quant_dequant(module: Any) -> Any:
    """``module`` with all layers that have a ``qconfig`` of their own in a :class:`QuantWrapper`."""
    if not [*module.children()] and getattr(module, "qconfig", None):
        return QuantWrapper(module)
    for name, child in module.named_children():
        module._modules[name] = add_quant_dequant(child)
    return module


def quantize(model: Any, run_fn: Any, run_args: Any, mapping: Any = None, inplace: bool = False) -> Any:
    """``model`` prepared, run by ``run_fn(model, *run_args)``, and converted."""
    model = model if inplace else copy.deepcopy(model)
    model.eval()
    prepare(model, inplace=True)
    run_fn(model, *run_args)
    return convert(model, mapping, inplace=True)


def quantize_qat(model: Any, run_fn: Any, run_args: Any, inplace: bool = False) -> Any:
    """``model`` prepared, trained by ``run_fn(model, *run_args)``, and converted."""
    model = model if inplace else copy.deepcopy(model)
    model.train()
    prepare_qat(model, inplace=True)
    run_fn(model, *run_args)
    return convert(model, inplace=True)


def quantize_dynamic(
    model: Any, qconfig_spec: Any = None, dtype: Any = torch.qint8, mapping: Any = None, inplace: bool = False
) -> Any:
    """A copy of ``model`` whose linear and recurrent layers have weights of int8 (or float16).

    Args:
        qconfig_spec: names or classes of modules, or a dict of settings by them; else linear and recurrent ones.

    >>> import torchlike as torch
    >>> torch.ao.quantization.quantize_dynamic(torch.nn.Sequential(torch.nn.Linear(2, 3)))[0]
    DynamicQuantizedLinear(in_features=2, out_features=3, dtype=torch.qint8, qscheme=torch.per_tensor_affine)
    """
    found = _settings_of(qconfig_spec, dtype)
    model = model if inplace else copy.deepcopy(model)
    model.eval()
    propagate_qconfig_(model, found)
    return convert(model, mappings.get_default_dynamic_quant_module_mappings() if mapping is None else mapping, True)


_DYNAMIC = (nn.Linear, nn.LSTM, nn.GRU, nn.LSTMCell, nn.RNNCell, nn.GRUCell)


def _settings_of(given: Any, dtype: Any) -> dict[Any, Any]:
    usual = {
        torch.qint8: settings.default_dynamic_qconfig, torch.float16: settings.float16_dynamic_qconfig,
        torch.quint8: settings.float_qparams_weight_only_qconfig,
    }  # fmt: skip
    if isinstance(given, dict):
        return given
    if dtype not in usual:
        raise ValueError(f"Don't know how to quantize with default settings for {dtype}. Provide full qconfig please")
    kinds = given
    if given is None:
        kinds = (nn.EmbeddingBag, nn.Embedding) if dtype is torch.quint8 else _DYNAMIC
    return dict.fromkeys(kinds, usual[dtype])
