"""torch.fx.experimental.proxy_tensor: graphs of the aten calls that a function makes, its backward included."""

from __future__ import annotations

import contextlib
import inspect
import weakref
from collections.abc import Callable, Iterator
from typing import Any

from torchlike._aten.packets import OpOverload, ops
from torchlike._aten.python_dispatch import modes_set_to
from torchlike._aten.tags import Tag
from torchlike._base.state import state
from torchlike._core.conversion.factories import empty_strided
from torchlike._core.tensor.storage import CAPTURES, Outer
from torchlike._core.tensor.tensor import Tensor, value_of
from torchlike._executor.sparse import SparseValue
from torchlike._functions.generator import default_generator
from torchlike._transforms.levels.inspection import batch_of
from torchlike.fx._qualified import PACKAGE
from torchlike.fx._symbolic_trace import PH, Tracer
from torchlike.fx.graph_module import GraphModule
from torchlike.fx.node import Argument, Node
from torchlike.fx.passes.shape_prop import _extract_tensor_metadata
from torchlike.fx.proxy import Proxy
from torchlike.interop.alias import missing_names
from torchlike.nn.modules.module import Module
from torchlike.nn.parameter import Parameter
from torchlike.utils._python_dispatch import TorchDispatchMode
from torchlike.utils._pytree import tree_leaves, tree_map, tree_map_only

__all__ = ["PythonKeyTracer", "dispatch_trace", "get_innermost_proxy_mode", "get_proxy_mode", "make_fx"]

__getattr__ = missing_names(__name__)


_READ = "It appears that you're trying to get value out of a tracing tensor with {}: "


class PythonKeyTracer(Tracer):
    """The tracer of :func:`make_fx`: modules are looked into, and their parameters become constants of the graph."""

    def __init__(self) -> None:
        super().__init__(autowrap_modules=())

    def call_module(self, m: Module, forward: Callable, args: tuple, kwargs: dict[str, Any]) -> Any:
        """The module is run."""
        return forward(*args, **kwargs)

    def getattr(self, attr: str, attr_val: Any, parameter_proxy_cache: dict[str, Proxy]) -> Any:
        """What the module has."""
        return attr_val

    def create_arg(self, a: Any) -> Argument:
        """As :meth:`torch.fx.Tracer.create_arg`; parameters become attributes of the root too."""
        made = self._attribute_of(a) if isinstance(a, Tensor) else super().create_arg(a)
        if isinstance(a, Tensor) and isinstance(made, Node):
            made.meta["val"] = _without_numbers(a)
        return made

    def _attribute_of(self, a: Tensor) -> Argument:
        if isinstance(a, Parameter):
            for name, p in self.root.named_parameters():
                if a is p:
                    return self.create_node("get_attr", name, (), {})
            name = self.get_fresh_qualname("_param_constant")
            setattr(self.root, name, a)
            return self.create_node("get_attr", name, (), {})
        return super().create_arg(a)


class ProxyTorchDispatchMode(TorchDispatchMode):
    """Adds a step for each aten call to the graph of a tracer.

    Args:
        tracer: a :class:`PythonKeyTracer`. tracing_mode: "real" or "fake".
        decompositions: functions by operator that are run, and traced, in its place.
    """

    writes = "make_fx"  # what a collective of several processes refuses
    keeps = False  # results for anybody: .grad may be one of them

    def __init__(self, tracer: PythonKeyTracer, tracing_mode: str = "real", decompositions: dict | None = None) -> None:
        super().__init__()
        self.tracer, self.tracing_mode, self.decompositions = tracer, tracing_mode, decompositions or {}
        # By identity of the tensor, and of its storage and view, which aliases of it share. Both are kept, so that
        # nothing else comes to have their identity.
        self.proxies: dict[Any, tuple[Tensor, Any, Proxy]] = {}
        self.values: dict[int, tuple[Tensor, Any, Proxy]] = {}  # by identity of the array
        self.drawn, self.draws = default_generator.get_state(), 0
        self.storages: dict[int, Any] = {}  # of what has a proxy
        self.born: weakref.WeakSet = weakref.WeakSet()  # storages that came to be while this traces
        self.calls: dict[str, tuple[Any, list, list]] = {}  # (results, tensors, their versions) by what was called
        self.recalls = False
        self.expected: weakref.WeakSet = weakref.WeakSet()
        self.copies: dict[int, tuple[Tensor, Tensor, int | None]] = {}  # (copy, of what, its version) by identity

    # -- what happens without a call ----------------------------------------------------------------------------

    def made(self, storage: Any) -> None:
        """Note a new storage: what it holds may follow from the arguments, so it can be no constant."""
        self.born.add(storage)

    def kept(self, copy: Tensor, t: Tensor) -> None:
        """Note that ``copy`` was saved in place of ``t``, which later changes of ``t`` do not reach."""
        self.copies[id(copy)] = copy, t, _version(t)

    def same(self, t: Tensor, other: Tensor) -> None:
        """Note that what stands for ``other`` stands for ``t`` too."""
        if isinstance(proxy := self.proxy_of(other), Proxy):
            self.track(t, proxy)

    def known(self, t: Tensor) -> Tensor:
        """``t``, which was made of numbers alone, and is a constant."""
        self.born.discard(t._storage)
        return t

    def expect(self, storage: Any) -> None:
        """Note that a call which was shown has changed ``storage``, although it is written after it."""
        self.expected.add(storage)

    def read(self, t: Tensor) -> None:
        """Refuse that values which may follow from the arguments become numbers of Python."""
        if self not in state.dispatch_modes or not self._follows(t):
            return
        found = self._found(t)
        if found is None or not _is_constant(found.node):
            raise RuntimeError(_READ.format("its values") + "numbers of Python would be constants of the graph")

    def wrote(self, storage: Any) -> None:
        """Refuse a change that no call made, of what was there before or is known to the graph."""
        if storage in self.expected:
            self.expected.discard(storage)
        elif self in state.dispatch_modes and (storage not in self.born or id(storage) in self.storages):
            raise NotImplementedError(
                "make_fx: a tensor is changed by what is no aten call here (a step that is taken at once for many "
                "tensors), and the graph would not change it; leave that part out of the trace"
            )

    def _follows(self, t: Tensor) -> bool:
        """Whether the values of ``t`` may follow from the arguments: it is none that was there before."""
        return id(t._storage) in self.storages or t._storage in self.born

    # -- tensors and what stands for them -----------------------------------------------------------------------

    def track(self, value: Any, proxy: Proxy) -> None:
        """Have ``proxy`` stand for a tensor, or its items for those of a list."""
        if isinstance(value, Tensor):
            kept = (value, (value._storage, value._view), proxy)
            self.proxies[id(value)] = self.proxies[_place(value)] = kept
            if value._storage in self.born:  # a view of a constant makes that no result
                self.storages[id(value._storage)] = value._storage
            if not isinstance(value._storage.form, SparseValue | Outer):
                array = value_of(
                    value
                )  # which has what stands for it in a function that is differentiated, or is saved
                self.values[id(array)] = (value, array, proxy)
            _describe(proxy, value)
        elif isinstance(value, tuple | list):
            proxy.node.meta["val"] = tree_map_only(Tensor, _without_numbers, value)
            for i, item in enumerate(value):
                if isinstance(item, Tensor | tuple | list):
                    self.track(item, proxy[i])

    def proxy_of(self, value: Any) -> Any:
        """What stands for a tensor; itself for a constant, and for everything else."""
        if not isinstance(value, Tensor):
            return value
        found = self._found(value)
        if found is None and id(value) in self.copies:
            _, t, version = self.copies[id(value)]
            if _version(t) == version:
                return self.proxy_of(t)
        if found is None and self._follows(value):
            self.demand_no_draws()
            raise NotImplementedError(
                f"make_fx: a tensor of shape {list(value.shape)} was made by what is no aten call here, and would be a "
                "constant of the graph; write it with operators that are, or leave that part out of the trace"
            )
        return value if found is None else found

    def _found(self, value: Tensor) -> Proxy | None:
        found = self.proxies.get(id(value)) or self.proxies.get(_place(value))
        if found is None and value._view is None:
            found = self.values.get(id(value._storage.value))
            if found is not None and value_of(found[0]) is not found[1]:  # written to since
                found = None
        return None if found is None else found[2]

    def __torch_dispatch__(self, func: OpOverload, types: Any, args: tuple = (), kwargs: dict | None = None) -> Any:
        kwargs = kwargs or {}
        self.note_draws()
        if self.draws and Tag.nondeterministic_seeded in func.tags:
            self.draws -= 1
        rule = self.decompositions.get(func)
        if rule is not None:
            with self:
                out = rule(*args, **kwargs)
            if out is not NotImplemented:
                return out
        self._refuse(func, args, kwargs)
        if Tag.data_dependent_output in func.tags:  # numbers of Python
            return self._number(func, args, kwargs)
        if func is ops.aten.lift_fresh.default:
            self.known(args[0])
        target = ops.aten.lift_fresh_copy.default if func is ops.aten.lift_fresh.default else func
        proxied = tree_map(self.proxy_of, (args, kwargs))
        key = self._key(target, proxied)
        if self.recalls and (out := self._recalled(key)) is not None:
            return out
        name = self.tracer.graph._target_to_str(target.overloadpacket.__name__)
        proxy = self.tracer.create_proxy("call_function", target, proxied[0], proxied[1], name=name)
        out = target(*args, **kwargs)  # a copy of a constant too: what is written to it is no part of the constant
        self.track(out, proxy)
        self._remember(key, out, (args, kwargs))
        with disable_proxy_modes_tracing():
            self.drawn = default_generator.get_state()
        return out

    def _number(self, func: OpOverload, args: tuple, kwargs: dict) -> Any:
        """What Python reads of constants; RuntimeError where a tensor of the graph takes part."""
        proxies = [p for p in map(self.proxy_of, tree_leaves((args, kwargs))) if isinstance(p, Proxy)]
        if all([_is_constant(p.node) for p in proxies]):
            return func(*args, **kwargs)
        raise RuntimeError(
            _READ.format(func) + "control flow, or a number, depends on a value, which a graph does not have. "
            "Compute it with tensors (torch.where)"
        )

    # -- what a derivative needs of the forward ------------------------------------------------------------------

    @contextlib.contextmanager
    def recalling(self) -> Iterator[None]:
        """A context in which a call that was made before, of what has not changed since, is the step that it was."""
        before, self.recalls = self.recalls, True
        try:
            with modes_set_to((self,)):
                yield
        finally:
            self.recalls = before

    def _key(self, target: OpOverload, proxied: Any) -> str | None:
        """The same for the same call of the same steps; None for one that changes or draws something."""
        if (
            target._schema.is_mutable
            or Tag.nondeterministic_seeded in target.tags
            or any(isinstance(x, Tensor) for x in _flat(proxied))
        ):
            return None
        return f"{target}{proxied}"

    def _remember(self, key: str | None, out: Any, given: Any) -> None:
        if key is not None:
            tensors = [t for t in _flat((given, out)) if isinstance(t, Tensor)]
            self.calls[key] = out, tensors, list(map(_version, tensors))

    def _recalled(self, key: str | None) -> Any:
        out, tensors, versions = self.calls.get(key or "", (None, [], []))
        return out if list(map(_version, tensors)) == versions else None

    def note_draws(self) -> None:
        """Count one more draw if there was one since the last call: that of the next random one, usually."""
        with disable_proxy_modes_tracing():
            now = default_generator.get_state()
            self.draws += not self.drawn.equal(now)
            self.drawn = now

    def demand_no_draws(self) -> None:
        """Refuse random numbers that no call has drawn: they would be constants of the graph."""
        self.note_draws()
        if self.draws:
            raise NotImplementedError(
                "make_fx: random numbers under torch.func.vmap or jvp are no aten call here, and would be constants of "
                "the graph; draw them outside of the transform and pass them in"
            )

    def _refuse(self, func: OpOverload, args: tuple, kwargs: dict) -> None:
        """Raise for a call under torch.func.vmap or jvp, which a graph could only have with numbers in it."""
        batched = [a for a in _flat((args, kwargs)) if isinstance(a, Tensor) and batch_of(a) is not None]
        if func.namespace == PACKAGE or batched:
            raise NotImplementedError(
                f"make_fx: {func} (of an operator without aten calls, or under torch.func.vmap or jvp) is no aten "
                "call of PyTorch's; write it with operators that are, or leave that part out of the trace"
            )


def _version(tensor: Tensor) -> int | None:
    return None if tensor.is_inference() else tensor._version


def _place(tensor: Tensor) -> tuple[int, int]:
    """The same for all aliases of a tensor."""
    return id(tensor._storage), id(tensor._view)


def _is_constant(node: Any) -> bool:
    """Whether a step copies a constant that nothing has written to or viewed: its number is the same in every call."""
    copied = node.target is ops.aten.lift_fresh_copy.default and node.args[0].op == "get_attr"
    return copied and not node.users


def _describe(proxy: Proxy, value: Tensor) -> None:
    """Note shape, strides and dtype in ``meta``: "val" is a tensor without numbers."""
    with disable_proxy_modes_tracing():
        proxy.node.meta.setdefault("tensor_meta", _extract_tensor_metadata(value))
    proxy.node.meta.setdefault("val", _without_numbers(value))


def _without_numbers(value: Tensor) -> Tensor:
    """A tensor on "meta" of the same shape, strides and dtype."""
    with disable_proxy_modes_tracing():
        return empty_strided(tuple(value.shape), value.stride(), dtype=value.dtype, device="meta")


def get_innermost_proxy_mode() -> ProxyTorchDispatchMode | None:
    """The mode of the innermost :func:`make_fx` that runs in this thread, or None."""
    modes = [mode for mode in state.dispatch_modes if isinstance(mode, ProxyTorchDispatchMode)]
    return modes[-1] if modes else None


get_proxy_mode = get_innermost_proxy_mode


@contextlib.contextmanager
def disable_proxy_modes_tracing() -> Iterator[None]:
    """A context in which :func:`make_fx` does not see what is called."""
    with modes_set_to(tuple(mode for mode in state.dispatch_modes if not isinstance(mode, ProxyTorchDispatchMode))):
        yield


@contextlib.contextmanager
def _told(mode: ProxyTorchDispatchMode) -> Iterator[None]:
    """A context in which ``mode`` is told of storages that come or change, and of values that are read."""
    before, state.trace = state.trace, mode
    CAPTURES.append(mode)
    try:
        yield
    finally:
        CAPTURES.remove(mode)
        state.trace = before


def dispatch_trace(
    root: Module | Callable, tracer: Tracer, concrete_args: tuple[Any, ...] | None = None
) -> GraphModule:
    """The GraphModule of what ``tracer`` traces of ``root``."""
    graph = tracer.trace(root, concrete_args)  # type: ignore[arg-type]
    name = type(root).__name__ if isinstance(root, Module) else root.__name__
    return GraphModule(tracer.root, graph, name)


def make_fx(
    f: Callable,
    decomposition_table: dict[OpOverload, Callable] | None = None,
    tracing_mode: str = "real",
    _allow_non_fake_inputs: bool = False,
    *,
    pre_dispatch: bool = False,
    record_module_stack: bool = False,
    _allow_fake_constant: bool = False,
    _error_on_data_dependent_ops: bool = True,
) -> Callable[..., GraphModule]:
    """A function of example arguments that gives the graph of the aten calls that ``f`` makes of them.

    Args:
        f: a function of tensors; containers of them are taken apart. Derivatives that it computes are seen as calls.
        decomposition_table: functions by operator (``torch.ops.aten...``) to be traced in its place.
        tracing_mode: "real" or "fake": the graph is of the shapes of the example either way; the numbers are computed
            in both cases here.
        pre_dispatch, record_module_stack: refused.

    Raises:
        NotImplementedError: tracing_mode="symbolic", pre_dispatch or record_module_stack.
        RuntimeError, from the call: control flow depends on a value.

    >>> import torchlike as torch
    >>> from torchlike.fx.experimental.proxy_tensor import make_fx
    >>> traced = make_fx(lambda x: torch.relu(x) + 1)(torch.ones(2))
    >>> print(traced.code.strip())
    def forward(self, x_1):
        relu = torch.ops.aten.relu.default(x_1);  x_1 = None
        add = torch.ops.aten.add.Tensor(relu, 1);  relu = None
        return add
    """
    if tracing_mode not in ("real", "fake", "symbolic"):
        raise AssertionError(f"tracing_mode must be real/fake/symbolic, got {tracing_mode}")
    for name, given in (("tracing_mode='symbolic'", tracing_mode == "symbolic"), ("pre_dispatch=True", pre_dispatch),
                        ("record_module_stack=True", record_module_stack)):  # fmt: skip
        if given:
            raise NotImplementedError(f"make_fx({name}): graphs are of the aten calls of one shape")

    def traced(*args: Any) -> GraphModule:
        tracer = PythonKeyTracer()
        mode = ProxyTorchDispatchMode(tracer, tracing_mode, decomposition_table)

        def run(*proxies: Any) -> Any:
            for value, proxy in zip(_flat(args), _flat(proxies), strict=True):
                if isinstance(value, Tensor):
                    mode.made(value._storage)
                    mode.track(value, proxy)
            with mode, _told(mode):
                out = f(*args)
            mode.demand_no_draws()
            return tree_map(mode.proxy_of, out)

        function = _named_like(run, f, len(args))
        return dispatch_trace(function, tracer, tree_map(lambda _: PH, args))

    return traced


def _flat(tree: Any) -> list[Any]:
    found: list[Any] = []
    tree_map(found.append, tree)
    return found


def _named_like(run: Callable, f: Any, count: int) -> Any:
    """``run`` with the parameters of ``f``, which name the placeholders; arg0, arg1... where it has no such."""
    code = getattr(inspect.unwrap(f), "__code__", None)
    plain = code is not None and not code.co_flags & (inspect.CO_VARARGS | inspect.CO_VARKEYWORDS)
    if plain and not inspect.ismethod(f) and code.co_kwonlyargcount == 0:
        names = list(code.co_varnames[: code.co_argcount])
    else:
        names = [f"arg{i}" for i in range(count)]
    scope: dict[str, Any] = {"_run": run}
    parameters = ", ".join(names)
    exec(f"def function({parameters}):\n    return _run({parameters})", scope)
    function = scope["function"]
    function.__name__ = getattr(f, "__name__", type(f).__name__)
    if plain and "return" in (told := getattr(f, "__annotations__", {})):
        function.__annotations__["return"] = told["return"]
    return function
