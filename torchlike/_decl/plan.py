"""Plans: how one call is differentiated. ``derive.py`` makes them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence

    import jax

    from torchlike._decl.derive import Derived, Kernel
    from torchlike._decl.typed import Aval, Avals, Forward, Indices, Static, Values


class Plan:
    """How one call is differentiated.

    Attributes:
        inputs, outputs: indices of the runtime inputs and of the results to save; their values,
            followed by the gradients of the differentiable outputs, are the arguments of ``kernel``.
        names: the ``_saved_<name>`` of each saved value.
        wanted: indices of the runtime inputs that receive a gradient, in order.
        tensors: indices of the runtime inputs that are tensors.
        outs: (shape, dtype) of every output; diff: indices of the differentiable ones.
        kernel: a :class:`Derived` operator, or None when every gradient is passed through.
        op, static, avals: the call that the plan is of. node_class: the class of its nodes, once made; make: what makes
            them, ``make(op, plan, inputs, outputs)``, once one has been made; back: what applies them,
            ``back(node, plan, grads, recorder)``, where it is not the node itself.
        arity: how many outputs its nodes expect gradients of: those up to the last differentiable one.
        route: None, or for each wanted input the index of the argument passed through
            (-1 - j: the kernel's j-th result; None: it gets no gradient at all, as the rank of a matrix).
        refusals: {position among the wanted: error} of those that have no derivative, while others have one.
        error: what a backward raises if its kernel's last result, which is no gradient, is true; see rules.checked.
        numbers: positions of the saved values that are number arguments, kept when the rest is freed.
        frees: whether a backward frees what is saved (it keeps mere numbers), once known.
        refuses: whether its backward raises, for want of a derivative.
        apart: positions of the saved inputs that are kept by value: what becomes of them is of no concern.
        shown: what nodes show as ``_saved_<name>``, once asked for.
        source: all gradients as a function of the kernel's arguments, and their shapes and dtypes; recipe: that as a
            jaxpr that keeps the names of words, once asked for; explicit: whether formulas were written for them.
        multiplies: whether there are matrix products of float32 among them, once asked for.
    """

    __slots__ = (
        "inputs", "outputs", "names", "wanted", "outs", "diff", "kernel", "route", "name", "tensors", "op", "static",
        "avals", "node_class", "make", "back", "arity", "saved_fields", "numbers", "apart", "refuses", "frees",
        "source", "recipe", "explicit", "multiplies", "refusals", "error",
    )  # fmt: skip

    kernel: Derived | None
    route: tuple[int | None, ...] | None
    refusals: dict[int, Exception] | None
    error: Exception | None
    op: Kernel | None
    node_class: Any
    make: Any
    back: Any
    saved_fields: dict[str, Any] | None
    frees: bool | None
    source: tuple[Forward, Sequence[Aval]] | None
    multiplies: bool | None
    numbers: Indices
    apart: Indices
    tensors: Indices
    static: Static
    avals: Avals

    def __init__(
        self,
        name: str,
        inputs: Indices,
        outputs: Indices,
        names: tuple[str, ...],
        wanted: Indices,
        outs: tuple[jax.ShapeDtypeStruct, ...],
        diff: Indices,
    ) -> None:
        self.name = name
        self.inputs, self.outputs, self.names = inputs, outputs, names
        self.wanted, self.outs, self.diff = wanted, outs, diff
        self.arity = diff[-1] + 1
        self.kernel = self.route = self.op = self.node_class = self.make = self.back = None
        self.saved_fields = self.frees = None
        self.source = self.recipe = self.multiplies = self.refusals = self.error = None
        self.explicit = False
        self.refuses = False
        self.tensors = self.static = self.avals = self.numbers = self.apart = ()

    def routed(self, arguments: Values, results: Values) -> Values:
        """All gradients: those the kernel computed and those passed through."""
        if self.route is None:
            return results
        return [None if r is None else arguments[r] if r >= 0 else results[-1 - r] for r in self.route]

    def examine(self, static: Static, values: Values) -> tuple[bool, Exception | None]:
        """What a value check says once its flag is true, as of operators."""
        return True, self.error

    def fulfilled(self) -> Indices:
        """The wanted inputs that get a gradient."""
        return tuple([i for i, r in zip(self.wanted, self.route or self.wanted, strict=True) if r is not None])
