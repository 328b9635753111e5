"""The kinds of control flow, each around a body that a test gives."""

import torch as pytorch


def flow(t, name):
    home = t._higher_order_ops
    return pytorch.cond if t is pytorch and name == "cond" else getattr(home, name)


KINDS = {
    "taken": lambda t, body, x: flow(t, "cond")(x.sum() > 0, body, lambda a: a * 3, (x.sum(),)),
    "left out": lambda t, body, x: flow(t, "cond")(x.sum() < 0, body, lambda a: a * 3, (x.sum(),)),
    "while": lambda t, body, x: flow(t, "while_loop")(
        lambda i, a: i < 3, lambda i, a: (i + 1, body(a)), (t.tensor(0), x.sum())
    ),
    "scan": lambda t, body, x: flow(t, "scan")(lambda c, a: (c + a, body(a)), t.zeros(()), x),
    "map": lambda t, body, x: flow(t, "map")(body, x),
    "nested": lambda t, body, x: flow(t, "cond")(
        x.sum() > 0, lambda a: flow(t, "cond")(a > 0, body, lambda b: b * 5, (a,)), lambda a: a * 3, (x.sum(),)
    ),
}  # fmt: skip
KINDS["associative"] = lambda t, body, x: flow(t, "associative_scan")(
    lambda a, b: body(a) + b, x, 0, combine_mode="generic"
)
CAPTURED = [kind for kind in KINDS if kind != "associative"]
