"""Nested tensors of both libraries, and what is compared of them."""

import re


def rows(t, *lengths, width=3, grad=False):
    """Rows [length, width] of different numbers."""
    found = [t.arange(float(n * width)).reshape(n, width) / 4 - n for n in lengths]
    return [row.requires_grad_() for row in found] if grad else found


def jagged(t, *lengths, grad=False, **kwargs):
    """A leaf of layout ``torch.jagged``."""
    return t.nested.nested_tensor(rows(t, *(lengths or (2, 1, 4))), layout=t.jagged, requires_grad=grad, **kwargs)


def strided(t, *lengths, grad=False):
    """A leaf of layout ``torch.strided``."""
    return t.nested.nested_tensor(rows(t, *(lengths or (2, 1, 4))), layout=t.strided, requires_grad=grad)


def told(x):
    """What is compared of a result: of nested ones the text of the shape, without numbers of symbols, and the rows."""
    if isinstance(x, tuple | list):
        return [told(y) for y in x]
    if not getattr(x, "is_nested", False):
        return x
    shape = re.sub(r"j\d+", "j", str(tuple(x.shape))) if "jagged" in str(x.layout) else x._nested_tensor_size()
    values = (
        [row.detach() for row in x.unbind()] if x.layout.__str__() == "torch.strided" or x.lengths() is None else []
    )
    return shape, str(x.layout), str(x.dtype), x.requires_grad, values
