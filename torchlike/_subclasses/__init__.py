"""torch._subclasses: the names of fake tensors, of which there are none here."""

from torchlike._subclasses.fake_tensor import FakeTensor as FakeTensor
from torchlike._subclasses.fake_tensor import FakeTensorMode as FakeTensorMode
from torchlike.interop.alias import missing_names

__getattr__ = missing_names(__name__)
