"""``torch._subclasses``: tensors without numbers."""

from torchlike._subclasses.fake_tensor import DynamicOutputShapeException as DynamicOutputShapeException
from torchlike._subclasses.fake_tensor import FakeTensor as FakeTensor
from torchlike._subclasses.fake_tensor import FakeTensorMode as FakeTensorMode
from torchlike._subclasses.fake_tensor import UnsupportedFakeTensorException as UnsupportedFakeTensorException
from torchlike.interop.lazy import on_first_use

__getattr__, __dir__ = on_first_use(__name__)
