"""The settings of a run, as tensorboard's table of hyperparameters reads them."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from typing import Any

from torchlike._core.tensor.tensor import Tensor

_PLUGIN = "tensorboard.plugins.hparams"


def _plain(value: Any) -> float | str:
    """The number or text of a setting."""
    if isinstance(value, Tensor):
        value = value.detach().reshape(-1)[0].item()
    if isinstance(value, int | float | str):
        return value if isinstance(value, str) else float(value)
    raise ValueError(
        f"SummaryWriter.add_hparams(): value should be one of int, float, str, bool, or torch.Tensor, not "
        f"{type(value).__name__}"
    )


def summaries(
    settings: Mapping[str, Any], metrics: Mapping[str, Any], domains: Mapping[str, Any] | None
) -> list[tuple[str, bytes]]:
    """(tag, content) of what describes an experiment, of its start and of its end."""
    if not isinstance(settings, dict) or not isinstance(metrics, dict):
        raise TypeError("SummaryWriter.add_hparams(): hparam_dict and metric_dict should be dictionary.")
    domains = domains or {}
    if not isinstance(domains, dict):
        raise TypeError(f"parameter: hparam_domain_discrete should be a dictionary, not {type(domains).__name__}")
    for name, values in domains.items():
        kind = type(settings.get(name))
        if name not in settings or not isinstance(values, list) or not all(type(v) is kind for v in values):
            given = f"hparam_domain_discrete[{name}]"
            raise TypeError(f"parameter: {given} should be a list of same type as hparam_dict[{name}], not {values!r}")
    api, data, names = [importlib.import_module(f"{_PLUGIN}.{n}") for n in ("api_pb2", "plugin_data_pb2", "metadata")]
    structs = importlib.import_module("google.protobuf.struct_pb2")
    held: dict[str, Any] = {}
    infos = []
    for name, value in settings.items():
        if value is None:
            continue
        plain = _plain(value)
        kind = "DATA_TYPE_STRING" if isinstance(plain, str) else "DATA_TYPE_FLOAT64"
        held[name] = _value(structs, plain)
        info = api.HParamInfo(name=name, type=api.DataType.Value(kind))
        if name in domains:
            listed = structs.ListValue(values=[_value(structs, _plain(v)) for v in domains[name]])
            info.domain_discrete.CopyFrom(listed)
        infos.append(info)
    scores = [api.MetricInfo(name=api.MetricName(tag=tag)) for tag in metrics]
    start = data.SessionStartInfo()
    for name, value in held.items():
        start.hparams[name].CopyFrom(value)
    found = {
        names.EXPERIMENT_TAG: {"experiment": api.Experiment(hparam_infos=infos, metric_infos=scores)},
        names.SESSION_START_INFO_TAG: {"session_start_info": start},
        names.SESSION_END_INFO_TAG: {"session_end_info": data.SessionEndInfo(status="STATUS_SUCCESS")},
    }
    version = names.PLUGIN_DATA_VERSION
    return [(tag, data.HParamsPluginData(version=version, **x).SerializeToString()) for tag, x in found.items()]


def _value(structs: Any, x: float | str) -> Any:
    return structs.Value(string_value=x) if isinstance(x, str) else structs.Value(number_value=x)
