"""``torch.distributed.argparse_util``: options of a command that may stand in variables of the environment."""

import argparse
import os
from typing import Any

__all__ = ["check_env", "env"]


class env(argparse.Action):
    """An option whose default is the variable PET_ and its name, if there is one.

    >>> import argparse, os
    >>> from torchlike.distributed.argparse_util import env
    >>> parser = argparse.ArgumentParser()
    >>> _ = parser.add_argument("--max-restarts", action=env, type=int, default=3)
    >>> parser.parse_args([]).max_restarts
    3
    """

    def __init__(self, dest: str, default: Any = None, required: bool = False, **kwargs: Any) -> None:
        default = os.environ.get(f"PET_{dest.upper()}", default)
        super().__init__(dest=dest, default=default, required=required and not default, **kwargs)

    def __call__(self, parser: Any, namespace: Any, values: Any, option_string: Any = None) -> None:
        setattr(namespace, self.dest, values)


class check_env(argparse.Action):
    """A flag that is on by default where the variable PET_ and its name is 1."""

    def __init__(self, dest: str, default: Any = False, **kwargs: Any) -> None:
        default = bool(int(os.environ.get(f"PET_{dest.upper()}", "1" if default else "0")))
        super().__init__(dest=dest, const=True, default=default, nargs=0, **kwargs)

    def __call__(self, parser: Any, namespace: Any, values: Any, option_string: Any = None) -> None:
        setattr(namespace, self.dest, self.const)
