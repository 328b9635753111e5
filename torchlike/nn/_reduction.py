"""How losses are reduced: the names, and the numbers that operators take for them."""

import warnings

NUMBERS = {"none": 0, "mean": 1, "sum": 2}


def get_enum(reduction: str) -> int:
    """The number of a reduction; ``elementwise_mean`` is an old name of ``mean``.

    Raises:
        ValueError: there is no such reduction.
    """
    return number_of(reduction, 3)


def number_of(reduction: str, stacklevel: int) -> int:
    """As :func:`get_enum`; ``stacklevel``: of the warning."""
    found = NUMBERS.get(reduction) if isinstance(reduction, str) else None
    if found is None:
        if reduction != "elementwise_mean":
            raise ValueError(f"{reduction} is not a valid value for reduction: use 'none', 'mean' or 'sum'")
        warnings.warn(
            "reduction='elementwise_mean' is deprecated. Please use reduction='mean' instead.", stacklevel=stacklevel
        )
        return NUMBERS["mean"]
    return found


def legacy_get_string(
    size_average: bool | None, reduce: bool | None, emit_warning: bool = True, stacklevel: int = 2
) -> str:
    """The reduction that the arguments of old, ``size_average`` and ``reduce``, mean (None counts as true)."""
    mean, each = size_average is None or bool(size_average), reduce is None or bool(reduce)
    name = "none" if not each else "mean" if mean else "sum"
    if emit_warning:
        warnings.warn(
            f"size_average and reduce args will be deprecated, please use reduction='{name}' instead.",
            stacklevel=stacklevel,
        )
    return name


def legacy_get_enum(size_average: bool | None, reduce: bool | None, emit_warning: bool = True) -> int:
    """As :func:`legacy_get_string`, the number."""
    return get_enum(legacy_get_string(size_average, reduce, emit_warning, 3))
