"""``out=`` where something requires grad: refused, unless no gradient could flow through the operator."""

import pytest
from both import agree, attempt


def leaf(t):
    return t.ones(2, requires_grad=True)


# Where no gradient flows: (operator, input, output).
NEVER = {
    "comparison into a leaf": (lambda t, a, z: t.eq(a, a, out=z), lambda t: t.ones(2), leaf),
    "comparison of a leaf": (lambda t, a, z: t.gt(a, 0, out=z), leaf, lambda t: t.ones(2, dtype=t.bool)),
    "into a result": (lambda t, a, z: t.eq(a, a, out=z), lambda t: t.ones(2), lambda t: leaf(t) * 2),
    "logical": (lambda t, a, z: t.logical_and(a, a, out=z), lambda t: t.ones(2), leaf),
    "indices": (lambda t, a, z: t.argmax(a, out=z), leaf, lambda t: t.tensor(0)),
    "all": (lambda t, a, z: t.all(a, dim=0, out=z), leaf, lambda t: t.tensor(True)),
}
REFUSED = {
    "into a leaf": (lambda t, a, z: t.add(a, 1, out=z), lambda t: t.ones(2), leaf),
    "of a leaf": (lambda t, a, z: t.add(a, 1, out=z), leaf, lambda t: t.ones(2)),
    "a slope of zero": (lambda t, a, z: t.floor(a, out=z), leaf, lambda t: t.ones(2)),
    "integers into a leaf": (lambda t, a, z: t.add(a, 1, out=z), lambda t: t.ones(2, dtype=t.int64), leaf),
}


@pytest.mark.parametrize(("op", "make", "out"), [*NEVER.values(), *REFUSED.values()], ids=[*NEVER, *REFUSED])
def test_out(op, make, out):
    def run(t):
        a, z = make(t), out(t)
        return attempt(lambda: op(t, a, z)) if z.requires_grad else attempt(lambda: op(t, a, z) is z), z, z._version

    agree(run)
