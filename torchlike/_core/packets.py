"""``torch.ops``: the declared operators under PyTorch's names, ``torch.ops.aten.add.Tensor``."""

from torchlike._core.bind import FUNCTIONS
from torchlike._core.front import overload_front
from torchlike._decl.op import REGISTRY


class OpOverload:
    """One declared operator; calling it takes the arguments of its schema."""

    def __init__(self, packet, op):
        self.overloadpacket, self._op = packet, op
        self._overloadname = op.schema.overload or "default"
        self.namespace = packet.namespace
        self._call = None
        self.__name__ = f"{packet.__name__}.{self._overloadname}"

    @property
    def _schema(self):
        return f"{self.namespace}::{self._op.schema.text}"

    def name(self):
        """``aten::add.Tensor``; the default overload has no suffix."""
        suffix = "" if self._overloadname == "default" else "." + self._overloadname
        return f"{self.overloadpacket._qualified_op_name}{suffix}"

    def __call__(self, *args, **kwargs):
        if self._call is None:
            self._call = overload_front(self._op)
        return self._call(*args, **kwargs)

    def __str__(self):
        return f"{self.namespace}.{self.__name__}"

    def __repr__(self):
        return f"<OpOverload(op='{self.namespace}.{self.overloadpacket.__name__}', overload='{self._overloadname}')>"


class OpOverloadPacket:
    """The overloads of one name, as attributes."""

    def __init__(self, namespace, name):
        self.namespace, self.__name__ = namespace, name
        self._qualified_op_name = f"{namespace}::{name}"

    def overloads(self):
        """The names of the overloads."""
        return [op.schema.overload or "default" for op in _declared(self.__name__)]

    def __getattr__(self, overload):
        for op in _declared(self.__name__):
            if (op.schema.overload or "default") == overload:
                found = OpOverload(self, op)
                setattr(self, overload, found)
                return found
        raise AttributeError(
            f"The underlying op of '{self.namespace}.{self.__name__}' has no overload name '{overload}'; it has "
            f"{self.overloads()}"
        )

    def __call__(self, *args, **kwargs):
        found = FUNCTIONS.get(self.__name__) or getattr(self, self.overloads()[0])
        return found(*args, **kwargs)

    def __str__(self):
        return f"{self.namespace}.{self.__name__}"

    def __repr__(self):
        return f"<OpOverloadPacket(op='{self.namespace}.{self.__name__}')>"


def _declared(name):
    return [op for op in REGISTRY.values() if op.schema.name == name]


class OpNamespace:
    """The operators of one namespace."""

    def __init__(self, name):
        self.name = name

    def __getattr__(self, name):
        if not _declared(name):
            raise AttributeError(f"'_OpNamespace' '{self.name}' object has no attribute '{name}'")
        packet = OpOverloadPacket(self.name, name)
        setattr(self, name, packet)
        return packet


class Ops:
    """``torch.ops``."""

    def __init__(self):
        self.aten = OpNamespace("aten")


ops = Ops()


def overload_of(op):
    """The public object of a declared operator."""
    return getattr(getattr(ops.aten, op.schema.name), op.schema.overload or "default")
