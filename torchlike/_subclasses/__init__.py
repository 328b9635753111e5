"""``torch._subclasses``: tensors without numbers, for which torchlike has the device meta."""

from torchlike._subclasses.fake_tensor import FakeTensor as FakeTensor
from torchlike._subclasses.fake_tensor import FakeTensorMode as FakeTensorMode
from torchlike.interop.lazy import on_first_use

__getattr__, __dir__ = on_first_use(__name__)
