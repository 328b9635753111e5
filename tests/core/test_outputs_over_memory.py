"""``out=`` of another shape than the result: it takes its shape where its memory is, which others may show."""

import pytest
from both import agree

LONG = "int64"


def _into(write, start=1, stop=3, dtype="float32"):
    """What a base holds, and how the part of it that was given as ``out`` lies, after the write."""

    def program(t):
        base = t.zeros(12, dtype=getattr(t, dtype))
        part = base[start:stop]
        write(t, part)
        return base, part, part.stride(), part.storage_offset(), part._version, base._version

    return program


CASES = {
    "pointwise": _into(lambda t, o: t.add(t.arange(4.0), 1, out=o)),
    "of no elements": _into(lambda t, o: t.mul(t.ones(2, 2), 7, out=o), 3, 3),
    "fewer elements": _into(lambda t, o: t.sum(t.ones(2, 3), 0, out=o), 2, 8),
    "as many elements": _into(lambda t, o: t.add(t.arange(6.0).view(2, 3), 1, out=o), 2, 8),
    "columns": _into(lambda t, o: t.add(t.arange(6.0).view(2, 3).t(), 1, out=o)),
    "product": _into(lambda t, o: t.mm(t.arange(6.0).view(2, 3).t(), t.ones(2, 2), out=o), 2, 8),
    "joined": _into(lambda t, o: t.cat([t.ones(2), t.zeros(1)], out=o)),
    "two": _into(lambda t, o: t.sort(t.tensor([3.0, 1.0, 2.0]), out=(o, t.zeros(0, dtype=t.int64)))),
    "indices": _into(lambda t, o: t.nonzero(t.tensor([[1, 0], [1, 1]]), out=o), dtype=LONG),
    "numbers": _into(lambda t, o: t.arange(4, out=o)),
    "filled": _into(lambda t, o: t.full((3,), 7.0, out=o)),
    "inverse": _into(lambda t, o: t.linalg.inv(t.eye(2) * 2, out=o)),
    "composite": _into(lambda t, o: t.tensordot(t.ones(2, 2), t.ones(2, 2), 1, out=o)),
    "selected": _into(lambda t, o: t.masked_select(t.arange(4.0), t.arange(4) != 2, out=o)),
    "overload": _into(lambda t, o: t.ops.aten.view_copy.out(t.arange(4.0), [2, 2], out=o)),
    "drawn": _into(lambda t, o: t.normal(t.arange(3.0), t.zeros(3), out=o)),
}


@pytest.mark.parametrize("name", CASES)
def test_memory_of_others_is_written(name):
    agree(CASES[name])


@pytest.mark.parametrize(
    "shown",
    [
        lambda t, b: b.view(3, 4),
        lambda t, b: b.view(3, 4).t(),
        lambda t, b: t._neg_view(b[1:3]),
        lambda t, b: b[1:3].view(t.int32).view(t.float32),
        lambda t, b: b.view(3, 4)[:, :3].diagonal(),
        lambda t, b: b[:2].detach(),
        lambda t, b: b[:2].data,
    ],
    ids=["other shape", "transposed", "negated", "other dtype", "diagonal", "detached", "data"],
)
def test_each_kind_of_view(shown):
    def program(t):
        base = t.arange(12.0)
        part = shown(t, base)
        t.add(t.arange(4.0).view(2, 2), 5, out=part)
        part[0] *= 2
        return base, part

    agree(program)


def test_memory_of_numpy():
    def program(t):
        base = t.arange(6.0)
        seen = base.numpy()
        t.add(t.ones(3), 1, out=base[2:])
        t.add(t.ones(3), 3, out=base)
        return base, seen.tolist()

    agree(program)
