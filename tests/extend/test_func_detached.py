"""What is detached inside of nested transforms stays so at every level below, and for the tape around them."""

import pytest
from both import agree

BODIES = {
    "itself": lambda v: v.detach() * v,
    "a result": lambda v: v.sin().detach() * v,
    "a view of it": lambda v: v.detach().flip(0)[:].view(3) * v,
    "a view before": lambda v: v.view(1, 3).detach()[0] * v,
    "a copy": lambda v: v.detach().clone() * v,
    "with more": lambda v: v * v.detach() + v.prod(),
}
NESTS = ["gg", "vg", "vr", "vv", "jg", "gf", "vgr", "ggg", "mg", "gmg"]


def nested(t, f, nest):
    F = t.func
    for letter in nest:
        f = {
            "g": lambda x, f=f: F.grad(lambda v: (f(v) ** 2).sum())(x),
            "v": lambda x, f=f: (lambda out, back: back(out)[0])(*F.vjp(f, x)),
            "r": lambda x, f=f: F.jacrev(f)(x).sum(0),
            "f": lambda x, f=f: F.jacfwd(f)(x).sum(0),
            "j": lambda x, f=f: F.jvp(f, (x,), (x.cos(),))[1],
            "m": lambda x, f=f: t.vmap(f)(t.stack([x, x * 2]))[1],
        }[letter]
    return f


@pytest.mark.parametrize("nest", NESTS)
@pytest.mark.parametrize("body", BODIES)
def test_every_level_is_cut_off(body, nest):
    def run(t):
        x = t.tensor([0.7, -0.4, 1.1], dtype=t.float64, requires_grad=True)
        y = nested(t, BODIES[body], nest)(x)
        return y.detach(), y.requires_grad, t.autograd.grad(y.sum(), x)[0] if y.requires_grad else None

    agree(run)
