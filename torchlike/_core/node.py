"""Nodes: what a recorded call keeps for its backward."""

import itertools
import weakref

from torchlike._core.hooks import RemovableHandle
from torchlike._core.tensor import alias, value_of, wrap
from torchlike._executor import immediate

_sequence = itertools.count()
LEAF_SEQUENCE = 1 << 62  # accumulations run as soon as they are ready
NOWHERE = (None, 0)  # the edge of a view that requires grad only because its base does


class Node:
    """A step of the backward graph.

    ``edges``: (node, output number) for each gradient that ``apply`` gives, None where nothing
    follows. ``seq``: creation order; the engine runs later nodes first. ``_ex``: hooks and other
    extras, or None.
    """

    __slots__ = ("edges", "seq", "_ex", "__weakref__")
    python = False  # whether the backward is Python code over tensors
    simple = False  # whether the backward is a plan, whose outputs all have a gradient or zeros
    arity = 1  # how many outputs the recorded call had

    namespace = ""

    def name(self):
        """The name that users see, ``MulBackward0``."""
        return self.namespace + type(self).__name__

    def title(self):
        """What messages call the node: ``Mul``."""
        return type(self).__name__.rstrip("0123456789").removesuffix("Backward")

    def _sequence_nr(self):
        """The number of the node in order of creation (per process)."""
        return self.seq

    @property
    def next_functions(self):
        """((node, output number), ...) for each differentiable input."""
        return tuple((None, 0) if e is None else e for e in self.edges)

    @property
    def metadata(self):
        return self.extra("metadata", dict)

    def extra(self, key, make):
        """A rarely used attribute, made on first use."""
        if self._ex is None:
            self._ex = {}
        if key not in self._ex:
            self._ex[key] = make()
        return self._ex[key]

    def outs(self):
        """(shape, dtype) of each output."""
        raise NotImplementedError

    def is_plain_sink(self):
        """Whether the node only adds to a leaf, with no hooks to run."""
        return False

    def register_hook(self, hook):
        """Call ``hook(grad_inputs, grad_outputs)`` after the node has run; what it returns replaces the former.

        Returns a handle with ``remove()``.
        """
        return RemovableHandle.add(self.extra("hooks", dict), hook)

    def register_prehook(self, hook):
        """Call ``hook(grad_outputs)`` before the node runs; what it returns replaces them."""
        return RemovableHandle.add(self.extra("prehooks", dict), hook)

    def __repr__(self):
        return f"<{type(self).__name__} object at {hex(id(self))}>"


class OpNode(Node):
    """The node of an operator call: its plan, and the values the plan saves.

    ``saved`` holds tensors (or numbers), ``versions`` the version each had (None for a number).
    After ``release`` both are None.
    """

    __slots__ = ("plan", "saved", "versions", "arity")
    simple = True

    @property
    def next_functions(self):
        plan = self.plan
        by_input = dict(zip(plan.wanted, self.edges, strict=True))
        return tuple(by_input.get(i, (None, 0)) or (None, 0) for i in plan.tensors)

    def __getattr__(self, attribute):
        """``_saved_<name>``: a saved value, as a tensor with its history."""
        name = attribute.removeprefix("_saved_")
        if name == attribute or name not in self.plan.names:
            raise AttributeError(f"'{self.name()}' object has no attribute '{attribute}'")
        if self.saved is None:
            raise RuntimeError(FREED)
        return self.tensors()[self.plan.names.index(name)]

    def outs(self):
        return self.plan.outs

    def release(self):
        """Free the saved values; a node that saves numbers only can run again."""
        if self.saved and (any(v is not None for v in self.versions) or self._saves_operands()):
            self.saved = self.versions = None

    def _saves_operands(self):
        """Whether a number stands for a saved tensor, as in ``x * 2``."""
        return any(i in self.plan.tensors for i in self.plan.inputs)

    def values(self):
        """The saved values, after the version check."""
        saved, versions = self.saved, self.versions  # another thread may free them meanwhile
        if saved is None or versions is None:
            raise RuntimeError(FREED)
        got = []
        for t, version in zip(saved, versions, strict=True):
            if version is None:
                got.append(t)
            elif t._vc.version != version:
                raise RuntimeError(_modified(self, t, version))
            elif t._view is None:
                got.append(t._storage.value)
            else:
                got.append(value_of(t))
        return got

    def _saved_tensors(self):
        return [s for s, version in zip(self.saved, self.versions, strict=True) if version is not None]

    def tensors(self, made_by=None):
        """The saved values as tensors with history, for ``create_graph``.

        ``made_by``: the edge of saved results, where that is not this node.
        """
        self.values()
        if any(s._ex and s._ex.get("detached", 0) > self.seq for s in self._saved_tensors()):
            raise RuntimeError(DETACHED)
        n = len(self.plan.inputs)
        out = list(self.saved[:n])
        for index, shell in zip(self.plan.outputs, self.saved[n:], strict=True):
            t = alias(shell)
            if index in self.plan.diff:
                t._edge, t._rg = made_by or (self, index), True
            out.append(t)
        return out

    def apply(self, grads):
        """Gradients of the inputs (values) from those of the outputs (values or None)."""
        plan = self.plan
        arguments = self.values() if self.saved != [] else []
        for i in plan.diff:
            grad = grads[i]
            arguments.append(_zeros(plan.outs[i]) if grad is None else grad)
        results = ()
        if plan.kernel is not None:
            compiled = plan.kernel.kernels.get(()) or immediate.compiled(plan.kernel, ())
            try:
                results = compiled(*arguments)
            except TypeError:
                results = immediate.run(plan.kernel, (), arguments)
        return results if plan.route is None else plan.routed(arguments, results)

    def apply_tensors(self, grads, call, made_by=None):
        """As ``apply``, on tensors through ``call``: the gradients have history themselves."""
        plan = self.plan
        saved = self.tensors(made_by)
        for i in plan.diff:
            saved.append(wrap(_zeros(plan.outs[i])) if grads[i] is None else grads[i])
        out = call(plan.kernel, tuple(saved), ()) if plan.kernel else ()
        return out if plan.route is None else plan.routed(saved, out)


FREED = (
    "Trying to backward through the graph a second time (or directly access saved tensors after they have already "
    "been freed). Saved intermediate values of the graph are freed when you call .backward() or autograd.grad(). "
    "Specify retain_graph=True if you need to backward through the graph a second time or if you need to access "
    "saved tensors after calling backward."
)


DETACHED = (
    "Trying to use a saved tensor that has been detached in-place, i.e. with .detach_(). This is not supported, please "
    "use out-of-place .detach() instead"
)


def _zeros(out):
    return immediate.zeros(out.shape, out.dtype)


def _modified(node, t, version):
    kind = f"torch.{t.dtype.scalar_name}Tensor"
    return (
        "one of the variables needed for gradient computation has been modified by an inplace operation: "
        f"[{kind} {list(t.shape)}]{_producer(node, t)} is at version {t._vc.version}; expected version {version} "
        "instead. Hint: enable anomaly detection to find the operation that failed to compute its gradient, with "
        "torch.autograd.set_detect_anomaly(True)."
    )


def _producer(node, t):
    """Which output of which node a saved tensor is, if any."""
    maker, nr = t._edge or NOWHERE
    own = [i for i, s in zip(node.plan.outputs, node.saved[len(node.plan.inputs) :], strict=True) if s is t]
    if own:
        maker, nr = node, own[0]
    return "" if maker is None else f", which is output {nr} of {maker.title()},"


class AccumulateGrad(Node):
    """The sink of a leaf: adds what arrives to ``variable.grad``."""

    __slots__ = ("variable",)
    namespace = "torch::autograd::"

    def __init__(self, variable):
        self.variable = variable
        self.edges = ()
        self.seq = LEAF_SEQUENCE + next(_sequence)
        hooks = (variable._ex or {}).get("tensor_hooks")
        self._ex = {"tensor_hooks": hooks} if hooks else None

    def outs(self):
        return (self.variable_meta(),)

    def is_plain_sink(self):
        t = self.variable
        return t._rg and t._ex is None

    def variable_meta(self):
        t = self.variable
        return immediate.Abstract(tuple(t.shape), t.dtype.np)


def accumulator(t):
    """The leaf's AccumulateGrad, one as long as a graph holds it."""
    ref = t._acc
    node = ref() if ref is not None else None
    if node is None:
        node = AccumulateGrad(t)
        t._acc = weakref.ref(node)
    return node


_classes: dict = {}


def node_class(name):
    """The class of nodes called ``name``; one per name."""
    found = _classes.get(name)
    if found is None:
        found = _classes[name] = type(name, (OpNode,), {"__slots__": ()})
    return found


def make(op, plan, edges, saved, versions):
    """A new node for one recorded call of ``op``."""
    cls = op.node_class
    if cls is None:
        cls = op.node_class = node_class(op.node + "0" if op.node.endswith("Backward") else op.node)
    node = cls()
    node.plan, node.edges, node.saved, node.versions = plan, edges, saved, versions
    node.arity = len(plan.outs)
    node.seq = next(_sequence)
    node._ex = None
    return node


def next_sequence():
    """The creation number of a new node."""
    return next(_sequence)


def edge_of(t):
    """Where the gradient of ``t`` goes: (node, output number), or None."""
    edge = t._edge
    if edge is not None:
        return edge
    return (accumulator(t), 0) if t._rg else None


def is_leaf(t):
    """Whether no node made ``t`` (a view of a base that requires grad may have none)."""
    return t._edge is None or t._edge is NOWHERE


def retained(t):
    """Whether ``t``, which is no leaf, keeps its gradient."""
    node, nr = t._edge
    ref = (node._ex or {}).get("retains", {}).get(nr)
    return ref is not None and ref() is t


def retain(t):
    """Keep the gradient of ``t``, which is no leaf, in ``t.grad``."""
    node, nr = t._edge
    node.extra("retains", dict)[nr] = weakref.ref(t)


def new_history(t, edge):
    """Give ``t`` another edge; a kept gradient is that of the new value."""
    old = t._edge
    keeps = old is not None and old[0] is not None and old[0]._ex is not None and retained(t)
    if keeps:
        del old[0]._ex["retains"][old[1]]
    t._edge, t._rg = edge, True
    if keeps:
        retain(t)
