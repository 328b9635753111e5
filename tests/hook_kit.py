"""Modules with hooks, and what the hooks saw, for the tests of hooks."""

import warnings

from both import attempt, plain

FULL, PRE, LAST = "register_full_backward_hook", "register_full_backward_pre_hook", "register_backward_hook"
KINDS = [FULL, PRE, LAST]


def module(T, f):
    """A module that computes ``f``."""

    class Computes(T.nn.Module):
        def forward(self, *args, **kwargs):
            return f(*args, **kwargs)

    return Computes()


def leaf(T, n=2):
    return T.arange(1.0, n + 1, requires_grad=True)


def logged(m, *kinds, log=None):
    """``m`` with hooks that log what they get; and the log."""
    log = [] if log is None else log
    for kind in kinds or (PRE, FULL):
        if kind == PRE:
            m.register_full_backward_pre_hook(lambda m, go: log.append(("pre", go)))
        else:
            getattr(m, kind)(lambda m, gi, go: log.append((gi, go)))
    return m, log


def tensors(x):
    """The tensors in nested containers that require grad."""
    if isinstance(x, dict):
        x = list(x.values())
    if isinstance(x, tuple | list):
        return [t for v in x for t in tensors(v)]
    return [x] if getattr(x, "requires_grad", False) else []


def total(x):
    return sum((t * t).sum() for t in tensors(x))


def messages(f):
    """The result of ``f()`` (or its error, as text) and the texts of its warnings."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        got = attempt(f)
    return str(got) if isinstance(got, Exception) else got, [(w.category.__name__, str(w.message)) for w in caught]


class Log(list):
    """What ran, in order. Its methods make hooks of each kind, which log themselves under a name."""

    def note(self, *seen):
        self.append(plain(seen))  # at once: a gradient may be changed in place later

    def tensor(self, name, result=None):
        return lambda g: self.note(name, g) or (None if result is None else result(g))

    def pre(self, name, result=None):
        return lambda gs: self.note(name, gs) or (None if result is None else result(gs))

    def post(self, name, result=None):
        return lambda gi, go: self.note(name, gi, go) or (None if result is None else result(gi))

    def leaf(self, name):
        return lambda t: self.note(name, t.grad)

    def all(self, t, name):
        """One hook of each kind on ``t`` and its node, in an order other than that in which they run."""
        node = accumulator(t) if t.is_leaf else t.grad_fn
        node.register_hook(self.post(f"{name} post"))
        node.register_prehook(self.pre(f"{name} pre"))
        t.register_hook(self.tensor(f"{name} tensor"))
        if t.is_leaf:
            t.register_post_accumulate_grad_hook(self.leaf(f"{name} accumulated"))
        return t


def accumulator(t):
    """The node that adds to the gradient of the leaf ``t``."""
    return t.view_as(t).grad_fn.next_functions[0][0]
