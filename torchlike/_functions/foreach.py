"""``torch._foreach_*``: one operator over the tensors of a list, as one compiled call.

Each result has the history that a call of the operator alone would give it. Where a tensor is written that another
call of the list reads or writes, and where a transform or a mode looks on, the calls are made one after the other.
"""

import functools
from contextlib import ExitStack

import numpy as np

import torchlike._base.dtypes as dtypes
from torchlike._aten.layer import recorded, rewritten
from torchlike._aten.source import SOURCE, Overload
from torchlike._aten.tags import Tag
from torchlike._base.layout import has_overlap, preserve_strides
from torchlike._base.state import below_autograd, state
from torchlike._core.dispatch.dispatch import call, refresh, with_results
from torchlike._core.dispatch.inplace import call_inplace, check_writable, finish
from torchlike._core.dispatch.observers import redispatch, subclassed
from torchlike._core.tensor.arguments import KIND
from torchlike._core.tensor.memory_order import met, restride
from torchlike._core.tensor.mutation import wholes, write
from torchlike._core.tensor.tensor import MemoryFormat, Tensor, preserve_format, value_of
from torchlike._executor import fused, immediate
from torchlike._executor.failure import translate
from torchlike._executor.spread import on_several_devices
from torchlike._functions._foreach_forms import forms
from torchlike._functions._install import function
from torchlike._functions.copy import clone
from torchlike._functions.pointwise import power_call
from torchlike._functions.rearrange import source_of

_NUMBERS = bool | int | float | complex | np.number | np.bool_

# -- the arguments of a call ---------------------------------------------------------------------------


def _is_number(x):
    return isinstance(x, _NUMBERS) or (isinstance(x, Tensor) and not x.ndim)


def _fits(arg, x):
    """Whether ``x`` may be the argument: of a list, the first element tells."""
    if arg.is_list:
        return isinstance(x, list | tuple) and (not x or _is_element(arg.kind, x[0]))
    return (x is None and arg.optional) or _is_of(arg.kind, x)


def _is_element(kind, x):
    """Whether ``x`` may be in a list: one of numbers has no tensors of no dimensions."""
    return isinstance(x, _NUMBERS) if kind == "Scalar" else _is_of(kind, x)


def _is_of(kind, x):
    if kind == "Tensor":
        return isinstance(x, Tensor)
    if kind == "Scalar":
        return _is_number(x)
    return isinstance(x, {"bool": bool, "dtype": dtypes.dtype, "MemoryFormat": MemoryFormat}[kind])


def _placed(schema, args, kwargs):
    """Every argument of a call, in the order of the schema; None where it is not of this form."""
    found, kwargs = [], dict(kwargs)
    for i, arg in enumerate(schema.args):
        if i < len(args) and not arg.kwarg_only:
            found.append(args[i])
        elif arg.name in kwargs:
            found.append(kwargs.pop(arg.name))
        elif arg.has_default:
            found.append(arg.default)
        else:
            return None
    positional = sum([not a.kwarg_only for a in schema.args])
    return None if kwargs or len(args) > positional else found


def _chosen(name, overloads, args, kwargs):
    """(form, every argument) of the overload that a call is of; TypeError if it is of none."""
    for form in overloads:
        given = _placed(form.schema, args, kwargs)
        if given is not None and all(map(_fits, form.schema.args, given)):
            return form, _tensors_only(form, given)
    if len(overloads) == 1:
        raise _misfit(name, overloads[0].schema, args, kwargs)
    kinds = [type(a).__name__ for a in args] + [f"{k}={type(v).__name__}" for k, v in kwargs.items()]
    schemas = "\n".join(f" * {form.schema}" for form in overloads)
    raise TypeError(
        f"{name}() received an invalid combination of arguments - got ({', '.join(kinds)}), "
        f"but expected one of:\n{schemas}"
    )


def _misfit(name, schema, args, kwargs):
    """The TypeError of a call of the only overload."""
    given = _placed(schema, args, kwargs)
    if given is None:
        required = [f'"{a.name}"' for a in schema.args[len(args) :] if not a.has_default and a.name not in kwargs]
        if required:
            return TypeError(f"{name}() missing {len(required)} required positional arguments: {', '.join(required)}")
        return TypeError(f"{name}() takes {schema}; got {len(args)} arguments and the keywords {[*kwargs]}")
    at, arg, x = next((i, a, x) for i, (a, x) in enumerate(zip(schema.args, given, strict=True)) if not _fits(a, x))
    if arg.is_list and isinstance(x, list | tuple):
        return TypeError(f"{name}(): expected Tensor as element 0 in argument {at}, but got {type(x[0]).__name__}")
    wanted = "tuple of Tensors" if arg.is_list else arg.public_kind
    return TypeError(f"{name}(): argument '{arg.name}' (position {at + 1}) must be {wanted}, not {type(x).__name__}")


def _tensors_only(form, given):
    for at, (arg, xs) in enumerate(zip(form.schema.args, given, strict=True)):
        for i, x in enumerate(xs if arg.is_list else ()):
            if not _is_element(arg.kind, x):
                kind, found = "Tensor" if arg.is_tensor else "Scalar", type(x).__name__
                raise TypeError(f"{form.name}(): expected {kind} as element {i} in argument {at}, but got {found}")
    return given


# -- what PyTorch demands of the lists -----------------------------------------------------------------


def _demand_lengths(form, given):
    lists = [(a, x) for a, x in zip(form.schema.args, given, strict=True) if a.is_list]
    tensors, first = [x for a, x in lists if a.is_tensor], len(lists[0][1])
    if not first:
        if form.name == "_foreach_mm":
            raise RuntimeError("_foreach_mm requires non-empty tensor lists")
        raise RuntimeError(f"Tensor list must have at least one tensor. {form.name}() got an empty one")
    for other in tensors[1:]:
        if len(other) != first:
            raise RuntimeError(
                f"Tensor lists must have the same number of tensors, got {first} and {len(other)} ({form.name})"
            )
    for arg, x in lists:
        if not arg.is_tensor and len(x) != first:
            raise RuntimeError(
                f"Tensor list must have same number of elements as scalar list. {form.name}() got {first} tensors and "
                f"{len(x)} numbers"
            )


def _unpacked(form, given):
    """The call with the numbers of a tensor in a list (``addcmul``), and with one number as a tensor checked."""
    overload = form.schema.overload
    if overload != "Tensor":
        return form, given
    *others, packed = given
    if form.operator not in ("addcmul", "addcdiv"):
        number = given[1]
        if number.ndim:
            raise RuntimeError(
                f"scalar tensor expected to be 0 dim but it has {number.ndim} dimensions and {number.numel()} "
                f"elements. {form.name}() takes a tensor of one number, or a list of tensors"
            )
        return form, given
    if packed.ndim != 1:
        raise RuntimeError(f"Expected packed scalar Tensor to be of dimension 1. Got {packed.ndim} instead.")
    if packed.shape[0] != len(given[0]):
        raise RuntimeError(
            f"Expected length of scalars to match input of length {len(given[0])} but got {packed.shape[0]} instead."
        )
    if packed.requires_grad and state.grad:
        raise NotImplementedError(
            f"{form.name}() has no gradient for the numbers in a tensor; give scalars.detach(), or write it with "
            "addcmul and addcdiv"
        )
    listed = next(f for f in FORMS[form.name] if f.schema.overload == "ScalarList")
    return listed, [*others, packed.tolist()]


# -- the calls -----------------------------------------------------------------------------------------


def _run(form, given):
    """The results of one overload; None where it writes."""
    tensors = [
        t for a, x in zip(form.schema.args, given, strict=True) if a.is_tensor for t in (x if a.is_list else [x])
    ]
    _demand_lengths(form, given)
    alone, numbers = _unpacked(form, given)
    if state.dispatch_modes or any(map(subclassed, tensors)):
        return _shown(form, given, alone.calls(numbers))
    form, given = alone, numbers
    special = _SPECIAL.get(form.operator)
    if special is not None and (done := special(form, given)) is not _GENERAL:
        return done
    calls = form.calls(given)
    if form.inplace:
        return _written(form.target, calls)
    return _computed(form.target, calls)


def _shown(form, given, calls):
    """The call as a mode or subclass answers it, with the history of ``calls``, those of each tensor."""
    args, named = [], {}
    for arg, x in zip(form.schema.args, given, strict=True):
        if arg.kwarg_only:
            if x is not arg.default:
                named[arg.name] = x
        else:
            args.append(list(x) if arg.is_list else x)
    while args and form.schema.args[len(args) - 1].has_default and args[-1] is form.schema.args[len(args) - 1].default:
        args.pop()
    show = functools.partial(redispatch, f"{form.name}.{form.schema.overload or 'default'}", *args, **named)
    if not form.inplace:
        with below_autograd():
            results = show()
        if not state.grad:
            return results
        return [
            recorded(form.op, *made, out) if any([_requires_grad(x) for x in made[0]]) else out
            for made, out in zip(calls, results, strict=True)
        ]
    with ExitStack() as histories:
        for inputs, static in calls:
            histories.enter_context(rewritten(form.target, inputs, static))
        with below_autograd():
            show()
    return None


def _requires_grad(x):
    return isinstance(x, Tensor) and x.requires_grad


def _together(op, calls):
    """Whether one program may make the calls: nothing looks on, and all inputs are plain tensors and numbers."""
    if state.active or op.checked is not None:
        return False
    return all([x.__class__ in KIND for inputs, _ in calls for x in inputs])


def _values(inputs):
    return tuple([value_of(x) if KIND[x.__class__] == 1 else x for x in inputs])


def _each(*rows, calls):
    """The kernels of the calls, each on its row of arrays and numbers."""
    return [op.forward(static)(*row) for (op, static), row in zip(calls, rows, strict=True)]


def _fused(op, calls, rows):
    """The values of all results, from one program; errors are those of the call that fails."""
    try:
        return fused.run(_each, (("calls", tuple([(op, static) for _, static in calls])),), *rows)
    except Exception:
        return [_alone(op, static, row) for (_, static), row in zip(calls, rows, strict=True)]


def _alone(op, static, values):
    kernel = op.kernels.get(static) or immediate.compiled(op, static)
    try:
        return immediate.run(op, static, values)
    except Exception as error:
        del kernel
        if on_several_devices(error):
            raise
        return translate(op, static, values, error)


def _computed(op, calls):
    """New tensors."""
    if not _together(op, calls):
        return [call(op, inputs, static) for inputs, static in calls]
    for inputs, _ in calls:
        for x in inputs:
            if KIND[x.__class__] == 1 and x._diff is not None and state.grad:
                refresh(x)
    try:
        results = _fused(op, calls, [_values(inputs) for inputs, _ in calls])
    except ValueError as error:
        if not on_several_devices(error):
            raise
        return [call(op, inputs, static) for inputs, static in calls]
    return [with_results(op, *made, value) for made, value in zip(calls, results, strict=True)]


def _written(op, calls):
    """The tensors of the first list, changed."""
    if not (_together(op, calls) and _independent(calls)):
        for inputs, static in calls:
            call_inplace(op, inputs, static)
        return None
    records = [check_writable(op.name, inputs[0], inputs) for inputs, _ in calls]
    if not any(records):
        _overwritten(op, calls)
        return None
    rows = [_values(inputs) for inputs, _ in calls]
    results = _fused(op, calls, rows)
    for (inputs, static), row, value, record in zip(calls, rows, results, records, strict=True):
        finish(op, inputs, static, row, value, record)
    return None


def _independent(calls):
    """Whether no call writes what another reads or writes."""
    writers = {id(inputs[0]._storage): i for i, (inputs, _) in enumerate(calls)}
    if len(writers) < len(calls):
        return False
    users = [(i, x) for i, (inputs, _) in enumerate(calls) for x in inputs if KIND[x.__class__] == 1]
    return all([writers.get(id(x._storage), i) == i for i, x in users]) and not met(users)


def _each_written(targets, others, *, calls):
    return [op.forward(static)(target, *row) for (op, static), target, row in zip(calls, targets, others, strict=True)]


@fused.in_turn
def _overwritten(op, calls):
    """The calls without history, in the memory of the old values where nobody else holds them."""
    targets = [inputs[0] for inputs, _ in calls]

    def keep(results):
        for t, value in zip(targets, results, strict=True):
            write(t, value)

    static = (("calls", tuple([(op, static) for _, static in calls])),)
    others = [list(_values(inputs[1:])) for inputs, _ in calls]
    trees = [[value_of(t) for t in targets], others]
    try:
        fused.replace(_each_written, static, (0,), trees, keep, wholes(targets))
    except Exception as error:
        if on_several_devices(error):
            for inputs, static in calls:
                call_inplace(op, inputs, static)
            return
        keep([_alone(op, static, _values(inputs)) for inputs, static in calls])


# -- copies and zeros: where places overlap, devices differ, or the result is to lie as the input -----------

_GENERAL = object()


def _cloned(form, given):
    tensors, memory_format = given
    if memory_format not in (None, preserve_format):
        return [clone(t, memory_format=memory_format) for t in tensors]
    results = _computed(form.target, form.calls([tensors, None]))
    for t, new in zip(tensors, results, strict=True):
        if t._view is not None and (strides := preserve_strides(t._view.layout)) != new.stride():
            restride(new, strides)
    return results


def _copied(form, given):
    targets, sources, _ = given
    return _written(form.target, form.calls([targets, [*map(source_of, targets, sources)], False]))


def _zeroed(form, given):
    if not any([t._view is not None and has_overlap(t._view.layout) for t in given[0]]):
        return _GENERAL
    for t in given[0]:
        t.zero_()
    return None


def _raised(form, given):
    """Powers by numbers: some have an operator of their own."""
    found = [
        (form.op, inputs, static) if isinstance(inputs[1], Tensor) else power_call(*inputs)
        for inputs, static in form.calls(given)
    ]
    if all([op is found[0][0] for op, *_ in found]):
        op, calls = found[0][0], [tuple(rest) for _, *rest in found]
        return _written(op.inplace, calls) if form.inplace else _computed(op, calls)
    if not form.inplace:
        return [call(*one) for one in found]
    for op, inputs, static in found:
        call_inplace(op.inplace, inputs, static)
    return None


_SPECIAL = {"clone": _cloned, "copy": _copied, "zero": _zeroed, "pow.Tensor_Scalar": _raised}

# -- the names -------------------------------------------------------------------------------------------


def _public(name, overloads):
    """The function of ``torch``: a tuple of new tensors, or the first list, changed."""

    def foreach(*args, **kwargs):
        form, given = _chosen(name, overloads, args, kwargs)
        results = _run(form, given)
        return given[0] if form.inplace else tuple(results)

    one = overloads[0].operator.partition(".")[0].lstrip("_")
    foreach.__name__ = foreach.__qualname__ = name
    foreach.__doc__ = f"``{one}`` of each tensor of a list, as one program. Schemas: " + "; ".join(
        [form.text for form in overloads]
    )
    return foreach


def _overload(form, *args, **kwargs):
    given = _placed(form.schema, args, kwargs)
    if given is None:
        raise _misfit(form.name, form.schema, args, kwargs)
    for arg, x in zip(form.schema.args, given, strict=True):
        if not _fits(arg, x):
            raise _misfit(form.name, form.schema, args, kwargs)
    return _run(form, _tensors_only(form, given))


FORMS = forms()
for _name, _overloads in FORMS.items():
    function(_name)(_public(_name, _overloads))
    for _form in _overloads:
        _tags = (Tag.inplace,) if _form.inplace else ()
        SOURCE.add(Overload(_form.text, functools.partial(functools.partial, _overload, _form), _tags))
