"""The text of a tensor with a mask: dashes where it is False."""

_LEAST = 8  # the width of dashes


def _word(value):
    return f"{value:8.4f}" if isinstance(value, float) else str(value)


def _nested(values, mask, dashes):
    """Lines of nested lists, each level two spaces deeper."""
    if values and not isinstance(values[0], list):
        return ["[" + ", ".join([_word(v) if m else dashes for v, m in zip(values, mask, strict=True)]) + "]"]
    lines = []
    for v, m in zip(values, mask, strict=True):
        inner = _nested(v, m, dashes)
        lines += ["  " + line for line in inner[:-1]] + ["  " + inner[-1] + ","]
    if lines:
        lines[-1] = lines[-1][:-1]
    return ["[", *lines, "]"] if lines else ["[]"]


def _words(values):
    return [w for v in values for w in _words(v)] if isinstance(values, list) else [_word(values)]


def text(data, mask):
    """The text of a tensor's values, of which those count where ``mask`` is True."""
    values, shown = data.tolist(), mask.tolist()
    if not isinstance(values, list):
        return f"MaskedTensor({_word(values) if shown else '--'}, {shown})"
    width = max([_LEAST, *map(len, _words(values))])
    lines = _nested(values, shown, "--".rjust(width))
    return "\n".join(["MaskedTensor(", *["  " + line for line in lines], ")"])
