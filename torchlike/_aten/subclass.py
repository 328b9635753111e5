"""What subclasses of Tensor do by default, and the contexts in which overriding is off."""

from torchlike._aten import size_policy
from torchlike._aten.python_dispatch import takes
from torchlike._base.state import state
from torchlike._core.autograd.fields import differentiable, mark
from torchlike._core.dispatch.view_calls import call_view
from torchlike._core.overrides import torch_function as overrides
from torchlike._core.tensor.tensor import Tensor, alias
from torchlike._ops import view as views


def torch_function(cls, func, types, args=(), kwargs=None):
    """Call ``func`` with overriding by subclasses off; results that are tensors become instances of the class.

    NotImplemented where an argument is of a type that is no base class of this one.
    """
    if not all([issubclass(cls, t) for t in types]):
        return NotImplemented
    before = state.overrides_off
    state.overrides_off = max(before, 1)
    try:
        result = func(*args, **(kwargs or {}))
        return result if cls is Tensor or func in nowrap() else converted(result, cls)
    finally:
        state.overrides_off = before


def nowrap():
    """The functions whose results stay what they are: getters of other tensors."""
    if not _nowrap:
        found = [vars(Tensor).get(name) for name in ("_base", "_grad", "grad")]
        _nowrap.update([p.__get__ for p in found if isinstance(p, property)])
    return _nowrap


_nowrap: set = set()


def converted(result, cls):
    """``result`` with its tensors, also those in tuples and lists, as instances of ``cls``."""
    if isinstance(result, Tensor):
        return result if isinstance(result, cls) else as_subclass(result, cls)
    if isinstance(result, tuple | list):
        items = [converted(x, cls) for x in result]
        return type(result)(items)
    return result


def as_subclass(t, cls):
    """A view of ``t`` as an instance of ``cls``."""
    view = call_view(views.alias, (t,), ())
    new = alias(view, cls)
    new._diff, new._edge, new._rg = view._diff, view._edge, view._rg
    return new


def of_class(t, cls):
    """:func:`as_subclass` for users: a ``__torch_dispatch__`` of the class of ``t`` says what its view is."""
    return _answered(call_view(views.alias, (t,), ()), cls) if takes(type(t)) else as_subclass(t, cls)


def _answered(result, cls):
    if not isinstance(result, cls):
        raise RuntimeError(
            f"Creating a new Tensor subclass {cls.__name__} but the raw Tensor object is already associated to a "
            f"python object of type {type(result).__name__} which is not a subclass of the requested type"
        )
    return result


def detached(t):
    """``t.detach()`` as its class has it."""
    return t.detach()


def make_subclass(
    cls,
    data,
    require_grad=False,
    *,
    dispatch_sizes_strides_policy=None,
    dispatch_device=False,
    dispatch_layout=False,
    device_for_backend_keys=None,
):
    """An instance of ``cls`` over the storage of ``data``, without history.

    ``dispatch_sizes_strides_policy``: ``"strides"`` if the ``__torch_dispatch__`` of the class is asked for the strides
    of the instance, ``"sizes"`` if for sizes too.
    """
    demand_class(cls)
    if not isinstance(data, Tensor):
        raise TypeError(f"_make_subclass(): argument 'data' (position 2) must be Tensor, not {type(data).__name__}")
    if require_grad and not differentiable(data):
        raise RuntimeError("Only Tensors of floating point and complex dtype can require gradients")
    new = _answered(data.detach(), cls) if takes(type(data)) else alias(data, cls)
    if require_grad:
        mark(new, True)
    return size_policy.ask(new, dispatch_sizes_strides_policy, dispatch_device, dispatch_layout)


def demand_class(cls):
    """TypeError unless ``cls`` is Tensor or a subclass of it."""
    if not isinstance(cls, type):
        raise TypeError(f"cls must be a type (got {type(cls).__name__})")
    if not issubclass(cls, Tensor):
        raise TypeError(
            f"Creating a Tensor subclass from {cls.__name__}, a class that does not inherit from Tensor, is not "
            "possible. Make sure your class inherits from Tensor."
        )


# -- what an instance holds beside its values -----------------------------------------------------


def slots_of(t):
    """The slots that subclasses gave ``t`` and that are filled, as a dict."""
    found = {}
    for cls in type(t).__mro__:
        if cls is Tensor:
            break
        names = vars(cls).get("__slots__", ())
        for name in (names,) if isinstance(names, str) else names:
            if name in ("__dict__", "__weakref__"):
                continue
            if name.startswith("__") and not name.endswith("__"):  # private to the class
                name = f"_{cls.__name__.lstrip('_')}{name}"
            if hasattr(t, name):
                found[name] = getattr(t, name)
    return found


def state_of(t):
    """What a pickle of ``t`` keeps beside its values: as ``__getstate__`` says, else attributes and slots, or None."""
    if type(t).__getstate__ is not object.__getstate__:
        return t.__getstate__()
    slots = {} if type(t) is Tensor else slots_of(t)
    return (t.__dict__ or None, slots) if slots else t.__dict__ or None


def give(new, attributes, slots):
    """Set attributes and slots of a copy."""
    new.__dict__.update(attributes)
    for name, value in slots.items():
        setattr(new, name, value)


# -- switches -------------------------------------------------------------------------------------


class _Switch:
    """A context in which ``state.overrides_off`` is at least or exactly a level."""

    _level = 0

    def __enter__(self):
        self._before = state.overrides_off
        state.overrides_off = max(self._before, self._level) if self._level else 0

    def __exit__(self, *exc):
        state.overrides_off = self._before


class DisableTorchFunctionSubclass(_Switch):
    """A context in which no subclass and no foreign type overrides; modes still do.

    >>> import torchlike as torch
    >>> class Mine(torch.Tensor): pass
    >>> with torch._C.DisableTorchFunctionSubclass():
    ...     type(Mine([1.0]) + 1).__name__
    'Tensor'
    """

    _level = 1


class DisableTorchFunction(_Switch):
    """A context in which nothing overrides: no subclass, no foreign type, no mode."""

    _level = 2


class EnableTorchFunction(_Switch):
    """All overrides are on again while it lives, or until its context ends, inside of those that turned them off."""

    def __init__(self):
        super().__enter__()
        self._open = True

    def __enter__(self):
        pass

    def __exit__(self, *exc):
        if self._open:
            self._open = False
            super().__exit__()

    __del__ = __exit__


def install():
    """Give Tensor its default, and make its methods and properties overridable."""
    Tensor.__torch_function__ = classmethod(torch_function)
    Tensor._make_subclass = staticmethod(make_subclass)
    overrides.publish_class(Tensor)
    size_policy.install()
