"""``torch.distributed.elastic.utils.api``: variables of the environment, and texts with names in them."""

import os
from string import Template
from typing import Any

from torchlike.distributed.elastic.utils.distributed import get_socket_with_port as get_socket_with_port

__all__ = ["get_env_variable_or_raise", "get_socket_with_port", "macros"]


def get_env_variable_or_raise(env_name: str) -> str:
    """A variable of the environment. ValueError: there is none."""
    value = os.environ.get(env_name)
    if value is None:
        raise ValueError(f"Environment variable {env_name} expected, but not set")
    return value


class macros:
    """Words that stand in arguments of a script for what a launcher knows."""

    local_rank = "${local_rank}"

    @staticmethod
    def substitute(args: list[Any], local_rank: str) -> list[str]:
        """The arguments with the local rank in them."""
        return [Template(arg).safe_substitute(local_rank=local_rank) for arg in args]
