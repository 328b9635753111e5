"""torch.fx.passes.operator_support: which steps a backend can take."""

from __future__ import annotations

import abc
from collections.abc import Callable, Mapping
from typing import Any

from torchlike.fx.node import Node
from torchlike.fx.passes.tools_common import CALLABLE_NODE_OPS, get_node_target
from torchlike.interop.alias import missing_names
from torchlike.nn.modules.module import Module

__all__ = ["OpSupports", "OperatorSupport", "OperatorSupportBase", "any_chain", "chain", "create_op_support"]

__getattr__ = missing_names(__name__)

IsNodeSupported = Callable[[Mapping[str, Module], Node], bool]


class OperatorSupportBase(abc.ABC):
    """Says whether a step is supported."""

    @abc.abstractmethod
    def is_node_supported(self, submodules: Mapping[str, Module], node: Node) -> bool:
        """Whether the step is. ``submodules``: the modules of the graph by path."""


class OperatorSupport(OperatorSupportBase):
    """Supports the calls that a dict names: ``{"torch.relu": None}``, with the dtypes of arguments or None.

    Raises NotImplementedError for a dict that names dtypes.
    """

    def __init__(self, support_dict: Mapping[str, Any] | None = None) -> None:
        self._support_dict = support_dict or {}
        if any(self._support_dict.values()):
            raise NotImplementedError("torch.fx.passes.operator_support.OperatorSupport: dtypes of arguments")

    def is_node_supported(self, submodules: Mapping[str, Module], node: Node) -> bool:
        """Whether the dict has what the step calls; steps that call nothing are supported."""
        return node.op not in CALLABLE_NODE_OPS or get_node_target(submodules, node) in self._support_dict


class _Function(OperatorSupportBase):
    def __init__(self, function: IsNodeSupported) -> None:
        self.function = function

    def is_node_supported(self, submodules: Mapping[str, Module], node: Node) -> bool:
        return self.function(submodules, node)


def create_op_support(is_node_supported: IsNodeSupported) -> OperatorSupportBase:
    """What a function of the modules and a step says."""
    return _Function(is_node_supported)


def chain(*op_support: OperatorSupportBase) -> OperatorSupportBase:
    """Supports what all of these support."""
    return _Function(lambda modules, node: all(s.is_node_supported(modules, node) for s in op_support))


def any_chain(*op_support: OperatorSupportBase) -> OperatorSupportBase:
    """Supports what any of these supports."""
    return _Function(lambda modules, node: any(s.is_node_supported(modules, node) for s in op_support))


class OpSupports:
    """Ready-made rules."""

    @classmethod
    def decline_if_node_in_names(cls, disallow_set: set[str]) -> OperatorSupportBase:
        """Supports the steps whose names are not in the set."""
        return _Function(lambda modules, node: node.name not in disallow_set)
