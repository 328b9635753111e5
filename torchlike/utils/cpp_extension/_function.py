"""What users call: a registered operator that runs a C++ function."""

import inspect
from typing import Any

import jax

from torchlike._aten import packets
from torchlike._base.state import state
from torchlike._core.dispatch.dispatch import call
from torchlike._core.dispatch.front import _compiled, overload_front
from torchlike._core.tensor.arguments import KIND
from torchlike._decl.op import Op
from torchlike._library import registry
from torchlike.library import CustomOpDef
from torchlike.utils.cpp_extension._operator import Function


def _named(function: Any, name: str) -> Any:
    """``function``, whose errors tell it by this name."""
    function.__name__ = function.__qualname__ = name
    return function


class CppFunction(CustomOpDef):
    """A function of a C++ extension, which is also ``torch.ops.<extension>.<function>``.

    As what ``torch.library.custom_op`` makes, it takes a derivative by ``register_autograd``, and kernels for other
    devices by ``register_kernel``. Wrong arguments raise TypeError, and what C++ reports RuntimeError.
    """

    def __init__(self, function: Function, operator: Op) -> None:
        direct = _named(overload_front(operator), function.name)
        schema = function.schema.text
        super().__init__(function.namespace, function.name, schema[schema.index("(") :], direct)
        self._direct, self._op = direct, operator
        self._bind = _named(_compiled(operator, "method", True, {}), function.name)
        self._on_cpu = jax.default_backend() == "cpu"
        self.__name__ = self.__qualname__ = function.name
        self.__module__ = function.namespace
        self.schema = str(self._schema)
        self.__doc__ = function.doc or self.schema
        self.__signature__ = inspect.signature(direct)
        self.register_kernel("cpu" if any(a.is_tensor for a in operator.schema.args) else None)(direct)
        self.register_fake(direct)
        self.register_vmap(self._mapped)
        self._rule = self._operator.vmap_rule

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if self._is_plain(args) and (not kwargs or self._is_plain(kwargs.values())):
            return self._direct(*args, **kwargs)
        self._bind(*args, **kwargs)
        return super().__call__(*args, **kwargs)

    def _is_plain(self, values: Any) -> bool:
        """Whether a call runs the C++ function and nothing else has a say."""
        if state.active or state.function_modes or self._operator.formula is not None or not self._on_cpu:
            return False
        return all([v.__class__ in KIND for v in values])

    def _mapped(self, info: Any, in_dims: tuple, *args: Any, **kwargs: Any) -> tuple[Any, Any]:
        """The rule of vmap: the operator that jax makes of this one."""
        _, op, inputs, static, _ = self._bind(*args, **kwargs)
        dims = dict(zip([a.name for a in op.schema.args], in_dims, strict=False))
        mapped = op.vmap(static, tuple([dims.get(a.name) for a in op.dynamic]))
        return call(mapped, inputs, ()), 0

    def __repr__(self) -> str:
        return f"<CppFunction({self._qualname})>"

    def __deepcopy__(self, memo: dict) -> "CppFunction":
        return self

    def __reduce__(self) -> tuple:
        return _found, (self._qualname,)

    def register_again(self) -> None:
        """Be ``torch.ops.<extension>.<function>``, after another of the name may have been."""
        if registry.OPERATORS.get(self._qualname) is not self._operator:
            registry.OPERATORS[self._qualname] = self._operator
            packets.register(self._namespace, self._name, "", self._operator.overload)


def _found(qualname: str) -> CppFunction:
    """The function of that name; what pickled functions are loaded with."""
    operator = registry.OPERATORS.get(qualname)
    if operator is None or not isinstance(operator.owner, CppFunction):
        extension, _, name = qualname.partition("::")
        raise RuntimeError(
            f"a pickled function of a C++ extension is not there: load the extension {extension!r}, which has "
            f"{name!r}, before it is unpickled"
        )
    return operator.owner
