"""Bridges to other code: standing in for `torch`."""

from torchlike.interop.alias import install_as_torch as install_as_torch
from torchlike.interop.alias import missing_names as missing_names
from torchlike.interop.alias import uninstall_as_torch as uninstall_as_torch
