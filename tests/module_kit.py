"""Small modules of a library, with fixed values, for the tests of torch.nn.Module."""

from functools import cache
from types import SimpleNamespace


@cache
def kit(T):
    """Small modules of a library, with fixed values."""
    nn = T.nn

    class Leaf(nn.Module):
        def __init__(self, n=2, value=1.0):
            super().__init__()
            self.weight = nn.Parameter(T.full((n, n), value))
            self.bias = nn.Parameter(T.zeros(n))

        def forward(self, x):
            return x * 2

        def extra_repr(self):
            return f"n={len(self.bias)}"

    class Empty(nn.Module):
        def forward(self, x):
            return x + 1

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.w = nn.Parameter(T.zeros(2))
            self.register_buffer("b", T.ones(3))
            self.register_buffer("count", T.tensor(3))
            self.register_buffer("hidden", T.ones(1), persistent=False)
            self.l = Leaf()
            self.s = nn.Sequential(Leaf(1), Empty())
            self.again = self.l
            self.register_parameter("nop", None)
            self.register_buffer("nob", None)
            self.nothing = None

        def forward(self, x, y=1):
            return x * y

    class Tiny(nn.Module):
        def __init__(self):
            super().__init__()
            self.w = nn.Parameter(T.zeros(2))
            self.register_buffer("b", T.ones(3))
            self.l = Empty()

        def forward(self, x, y=1):
            return x * y

    class Bare(nn.Module):
        """Never calls Module.__init__ before it does ``action``."""

        def __init__(self, action=lambda self: None):
            action(self)

        def forward(self, x):
            return x

    return SimpleNamespace(Leaf=Leaf, Empty=Empty, Net=Net, Tiny=Tiny, Bare=Bare)


def members(m):
    return m._parameters, m._buffers, list(m._modules), m._non_persistent_buffers_set


def value(T, kind):
    return {
        "none": lambda: None,
        "int": lambda: 3,
        "tensor": lambda: T.zeros(2),
        "parameter": lambda: T.nn.Parameter(T.zeros(2)),
        "module": lambda: kit(T).Empty(),
        "buffer": lambda: T.nn.Buffer(T.zeros(1)),
        "hidden buffer": lambda: T.nn.Buffer(T.zeros(1), persistent=False),
        "computed": lambda: T.zeros(1, requires_grad=True) * 2,
    }[kind]()


KINDS = ["none", "int", "tensor", "parameter", "module", "buffer", "hidden buffer"]
