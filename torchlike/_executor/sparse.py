"""Values of sparse tensors: what jax.jit refuses, and the layer of sparse tensors computes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NoReturn


class NotStrided(NotImplementedError, AttributeError):
    """Something was asked of a sparse tensor that only strided tensors have.

    An AttributeError too, so that code which looks whether there is an attribute finds none.
    """


class SparseShape(tuple):
    """The shape of a sparse value; strides cannot be counted from it, which is where views begin."""

    __slots__ = ()

    def __reversed__(self) -> Iterator[Any]:
        refuse("strides")


def refuse(what: str) -> NoReturn:
    """NotImplementedError: a sparse tensor has no ``what``."""
    raise NotStrided(
        f"a sparse tensor has no {what}, which this call needs: it is not supported for layouts other than "
        "torch.strided; make the tensor dense with .to_dense()"
    )


class SparseValue:
    """The value of a sparse tensor, as ``_core/sparse`` defines it: ``shape`` and ``dtype``, but no array.

    ``quantizer``: of a quantized tensor (``_core/quantized``), what its integers stand for.
    """

    __slots__ = ()
    quantizer: Any = None

    def apart(self) -> SparseValue:
        """What another tensor over the same parts holds: this value, or one whose parts can be replaced alone."""
        return self

    def own(self) -> SparseValue:
        """The same numbers in parts that no other tensor has: what is done to these changes no other."""
        return self

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        refuse(f"{name!r}")

    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        refuse("numbers in a row")


class Wanted(NotImplementedError):
    """What a kernel raises whose gradients are to be sparse: the layer of sparse tensors makes the call."""


class _Layer:
    """The layer of sparse tensors, as others see it.

    Attributes:
        run: ``run(op, static, values)``, the result of an operator on values; set by ``_core/sparse``, as the next.
        put: ``put(op, results, outs)``, results written into given tensors, where either holds such a value.
        moved: ``moved(t, device)``, a sparse tensor on another device.
        resized: ``resized(t, shape)``, the change of a sparse tensor to another size.
        used: whether there has been a sparse tensor in this process: what loops over tensors looks for them only then.
    """

    run: Callable[[Any, tuple, Any], Any]
    put: Callable[[Any, Any, Any], None]
    moved: Callable[[Any, Any], Any]
    resized: Callable[[Any, Any], None]
    used = False


LAYER = _Layer()


def holds(values: Any) -> bool:
    """Whether the value of a sparse tensor is among ``values``."""
    return LAYER.used and any([isinstance(v, SparseValue) for v in values])
