"""Parameters that are computed from others: ``module.weight`` becomes a property that runs modules."""

import copy
import copyreg
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from torchlike._base.state import no_grad
from torchlike._core.tensor.tensor import Tensor
from torchlike.nn.modules.container import ModuleDict, ModuleList
from torchlike.nn.modules.module import Module
from torchlike.nn.parameter import Parameter

__all__ = [
    "cached",
    "ParametrizationList",
    "register_parametrization",
    "is_parametrized",
    "remove_parametrizations",
    "type_before_parametrizations",
    "transfer_parametrizations_and_params",
]

_ONE = "'right_inverse' must return a Tensor or a Sequence of tensors (list, tuple...)"


class _Cache(threading.local):
    """The values computed within :func:`cached`, each with its module, which keeps the module's id in use."""

    depth = 0
    values: dict[tuple[int, str], tuple[Module, Any]] | None = None


_cache = _Cache()


@contextmanager
def cached() -> Iterator[None]:
    """Within this context every parametrized tensor is computed once, when it is first read.

    It may be nested; the values are forgotten when the outermost context ends. It concerns the
    thread that enters it.

    >>> import torchlike as torch
    >>> m = torch.nn.utils.parametrizations.weight_norm(torch.nn.Linear(2, 2))
    >>> with torch.nn.utils.parametrize.cached():
    ...     print(m.weight is m.weight)
    True
    >>> m.weight is m.weight
    False
    """
    if not _cache.depth:
        _cache.values = {}
    _cache.depth += 1
    try:
        yield
    finally:
        _cache.depth -= 1
        if not _cache.depth:
            _cache.values = None


def _register(module: Module, name: str, value: Tensor) -> None:
    if isinstance(value, Parameter):
        module.register_parameter(name, value)
    else:
        module.register_buffer(name, value)


def _replace_data(target: Tensor, new: Tensor) -> None:
    """Let ``target`` be the tensor ``new``, in the same Python object."""
    if target is not new:
        target.data = new.detach()


class ParametrizationList(ModuleList):
    """The modules that compute one tensor, in order, and the tensor (or tensors) that they start from.

    Args:
        modules: the parametrizations; what the first one's ``right_inverse`` gives of ``original``
            (through those of the others, last first) is stored.
        original: the tensor to be replaced; a Parameter gives Parameters, another tensor buffers.
        unsafe: whether the result may differ from ``original`` in shape or dtype.

    Attributes:
        original, or original0, original1, ...: what is stored.

    Raises:
        ValueError: no modules; a right inverse or a result of a wrong type, dtype or shape.
    """

    original: Tensor
    unsafe: bool

    def __init__(self, modules: Sequence[Module], original: Tensor, unsafe: bool = False) -> None:
        if len(modules) == 0:
            raise ValueError("ParametrizationList requires one or more modules.")
        super().__init__(modules)
        self.unsafe = unsafe
        if not isinstance(original, Tensor):
            raise AttributeError(f"ParametrizationList: 'original' must be a Tensor, not {type(original).__name__}")
        shape, dtype, before = original.shape, original.dtype, original.data
        new: Any = original
        with no_grad():
            for module in reversed(self):  # type: ignore[call-overload]
                if hasattr(module, "right_inverse"):
                    try:
                        new = module.right_inverse(new)
                    except NotImplementedError:
                        pass  # the next one takes what there is
        self._store(original, new)
        if unsafe:
            return
        try:
            _demand_like(self(), shape, dtype)
        except BaseException:
            if self.is_tensor:
                _replace_data(original, before)
            raise

    def _store(self, original: Tensor, new: Any) -> None:
        self.is_tensor = isinstance(new, Tensor)
        if not self.is_tensor and not isinstance(new, Sequence):
            raise ValueError(f"{_ONE}. Got {type(new).__name__}")
        self.ntensors = 1 if self.is_tensor else len(new)
        if self.is_tensor:
            if original.dtype != new.dtype:
                raise ValueError(
                    "When `right_inverse` outputs one tensor, it may not change the dtype.\n"
                    f"original.dtype: {original.dtype}\nright_inverse(original).dtype: {new.dtype}"
                )
            with no_grad():
                _replace_data(original, new)
            _register(self, "original", original)
            return
        for i, part in enumerate(new):
            if not isinstance(part, Tensor):
                raise ValueError(f"{_ONE}. Got element {i} of the sequence with type {type(part).__name__}.")
            if isinstance(original, Parameter):
                part = Parameter(part, original.requires_grad)
            _register(self, f"original{i}", part.requires_grad_(original.requires_grad))

    def _originals(self) -> list[Tensor]:
        return [self.original] if self.is_tensor else [getattr(self, f"original{i}") for i in range(self.ntensors)]

    def right_inverse(self, value: Tensor) -> None:
        """Store what gives ``value``: the right inverses of the modules, last first, applied to it.

        Raises:
            RuntimeError: a module has no ``right_inverse``.
            ValueError: a result of another type, number or dtype than what is stored.
        """
        with no_grad():
            new: Any = value
            for module in reversed(self):  # type: ignore[call-overload]
                if not hasattr(module, "right_inverse"):
                    raise RuntimeError(f"parametrization {type(module).__name__} does not implement right_inverse.")
                new = module.right_inverse(new)
            originals = self._originals()
            if self.is_tensor:
                _demand_one(new, originals[0])
                new = [new]
            else:
                _demand_sequence(new, originals)
            for original, part in zip(originals, new, strict=True):
                _replace_data(original, part)

    def forward(self) -> Tensor:
        first, *others = self
        value = first(*self._originals())
        for module in others:
            value = module(value)
        return value


def _demand_like(value: Any, shape: Sequence[int], dtype: Any) -> None:
    if not isinstance(value, Tensor):
        raise ValueError(f"A parametrization must return a tensor. Got {type(value).__name__}.")
    for what, was, now in (("dtype", dtype, value.dtype), ("shape", shape, value.shape)):
        if was != now:
            raise ValueError(
                f"Registering a parametrization may not change the {what} of the tensor, unless `unsafe` flag "
                f"is enabled.\nunparametrized {what}: {was}\nparametrized {what}: {now}"
            )


def _demand_one(new: Any, original: Tensor) -> None:
    if not isinstance(new, Tensor):
        raise ValueError(f"`right_inverse` should return a tensor. Got {type(new).__name__}")
    if new.dtype != original.dtype:
        raise ValueError(
            f"The tensor returned by `right_inverse` has dtype {new.dtype} while `original` has dtype {original.dtype}"
        )


def _demand_sequence(new: Any, originals: list[Tensor]) -> None:
    must = "'right_inverse' must return a sequence of tensors"
    if not isinstance(new, Sequence):
        raise ValueError(f"{must}. Got {type(new).__name__}.")
    if len(new) != len(originals):
        raise ValueError(f"{must} of length {len(originals)}. Got a sequence of length {len(new)}.")
    for i, (part, original) in enumerate(zip(new, originals, strict=True)):
        if not isinstance(part, Tensor):
            raise ValueError(f"{must}. Got element {i} of type {type(part).__name__}.")
        if part.dtype != original.dtype:
            raise ValueError(
                f"Tensor {i} returned by `right_inverse` has dtype {part.dtype} while `original{i}` has dtype "
                f"{original.dtype}"
            )


# -- the class of a parametrized module ------------------------------------------------------------


def _no_pickling(self: Module) -> Any:
    raise RuntimeError(
        "Serialization of parametrized modules is only supported through state_dict(): save module.state_dict(), "
        "and load it into a module that was parametrized in the same way"
    )


def _deepcopied(self: Module, memo: dict) -> Module:
    twin = type(self).__new__(type(self))
    memo[id(self)] = twin
    own = {name: value for name, value in self.__dict__.items() if name != "_compiled_call_impl"}
    twin.__dict__.update(copy.deepcopy(own, memo))
    for slot in copyreg._slotnames(type(self)):  # type: ignore[attr-defined]
        if hasattr(self, slot):
            setattr(twin, slot, copy.deepcopy(getattr(self, slot), memo))
    return twin


def _parametrized_class(cls: type[Module]) -> type[Module]:
    body: dict[str, Any] = {"__getstate__": _no_pickling, "__module__": __name__}
    if not hasattr(cls, "__deepcopy__"):
        body["__deepcopy__"] = _deepcopied
    return type(f"Parametrized{cls.__name__}", (cls,), body)


def _property(name: str) -> property:
    """The attribute ``name`` of a class of parametrized modules.

    Copies share the class: a module whose own ``name`` is not parametrized has it as any attribute.
    """

    def get(self: Module) -> Any:
        lists = self.__dict__["_modules"].get("parametrizations", ())
        if name not in lists:
            return self.__dict__[name] if name in self.__dict__ else Module.__getattr__(self, name)
        if not _cache.depth:
            return lists[name]()
        key = id(self), name
        values: Any = _cache.values
        if key not in values:
            values[key] = self, lists[name]()
        return values[key][1]

    def put(self: Module, value: Any) -> None:
        lists = self.__dict__["_modules"].get("parametrizations", ())
        if name in lists:
            lists[name].right_inverse(value)
        else:
            self.__dict__[name] = value

    return property(get, put)


# -- registering and removing ----------------------------------------------------------------------


def register_parametrization(
    module: Module, tensor_name: str, parametrization: Module, *, unsafe: bool = False
) -> Module:
    """Let ``module.tensor_name`` be what ``parametrization`` computes of a tensor that is stored instead.

    Args:
        module: the module that has the tensor; its class becomes a subclass of what it was.
        tensor_name: a parameter, a buffer, or what is parametrized already (the new one comes last).
        parametrization: a module with ``forward(stored)``. Where it has ``right_inverse(value)``, that
            makes what is stored from the present value, and from values assigned later; it may return
            several tensors, which ``forward`` then gets.
        unsafe: leave out the checks that shape and dtype stay the same.

    Returns:
        ``module``. The stored tensor is ``module.parametrizations.<tensor_name>.original``.

    Raises:
        ValueError: there is no such tensor; a result has another type, shape or dtype. The module is
            then as it was.

    >>> import torchlike as torch
    >>> class Symmetric(torch.nn.Module):
    ...     def forward(self, x):
    ...         return x.triu() + x.triu(1).T
    >>> m = torch.nn.utils.parametrize.register_parametrization(torch.nn.Linear(3, 3), "weight", Symmetric())
    >>> torch.equal(m.weight, m.weight.T), list(m.state_dict())
    (True, ['bias', 'parametrizations.weight.original'])
    """
    parametrization.train(module.training)
    if is_parametrized(module, tensor_name):
        if not unsafe:
            _check_next(module, tensor_name, parametrization)
        lists: Any = module.parametrizations
        lists[tensor_name].append(parametrization)
        lists[tensor_name].unsafe |= unsafe
    elif tensor_name in module._buffers or tensor_name in module._parameters:
        original: Any = getattr(module, tensor_name)
        made = ParametrizationList([parametrization], original, unsafe=unsafe)
        delattr(module, tensor_name)
        if not is_parametrized(module):
            module.__class__ = _parametrized_class(type(module))
            module.parametrizations = ModuleDict()
        setattr(type(module), tensor_name, _property(tensor_name))
        module.parametrizations[tensor_name] = made
    else:
        raise ValueError(
            f"Module '{module}' does not have a parameter, a buffer, or a parametrized element with name "
            f"'{tensor_name}'"
        )
    return module


def _check_next(module: Module, name: str, parametrization: Any) -> None:
    """That one more parametrization keeps type, dtype and shape, and so does its right inverse."""
    value = getattr(module, name)
    result = parametrization(value)
    if not isinstance(result, Tensor):
        raise ValueError(f"A parametrization must return a tensor. Got {type(result).__name__}.")
    rule = "Registering a parametrization may not change the {} of the tensor"
    _demand_alike(value, result, name, rule, f"parametrization(module.{name}).{{}}")
    if not hasattr(parametrization, "right_inverse"):
        return
    try:
        back = parametrization.right_inverse(result)
    except NotImplementedError:
        return
    if not isinstance(back, Tensor):
        raise ValueError(f"parametrization.right_inverse must return a tensor. Got: {type(back).__name__}")
    rule = f"The tensor returned by parametrization.right_inverse must have the same {{}} as module.{name}"
    _demand_alike(value, back, name, rule, "returned {}")


def _demand_alike(value: Tensor, other: Tensor, name: str, rule: str, made: str) -> None:
    """ValueError, with the rule, unless both have one dtype and one shape."""
    for what in ("dtype", "shape"):
        if getattr(other, what) != getattr(value, what):
            raise ValueError(
                f"{rule.format(what)}, unless the `unsafe` flag is enabled.\nmodule.{name}.{what}: "
                f"{getattr(value, what)}\n{made.format(what)}: {getattr(other, what)}"
            )


def is_parametrized(module: Module, tensor_name: str | None = None) -> bool:
    """Whether ``module`` has a parametrized tensor; with a name, whether that one is.

    >>> import torchlike as torch
    >>> torch.nn.utils.parametrize.is_parametrized(torch.nn.Linear(1, 1))
    False
    """
    lists = getattr(module, "parametrizations", None)
    if not isinstance(lists, ModuleDict):
        return False
    return len(lists) > 0 if tensor_name is None else tensor_name in lists


def remove_parametrizations(module: Module, tensor_name: str, leave_parametrized: bool = True) -> Module:
    """Make ``module.tensor_name`` an ordinary parameter or buffer again.

    Args:
        leave_parametrized: keep the computed value; else what was stored, which must be one tensor.

    Raises:
        ValueError: the tensor is not parametrized, or is stored as several with ``leave_parametrized=False``.
        RuntimeError: the computed value has another dtype than what is stored.

    >>> import torchlike as torch
    >>> m = torch.nn.utils.parametrizations.weight_norm(torch.nn.Linear(2, 2))
    >>> torch.nn.utils.parametrize.remove_parametrizations(m, "weight")
    Linear(in_features=2, out_features=2, bias=True)
    """
    if not is_parametrized(module, tensor_name):
        raise ValueError(f"Module {module} does not have a parametrization on {tensor_name}")
    lists: Any = module.parametrizations
    removed = lists[tensor_name]
    if removed.is_tensor:
        left = removed.original
        if leave_parametrized:
            with no_grad():
                _leave(left, getattr(module, tensor_name))
    elif leave_parametrized:
        left = getattr(module, tensor_name)
        requires_grad = removed.original0.requires_grad
        left = Parameter(left, requires_grad) if isinstance(removed.original0, Parameter) else left
    else:
        raise ValueError(
            "Cannot leave unparametrized (`leave_parametrized=False`) a tensor that is parametrized in terms "
            "of a sequence of tensors."
        )
    del lists[tensor_name]
    _register(module, tensor_name, left)
    if not is_parametrized(module):
        delattr(module, "parametrizations")
        module.__class__ = type_before_parametrizations(module, parametrized=True)
    return module


def _leave(original: Tensor, value: Any) -> None:
    if not isinstance(value, Tensor):
        raise TypeError(f"remove_parametrizations(): the value must be a Tensor, not {type(value).__name__}")
    if value.dtype != original.dtype:
        raise RuntimeError(
            f"Calling remove_parametrizations() with leave_parametrized=True: the value has dtype {value.dtype}, "
            f"but what is stored has {original.dtype}. Either set leave_parametrized=False or keep the dtype."
        )
    _replace_data(original, value)


def type_before_parametrizations(module: Module, *, parametrized: bool | None = None) -> type:
    """The class of ``module`` before its first parametrization.

    >>> import torchlike as torch
    >>> m = torch.nn.utils.parametrizations.weight_norm(torch.nn.Linear(2, 2))
    >>> torch.nn.utils.parametrize.type_before_parametrizations(m).__name__
    'Linear'
    """
    parametrized = is_parametrized(module) if parametrized is None else parametrized
    return type(module).__bases__[0] if parametrized else type(module)


def transfer_parametrizations_and_params(
    from_module: Module, to_module: Module, tensor_name: str | None = None
) -> Module:
    """Parametrize ``to_module`` with the parametrizations, and the stored tensors, of ``from_module``.

    Args:
        tensor_name: one tensor's name; None for all that are parametrized.

    Returns:
        ``to_module``, which shares what it was given.

    Raises:
        AttributeError, KeyError: ``from_module`` has no such tensor, or none that is parametrized.
    """
    if not is_parametrized(from_module):
        return to_module
    lists: Any = from_module.parametrizations
    for name in [tensor_name] if tensor_name is not None else list(lists):
        if not hasattr(to_module, name):
            setattr(to_module, name, Parameter(getattr(from_module, name)))
        source = lists[name]
        for parametrization in source:
            register_parametrization(to_module, name, parametrization)
        target: Any = to_module.parametrizations[name]  # type: ignore[index,union-attr]
        for stored in ("original",) if source.is_tensor else (f"original{i}" for i in range(source.ntensors)):
            setattr(target, stored, getattr(source, stored))
    return to_module
