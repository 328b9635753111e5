"""Module: the base class of neural networks. A tree of modules that hold parameters and buffers."""

import importlib
import sys
import warnings
from collections import OrderedDict
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, TypeVar

from torchlike._base.state import state
from torchlike._core.autograd.hooks import RemovableHandle as RemovableHandle
from torchlike._core.tensor.tensor import Tensor
from torchlike.interop.jax_tree import refuse
from torchlike.nn.modules._convert import ConvertMethods
from torchlike.nn.modules._hooks import (
    GLOBAL,
    HookMethods,
    HooksOfAll,
    register_module_backward_hook,
    register_module_buffer_registration_hook,
    register_module_forward_hook,
    register_module_forward_pre_hook,
    register_module_full_backward_hook,
    register_module_full_backward_pre_hook,
    register_module_module_registration_hook,
    register_module_parameter_registration_hook,
    registered,
)
from torchlike.nn.modules._hooks import _WrappedHook as _WrappedHook
from torchlike.nn.modules._parts import made_of
from torchlike.nn.modules._state_dict import EXTRA_STATE as _EXTRA_STATE_KEY_SUFFIX  # noqa: F401
from torchlike.nn.modules._state_dict import StateMethods
from torchlike.nn.modules._state_dict import _IncompatibleKeys as _IncompatibleKeys
from torchlike.nn.modules._traced import note_made
from torchlike.nn.parameter import Buffer, Parameter

__all__ = [
    "Module",
    "register_module_backward_hook",
    "register_module_buffer_registration_hook",
    "register_module_forward_hook",
    "register_module_forward_pre_hook",
    "register_module_full_backward_hook",
    "register_module_full_backward_pre_hook",
    "register_module_module_registration_hook",
    "register_module_parameter_registration_hook",
]

_HOOK_DICTS = (
    "_backward_pre_hooks",
    "_backward_hooks",
    "_forward_hooks",
    "_forward_hooks_with_kwargs",
    "_forward_hooks_always_called",
    "_forward_pre_hooks",
    "_forward_pre_hooks_with_kwargs",
    "_state_dict_hooks",
    "_state_dict_post_hooks",
    "_state_dict_pre_hooks",
    "_load_state_dict_pre_hooks",
    "_load_state_dict_post_hooks",
)
_MEMBERS = ("_parameters", "_buffers", "_modules")
T_destination = TypeVar("T_destination", bound=dict)


def _typename(value: Any) -> str:
    """A name for the type of ``value`` in messages: tensors by element type, classes by their module."""
    if isinstance(value, Tensor):
        return value.type()
    cls = type(value)
    return cls.__qualname__ if cls.__module__ == "builtins" else f"{cls.__module__}.{cls.__qualname__}"


def _addindent(text: str, spaces: int) -> str:
    """``text`` with every line but the first indented."""
    return text.replace("\n", "\n" + " " * spaces)


if TYPE_CHECKING:

    class _Parts(HookMethods, StateMethods, ConvertMethods):
        """Where type checkers find the members that ``made_of`` adds."""

else:
    _Parts = object


@made_of(HookMethods, StateMethods, ConvertMethods)
class Module(_Parts):
    """Base class of layers and models.

    A subclass calls ``super().__init__()``, assigns parameters, buffers and other modules to
    attributes (which registers them), and defines ``forward``; calling the module runs its hooks
    and ``forward``.

    Attributes:
        training: whether the module is in training mode; see :meth:`train`.
        call_super_init: whether ``__init__`` passes its arguments on to the next class in the
            method resolution order, for multiple inheritance.

    >>> import torchlike as torch
    >>> class Scale(torch.nn.Module):
    ...     def __init__(self):
    ...         super().__init__()
    ...         self.factor = torch.nn.Parameter(torch.full((1,), 3.0))
    ...     def forward(self, x):
    ...         return x * self.factor
    >>> Scale()(torch.ones(2)).tolist()
    [3.0, 3.0]
    """

    dump_patches: bool = False
    _version: int = 1
    training: bool
    call_super_init: bool = False
    T_destination = T_destination

    def __init__(self, *args, **kwargs) -> None:
        if not self.call_super_init and (args or kwargs):
            name = f"{type(self).__name__}.__init__()"
            if kwargs:
                raise TypeError(f"{name} got an unexpected keyword argument '{next(iter(kwargs))}'")
            raise TypeError(f"{name} takes 1 positional argument but {len(args) + 1} were given")
        own = self.__dict__
        own["training"] = True
        own["_parameters"] = {}
        own["_buffers"] = {}
        own["_non_persistent_buffers_set"] = set()
        own["_is_full_backward_hook"] = None
        for name in _HOOK_DICTS:
            own[name] = OrderedDict()
        own["_modules"] = {}
        note_made(self)
        if self.call_super_init:
            super().__init__(*args, **kwargs)

    def forward(self, *input: Any) -> Any:
        """What the module computes; every subclass defines it."""
        name = type(self).__name__
        raise NotImplementedError(f'Module [{name}] is missing the required "forward" function')

    # -- registration ----------------------------------------------------------------------------
    def register_parameter(self, name: str, param: Parameter | None) -> None:
        """Add a parameter under ``name``; None reserves the name without a parameter.

        Raises:
            TypeError: ``name`` is no string, or ``param`` no Parameter.
            KeyError: ``name`` is empty, has a dot, or is another attribute already.
            ValueError: ``param`` was computed from other tensors.
        """
        if "_parameters" not in self.__dict__:
            raise AttributeError("cannot assign parameter before Module.__init__() call")
        self._check_name("parameter", name, self._parameters)
        if param is not None:
            if not isinstance(param, Parameter):
                raise TypeError(
                    f"cannot assign '{_typename(param)}' object to parameter '{name}' "
                    "(torch.nn.Parameter or None required)"
                )
            if param.grad_fn is not None:
                raise ValueError(
                    f"Cannot assign non-leaf Tensor to parameter '{name}'. Model parameters must be created "
                    f"explicitly. To express '{name}' as a function of another Tensor, compute the value in "
                    "the forward() method."
                )
            param = registered("parameter", self, name, param)
        self._parameters[name] = param

    def register_buffer(self, name: str, tensor: Tensor | None, persistent: bool = True) -> None:
        """Add a tensor that is state but no parameter, such as a running mean.

        Args:
            name: the attribute to reach it by.
            tensor: the buffer; None reserves the name.
            persistent: whether ``state_dict`` holds it.

        >>> import torchlike as torch
        >>> m = torch.nn.Module()
        >>> m.register_buffer("mean", torch.zeros(2))
        >>> m.mean
        tensor([0., 0.])
        """
        if "_buffers" not in self.__dict__:
            raise AttributeError("cannot assign buffer before Module.__init__() call")
        self._check_name("buffer", name, self._buffers)
        if tensor is not None and not isinstance(tensor, Tensor):
            raise TypeError(
                f"cannot assign '{_typename(tensor)}' object to buffer '{name}' (torch Tensor or None required)"
            )
        self._buffers[name] = registered("buffer", self, name, tensor)
        if persistent:
            self._non_persistent_buffers_set.discard(name)
        else:
            self._non_persistent_buffers_set.add(name)

    def add_module(self, name: str, module: "Module | None") -> None:
        """Add a child module under ``name``; None reserves the name."""
        if module is not None and not isinstance(module, Module):
            raise TypeError(f"{_typename(module)} is not a Module subclass")
        self._check_name("module", name, self._modules)
        self._modules[name] = registered("module", self, name, module)

    def register_module(self, name: str, module: "Module | None") -> None:
        """The same as :meth:`add_module`."""
        self.add_module(name, module)

    def _check_name(self, kind: str, name: Any, members: dict) -> None:
        if not isinstance(name, str):
            raise TypeError(f"{kind} name should be a string. Got {_typename(name)}")
        if "." in name:
            raise KeyError(f'{kind} name can\'t contain "."' + (f", got: {name}" if kind == "module" else ""))
        if name == "":
            raise KeyError(f'{kind} name can\'t be empty string ""')
        if name not in members and hasattr(self, name):
            raise KeyError(f"attribute '{name}' already exists")

    # -- attributes ------------------------------------------------------------------------------
    def __getattr__(self, name: str) -> Any:
        own = self.__dict__
        if "_parameters" in own:
            if name in own["_parameters"]:
                return own["_parameters"][name]
            if name in own["_buffers"]:
                return own["_buffers"][name]
            if name in own["_modules"]:
                return own["_modules"][name]
        hint = "; call super().__init__() first" if name in _HOOK_DICTS or name in _MEMBERS else ""
        raise AttributeError(f"'{type(self).__name__}' object has no attribute '{name}'{hint}")

    def __setattr__(self, name: str, value: Any) -> None:
        own = self.__dict__
        if isinstance(value, Parameter):
            self._displace("parameters", name, "_parameters")
            self.register_parameter(name, value)
        elif name in own.get("_parameters", ()):
            if value is not None:
                raise _cannot_assign(value, "parameter", name, "torch.nn.Parameter or None expected")
            self.register_parameter(name, None)
        elif isinstance(value, Module):
            self._displace("module", name, "_modules")
            own["_modules"][name] = registered("module", self, name, value)
        elif name in own.get("_modules", ()):
            if value is not None:
                raise _cannot_assign(value, "child module", name, "torch.nn.Module or None expected")
            own["_modules"][name] = registered("module", self, name, value)
        elif isinstance(value, Buffer) or name in own.get("_buffers", ()):
            self._set_buffer(name, value)
        else:
            object.__setattr__(self, name, value)

    def _set_buffer(self, name: str, value: Any) -> None:
        if value is not None and not isinstance(value, Tensor):
            raise _cannot_assign(value, "buffer", name, "torch.nn.Buffer, torch.Tensor or None expected")
        if isinstance(value, Buffer):
            self.register_buffer(name, value, value.persistent)
        else:
            self._buffers[name] = registered("buffer", self, name, value)

    def _displace(self, what: str, name: str, kept: str) -> None:
        """Forget what ``name`` held, unless in the group ``kept``, before a new value takes the name."""
        own = self.__dict__
        if kept not in own:
            raise AttributeError(f"cannot assign {what} before Module.__init__() call")
        own.pop(name, None)
        own["_non_persistent_buffers_set"].discard(name)
        for group in _MEMBERS:
            if group != kept:
                own[group].pop(name, None)

    def __delattr__(self, name: str) -> None:
        for group in _MEMBERS:
            if name in self.__dict__.get(group, ()):
                del self.__dict__[group][name]
                self._non_persistent_buffers_set.discard(name)
                return
        super().__delattr__(name)

    def __dir__(self):
        names = set(dir(type(self))) | self.__dict__.keys()
        for group in _MEMBERS:
            names |= self.__dict__.get(group, {}).keys()
        return sorted(name for name in names if not name[:1].isdigit())

    def compile(self, *args: Any, **kwargs: Any) -> None:
        """Compile this module's calls in place; takes the options of ``torch.compile``."""
        compiler = importlib.import_module("torchlike.compiler")  # which needs this module
        self.__dict__["_compiled_call_impl"] = compiler.compile(self._call_impl, *args, **kwargs)

    def __getstate__(self):
        return {k: v for k, v in self.__dict__.items() if k != "_compiled_call_impl"}

    def __setstate__(self, state):
        self.__dict__.update(state)
        self.__dict__.setdefault("_non_persistent_buffers_set", set())
        self.__dict__.setdefault("_is_full_backward_hook", None)
        for name in _HOOK_DICTS:
            self.__dict__.setdefault(name, OrderedDict())
        note_made(self)

    def _replicate_for_data_parallel(self):
        """A module with the attributes of this one, but without parameters, and with containers of its own."""
        replica = self.__new__(type(self))
        own = replica.__dict__
        own.update(self.__dict__)
        own.update(_parameters={}, _buffers=self._buffers.copy(), _modules=self._modules.copy(), _is_replica=True)
        own.pop("_compiled_call_impl", None)  # which calls this module
        return replica

    # -- walking the tree --------------------------------------------------------------------------
    def _named_members(
        self, get_members_fn: Callable, prefix: str = "", recurse: bool = True, remove_duplicate: bool = True
    ) -> Iterator[tuple[str, Any]]:
        """(dotted name, member) for the members that ``get_members_fn(module)`` lists, None left out."""
        seen = set()
        tree = self.named_modules(prefix=prefix, remove_duplicate=remove_duplicate) if recurse else [(prefix, self)]
        for path, module in tree:
            for name, member in get_members_fn(module):
                if member is None or id(member) in seen:
                    continue
                if remove_duplicate:
                    seen.add(id(member))
                yield f"{path}.{name}" if path else name, member

    def parameters(self, recurse: bool = True) -> Iterator[Parameter]:
        """The parameters of this module and, with ``recurse``, of all below it, each once."""
        for _, parameter in self.named_parameters(recurse=recurse):
            yield parameter

    def named_parameters(
        self, prefix: str = "", recurse: bool = True, remove_duplicate: bool = True
    ) -> Iterator[tuple[str, Parameter]]:
        """(dotted name, parameter) pairs; a shared parameter comes under its first name only by default."""
        yield from self._named_members(lambda m: m._parameters.items(), prefix, recurse, remove_duplicate)

    def buffers(self, recurse: bool = True) -> Iterator[Tensor]:
        """The buffers of this module and, with ``recurse``, of all below it, each once."""
        for _, buffer in self.named_buffers(recurse=recurse):
            yield buffer

    def named_buffers(
        self, prefix: str = "", recurse: bool = True, remove_duplicate: bool = True
    ) -> Iterator[tuple[str, Tensor]]:
        """(dotted name, buffer) pairs."""
        yield from self._named_members(lambda m: m._buffers.items(), prefix, recurse, remove_duplicate)

    def children(self) -> Iterator["Module"]:
        """The modules directly below this one, each once."""
        for _, module in self.named_children():
            yield module

    def named_children(self) -> Iterator[tuple[str, "Module"]]:
        """(name, module) for the modules directly below this one, each once."""
        seen = set()
        for name, module in self._modules.items():
            if module is not None and module not in seen:
                seen.add(module)
                yield name, module

    def modules(self, remove_duplicate: bool = True) -> Iterator["Module"]:
        """This module and all below it, parents first, each once unless ``remove_duplicate`` is false."""
        for _, module in self.named_modules(remove_duplicate=remove_duplicate):
            yield module

    def named_modules(
        self, memo: "set[Module] | None" = None, prefix: str = "", remove_duplicate: bool = True
    ) -> Iterator[tuple[str, "Module"]]:
        """(dotted name, module) for this module and all below it, parents first, but those in ``memo``."""
        memo = set() if memo is None else memo
        if self in memo:
            return
        if remove_duplicate:
            memo.add(self)
        yield prefix, self
        for name, module in self._modules.items():
            if module is not None:
                path = f"{prefix}.{name}" if prefix else name
                yield from module.named_modules(memo, path, remove_duplicate)

    def get_submodule(self, target: str) -> "Module":
        """The module at the dotted path ``target``; "" is this one. AttributeError where there is none.

        >>> import torchlike as torch
        >>> torch.nn.Sequential(torch.nn.ReLU()).get_submodule("0")
        ReLU()
        """
        module = self
        for name in target.split(".") if target else ():
            module = _member(module, name)
            if not isinstance(module, Module):
                raise AttributeError(f"`{name}` is not an nn.Module")
        return module

    def set_submodule(self, target: str, module: "Module", strict: bool = False) -> None:
        """Put ``module`` at the dotted path ``target``; with ``strict`` only in place of another module."""
        if target == "":
            raise ValueError("Cannot set the submodule without a target name!")
        if not isinstance(module, Module):
            raise ValueError(f"`module` is not an nn.Module, found {type(module)}")
        path, _, name = target.rpartition(".")
        parent = self.get_submodule(path)
        if (strict or hasattr(parent, name)) and not isinstance(_member(parent, name), Module):
            raise AttributeError(f"`{name}` is not an nn.Module")
        setattr(parent, name, module)

    def get_parameter(self, target: str) -> Parameter:
        """The parameter at the dotted path ``target``; AttributeError where there is none."""
        path, _, name = target.rpartition(".")
        parameter = _member(self.get_submodule(path), name)
        if not isinstance(parameter, Parameter):
            raise AttributeError(f"`{name}` is not an nn.Parameter")
        return parameter

    def get_buffer(self, target: str) -> Tensor:
        """The buffer at the dotted path ``target``; AttributeError where there is none."""
        path, _, name = target.rpartition(".")
        module = self.get_submodule(path)
        buffer = _member(module, name)
        if name not in module._buffers:
            raise AttributeError(f"`{name}` is not a buffer")
        return buffer

    # -- modes and gradients -----------------------------------------------------------------------
    def train(self, mode: bool = True):
        """Set ``training`` to ``mode`` here and in every module below; returns self."""
        if not isinstance(mode, bool):
            raise ValueError("training mode is expected to be boolean")
        self.training = mode
        for module in self.children():
            module.train(mode)
        return self

    def eval(self):
        """The same as ``train(False)``."""
        return self.train(False)

    def requires_grad_(self, requires_grad: bool = True):
        """Set ``requires_grad`` of every parameter; returns self."""
        for parameter in self.parameters():
            parameter.requires_grad_(requires_grad)
        return self

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Forget the gradients of every parameter, or fill them with zeros."""
        if self.__dict__.get("_is_replica"):
            warnings.warn(
                "Calling .zero_grad() from a module created with nn.DataParallel() has no effect: its tensors are "
                "computed from the parameters of the module, which have the gradients. Call it on that module.",
                stacklevel=2,
            )
        for parameter in self.parameters():
            if set_to_none and state.capture is not None:  # whether there is one need not be known
                parameter.grad = None
            if parameter.grad is None:
                continue
            if set_to_none:
                parameter.grad = None
            elif parameter.grad.grad_fn is not None:
                parameter.grad.detach_().zero_()
            else:
                parameter.grad.requires_grad_(False).zero_()

    def apply(self, fn: Callable[["Module"], Any]):
        """Call ``fn`` on every module, children before parents; returns self."""
        for module in self.children():
            module.apply(fn)
        fn(self)
        return self

    # -- printing ----------------------------------------------------------------------------------
    def _get_name(self) -> str:
        return type(self).__name__

    def extra_repr(self) -> str:
        """What to print between the brackets besides the children; override it."""
        return ""

    def __repr__(self) -> str:
        extra = self.extra_repr()
        lines = extra.split("\n") if extra else []
        children = [f"({name}): {_addindent(repr(module), 2)}" for name, module in self._modules.items()]
        if not children and len(lines) <= 1:
            return f"{self._get_name()}({extra})"
        return f"{self._get_name()}(\n  " + "\n  ".join(lines + children) + "\n)"


def _member(module: Module, name: str) -> Any:
    if not hasattr(module, name):
        raise AttributeError(f"{module._get_name()} has no attribute `{name}`")
    return getattr(module, name)


def _cannot_assign(value: Any, kind: str, name: str, expected: str) -> TypeError:
    return TypeError(f"cannot assign '{_typename(value)}' as {kind} '{name}' ({expected})")


refuse(
    Module,
    "Hand its arrays over instead: `parameters, buffers = torchlike.interop.split(module)` are trees, and "
    "`torchlike.interop.to_jax(module)` is a function of them; or pass dict(module.named_parameters()) and call "
    "torch.func.functional_call(module, parameters, arguments) inside",
)
globals().update(GLOBAL)
sys.modules[__name__].__class__ = HooksOfAll
