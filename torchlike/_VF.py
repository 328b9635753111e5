"""``torch._VF``: the functions of torch under the name by which recurrent layers of one's own call them."""

from torchlike._C._VariableFunctions import __getattr__ as __getattr__
