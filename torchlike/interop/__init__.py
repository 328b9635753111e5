"""Bridges to other code: standing in for `torch`."""

from torchlike.interop.alias import install_as_torch as install_as_torch
from torchlike.interop.alias import missing_names as missing_names
from torchlike.interop.alias import uninstall_as_torch as uninstall_as_torch
from torchlike.interop.jax_functions import from_jax as from_jax
from torchlike.interop.jax_functions import merge as merge
from torchlike.interop.jax_functions import split as split
from torchlike.interop.jax_functions import to_jax as to_jax
