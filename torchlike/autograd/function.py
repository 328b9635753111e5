"""Custom functions: ``Function``, its context, and ``once_differentiable``."""

import functools
import importlib
import inspect
import warnings
from typing import Any

from torchlike._base.state import no_grad, state
from torchlike._core.autograd import custom_function
from torchlike._core.dispatch.layers import TRANSFORMS
from torchlike._core.tensor.tensor import Tensor

__all__ = [
    "FunctionCtx", "BackwardCFunction", "FunctionMeta", "Function", "once_differentiable", "InplaceFunction",
    "NestedIOFunction",
]  # fmt: skip


class FunctionCtx:
    """What ``forward``, ``setup_context`` and ``backward`` are given to keep things on and to declare them."""

    to_save: Any
    saved_for_forward: Any
    dirty_tensors: Any
    non_differentiable: Any
    materialize_grads: bool

    def save_for_backward(self, *tensors: Any) -> None:
        """Keep ``tensors`` (each a Tensor or None) for ``ctx.saved_tensors`` in backward.

        Call it once, in forward or setup_context; the last call counts. Unlike attributes of ctx, saved tensors
        are checked for changes in place, freed after backward, and seen by saved-tensor hooks. A TypeError is
        raised for anything else than tensors and None.

        >>> import torchlike as torch
        >>> class Square(torch.autograd.Function):
        ...     @staticmethod
        ...     def forward(ctx, x):
        ...         ctx.save_for_backward(x)
        ...         return x * x
        ...     @staticmethod
        ...     def backward(ctx, grad):
        ...         (x,) = ctx.saved_tensors
        ...         return 2 * x * grad
        >>> x = torch.tensor(3.0, requires_grad=True)
        >>> torch.autograd.grad(Square.apply(x), x)
        (tensor(6.),)
        """
        self.to_save = tensors

    def save_for_forward(self, *tensors: Any) -> None:
        """Keep ``tensors`` (each a Tensor or None) for ``jvp``."""
        for t in tensors:
            if t is not None and not isinstance(t, Tensor):
                raise AssertionError(
                    "save_for_forward expects all arguments to be tensors; you should save non-tensors as attributes "
                    f"on ctx (got {type(t).__name__})"
                )
        self.saved_for_forward = tensors

    def mark_dirty(self, *args: Any) -> None:
        """Declare inputs that forward has changed in place; each of them must also be an output.

        >>> import torchlike as torch
        >>> class Negate(torch.autograd.Function):
        ...     @staticmethod
        ...     def forward(ctx, x):
        ...         x.neg_()
        ...         ctx.mark_dirty(x)
        ...         return x
        ...     @staticmethod
        ...     def backward(ctx, grad):
        ...         return -grad
        >>> x = torch.ones(2, requires_grad=True)
        >>> y = x * 3
        >>> Negate.apply(y) is y
        True
        """
        self.dirty_tensors = args

    def mark_non_differentiable(self, *args: Any) -> None:
        """Declare outputs without a gradient; backward still takes an argument for each."""
        self.non_differentiable = args

    def mark_shared_storage(self, *pairs: Any) -> None:
        """Deprecated: aliases are always known."""
        warnings.warn(
            "`mark_shared_storage` is deprecated. Tensors with shared storages are automatically tracked. Note that "
            "calls to `set_()` are not tracked",
            FutureWarning,
            stacklevel=2,
        )

    def set_materialize_grads(self, value: bool) -> None:
        """Whether backward gets zeros (the default) or None where an output has no gradient."""
        if not isinstance(value, bool):
            raise TypeError(f"set_materialize_grads expected a bool, but got {type(value).__name__}")
        self.materialize_grads = value


class BackwardCFunction(custom_function.CustomNode, FunctionCtx):
    """The node of a call of a :class:`Function`; forward and backward know it as ``ctx``."""

    __slots__ = ()
    _forward_cls: Any

    @property
    def saved_variables(self) -> tuple:
        """Deprecated name of ``saved_tensors``."""
        warnings.warn("'saved_variables' is deprecated; use 'saved_tensors'", DeprecationWarning, stacklevel=2)
        return self.saved_tensors

    def _get_user_fn(self) -> Any:
        cls = self._forward_cls
        if cls.vjp is Function.vjp:
            return cls.backward
        if cls.backward is not Function.backward:
            raise RuntimeError(
                "Implementing both 'backward' and 'vjp' for a custom Function is not allowed. You should only "
                f"implement one of them ({cls.__name__})."
            )
        return cls.vjp

    def apply(self, *grads: Any) -> Any:
        """What the Function's backward returns for the gradients of the outputs."""
        return self._get_user_fn()(self, *grads)

    def apply_jvp(self, *tangents: Any) -> Any:
        """What the Function's jvp returns for the tangents of the arguments."""
        return self._forward_cls.jvp(self, *tangents)

    def maybe_clear_saved_tensors(self) -> None:
        """Free the saved tensors if the Function has ``clear_saved_tensors_on_access``."""
        if self._forward_cls.clear_saved_tensors_on_access:
            self._release()


class FunctionMeta(type):
    """The class of Function classes: gives each one a class of nodes, ``<name>Backward``."""

    _backward_cls: type

    def __init__(cls, name: str, bases: tuple, attrs: dict) -> None:
        cls._backward_cls = type(name + "Backward", (BackwardCFunction,), {"_forward_cls": cls, "__slots__": ()})
        super().__init__(name, bases, attrs)


class Function(FunctionCtx, metaclass=FunctionMeta):
    """The base class of custom differentiable functions.

    A subclass has static methods ``forward(ctx, *args)`` and ``backward(ctx, *grads)``, or ``forward(*args)``,
    ``setup_context(ctx, inputs, output)`` and ``backward``; it is called as ``Subclass.apply(*args)``.

    >>> import torchlike as torch
    >>> class Cube(torch.autograd.Function):
    ...     @staticmethod
    ...     def forward(x):
    ...         return x**3
    ...     @staticmethod
    ...     def setup_context(ctx, inputs, output):
    ...         ctx.save_for_backward(*inputs)
    ...     @staticmethod
    ...     def backward(ctx, grad):
    ...         (x,) = ctx.saved_tensors
    ...         return 3 * x**2 * grad
    >>> x = torch.tensor(2.0, requires_grad=True)
    >>> Cube.apply(x)
    tensor(8., grad_fn=<CubeBackward>)
    >>> torch.autograd.grad(Cube.apply(x), x)
    (tensor(12.),)
    """

    generate_vmap_rule = False
    clear_saved_tensors_on_access = False
    boxed_grads_call = False

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        warnings.warn(
            f"{type(self)} should not be instantiated. Methods on autograd functions are all static, so you should "
            "invoke them on the class itself. Instantiating an autograd function will raise an error in a future "
            "version of PyTorch.",
            DeprecationWarning,
            stacklevel=2,
        )

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        raise RuntimeError(
            "Legacy autograd function with non-static forward method is deprecated. Please use new-style autograd "
            "function with static forward method: define it with @staticmethod and call "
            f"{type(self).__name__}.apply(...)."
        )

    @staticmethod
    def forward(*args: Any, **kwargs: Any) -> Any:
        """What the function computes: ``forward(ctx, *args)``, or ``forward(*args)`` next to setup_context.

        Args that are not tensors may be anything. It returns a tensor or a tuple; what is not a tensor in it is
        passed through. Operations inside are not recorded.
        """
        raise NotImplementedError("You must implement the forward function for custom autograd.Function.")

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple, output: Any) -> Any:
        """Keep on ``ctx`` what backward needs, given the arguments of forward and what it returned."""
        raise NotImplementedError("setup_context is not implemented.")

    @staticmethod
    def backward(ctx: Any, *grad_outputs: Any) -> Any:
        """The gradient of each argument of forward (None: none) from those of its outputs; ``vjp`` is another name.

        Raises RuntimeError when run if it returns another number of gradients than forward has arguments, or one
        of another shape than its argument has.
        """
        raise NotImplementedError(
            "You must implement either the backward or vjp method for your custom autograd.Function to use it with "
            "backward mode AD."
        )

    vjp = backward

    @staticmethod
    def jvp(ctx: Any, *grad_inputs: Any) -> Any:
        """The tangents of the outputs from those of the arguments, for forward-mode differentiation."""
        raise NotImplementedError(
            "You must implement the jvp function for custom autograd.Function to use it with forward mode AD."
        )

    @staticmethod
    def vmap(info: Any, in_dims: Any, *args: Any) -> Any:
        """The function on batches of arguments, for ``torch.func.vmap``."""
        raise NotImplementedError(
            "To use autograd.Function with vmap, you must either override the vmap staticmethod or set "
            "generate_vmap_rule=True."
        )

    @classmethod
    def apply(cls, *args: Any, **kwargs: Any) -> Any:
        """Call the function; its outputs are recorded with :meth:`backward` as their derivative."""
        if state.interpreter is not None:  # a program relies on what the class has
            _ = [state.interpreter.in_class(cls, name) for name in _MEMBERS]
        forward = cls.forward
        setup: Any = cls.setup_context
        if setup is Function.setup_context:
            setup = None
            if kwargs:
                args = _positional(forward, args, kwargs)
        else:
            args = _bound(forward, args, kwargs)
        if state.levels:
            return TRANSFORMS.apply(cls, args)
        return custom_function.run(cls._backward_cls(), forward, setup, args)

    @classmethod
    def _run(cls, args: tuple, then: Any) -> Any:
        """The call itself, of positional arguments."""
        setup = None if cls.setup_context is Function.setup_context else cls.setup_context
        return custom_function.run(cls._backward_cls(), cls.forward, setup, args, then)


def _apply_first(cls: Any, args: tuple) -> Any:
    """As what stands in its place from now on: the calls inside of transforms, imported with the first one."""
    importlib.import_module("torchlike.autograd._function_levels")
    return TRANSFORMS.apply(cls, args)


TRANSFORMS.apply = _apply_first
_MEMBERS = [name for name in vars(Function) if not name.startswith("_") and name != "apply"]


def _bound(forward: Any, args: tuple, kwargs: dict) -> tuple:
    """All arguments of ``forward(*args, **kwargs)`` by position, defaults included."""
    bound = _signature(forward).bind(*args, **kwargs)
    bound.apply_defaults()
    return bound.args


@functools.lru_cache(256)
def _signature(forward: Any) -> inspect.Signature:
    return inspect.signature(forward)


def _positional(forward: Any, args: tuple, kwargs: dict) -> tuple:
    """The arguments of ``forward(ctx, *args, **kwargs)`` by position; those given by name leave no gap."""
    kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    names = [p.name for p in _signature(forward).parameters.values() if p.kind in kinds][1:]
    rest, given = dict(kwargs), list(args)
    for i, name in enumerate(names):
        if i < len(args):
            if name in rest:
                raise TypeError(f"forward() got multiple values for argument '{name}'")
        elif name in rest:
            given.append(rest.pop(name))
        elif any(later in rest for later in names[i:]):
            raise TypeError(f"forward() missing required argument: '{name}' (position {i})")
    if rest:
        raise TypeError(f"forward() got an unexpected keyword argument '{next(iter(rest))}'")
    return tuple(given)


def once_differentiable(fn: Any) -> Any:
    """Decorate a backward that cannot be differentiated itself; a second derivative raises RuntimeError.

    >>> import torchlike as torch
    >>> class Double(torch.autograd.Function):
    ...     @staticmethod
    ...     def forward(ctx, x):
    ...         return 2 * x
    ...     @staticmethod
    ...     @torch.autograd.function.once_differentiable
    ...     def backward(ctx, grad):
    ...         return 2 * grad
    >>> x = torch.tensor(1.0, requires_grad=True)
    >>> torch.autograd.grad(Double.apply(x), x)
    (tensor(2.),)
    """

    @functools.wraps(fn)
    def wrapper(ctx: Any, *args: Any) -> Any:
        with no_grad():
            outputs = fn(ctx, *args)
        if not state.grad or not any(isinstance(a, Tensor) and a.requires_grad for a in args):
            return outputs
        message = "trying to differentiate twice a function that was marked with @once_differentiable"
        given = outputs if isinstance(outputs, tuple) else (outputs,)
        got = custom_function.guarded(given, message)
        return tuple(got) if isinstance(outputs, tuple) else got[0]

    return wrapper


class InplaceFunction(Function):
    """A Function with a flag ``inplace``; kept for code that still subclasses it."""

    def __init__(self, inplace: bool = False) -> None:
        super().__init__()
        self.inplace = inplace


class NestedIOFunction(Function):
    """A Function like any other, kept for code that still subclasses it.

    Nested arguments belonged to the calling of instances, which PyTorch has removed; pass the tensors one by one.
    """
