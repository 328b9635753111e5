"""Functions over many arrays at once, compiled as one program: optimizer steps, norms of all gradients."""

from __future__ import annotations

import functools
import itertools
import threading
from collections.abc import Callable, Iterable, Sequence
from sys import getrefcount
from typing import TYPE_CHECKING, Any

import jax

from torchlike._base.state import state
from torchlike._base.threads import alone
from torchlike._executor import level, sparse
from torchlike._executor.immediate import Abstract
from torchlike._executor.kernels import jit
from torchlike._executor.pending import Array, Pending, kind_of, pending, settled
from torchlike._executor.references import SHARING, SLOT, TWO, shared
from torchlike._executor.spread import beside, copy_here, laid, layout_of

if TYPE_CHECKING:
    from torchlike._decl.typed import Indices, Static, Value
    from torchlike._executor.recorded import Recorder
    from torchlike._executor.typed import HasValue


@functools.lru_cache(1024)
def compiled(function: Callable[..., Any], static: Static, donated: Indices = ()) -> Callable[..., Any]:
    """``function`` with its static keywords fixed, compiled; shapes, dtypes and structure are keys of
    jax.jit. The arguments ``donated`` are overwritten.
    """
    whole = functools.partial(function, **dict(static))
    return jit(whole, ("fused", whole), donated, many=True)


def run(function: Callable[..., Any], static: Static, *trees: Any) -> Any:
    """The result of ``function(*trees, **dict(static))``; trees are lists, tuples and dicts of arrays and
    numbers.
    """
    recorder, kernel = state.recorder, compiled(function, static)
    try:
        return kernel(*trees) if recorder is None else _recorded(recorder, function, static, trees)
    except (TypeError, ValueError):
        if any(type(x) is Pending for x in jax.tree.leaves(trees)):
            return kernel(*jax.tree.map(settled, trees))
        if any(type(x) is Abstract for x in jax.tree.leaves(trees)):
            return jax.tree.map(lambda s: Abstract(s.shape, s.dtype), jax.eval_shape(kernel, *trees))
        if sparse.holds(jax.tree.leaves(trees)):
            sparse.refuse(f"array for {function.__name__}() over several tensors at once")
        if level.holds(jax.tree.leaves(trees)):
            raise NotImplementedError(
                f"{function.__name__}() over several tensors at once is not supported inside of vmap; call it outside, "
                "or write it with the operators of tensors"
            ) from None
        raise


def replace(
    function: Callable[..., Any],
    static: Static,
    owned: Indices,
    trees: Sequence[Any],
    keep: Callable[[Any], object],
    storages: Sequence[HasValue | None] = (),
) -> None:
    """``keep(run(function, static, *trees))``, for results that take the place of the trees ``owned``.

    A tree is a list of arrays or of tuples of arrays (a dict of numbers, where it is not owned). If each array of the
    owned ones is held by one storage and its list only, they are overwritten, and ``keep`` is called even if a signal
    interrupts the run. It is called a second time if a signal interrupts it.

    ``storages``: those that hold the arrays of the owned trees, in order, None for one of which a part is shown: while
    other threads run they hold tokens, so that nobody is left with an array that is overwritten. Raises Overtaken, with
    nothing done, if one holds something else than the array that is given: what calls this is ``in_turn``.
    """
    recorder = state.recorder
    if recorder is not None:
        if recorder.calls:
            return _certainly(keep, run(function, static, *trees))
    if alone() or {type(s.value) for s in storages if s is not None} - {Array, Pending}:
        return _replace(function, static, owned, trees, keep)
    taken = itertools.chain.from_iterable(_leaves(trees[i]) for i in owned)
    holding = [(s, _awaited(v)) for s, v in zip(storages, taken, strict=True) if s is not None]
    del taken
    loan = Loan()
    try:
        loan.begin(holding)
        del holding
        _replace(function, static, owned, trees, keep)
    finally:
        try:
            loan.end()
        except BaseException:  # a signal: no token may be left that stands for nothing
            loan.end()
            raise


def _replace(
    function: Callable[..., Any], static: Static, owned: Indices, trees: Sequence[Any], keep: Callable[[Any], object]
) -> None:
    alone = all([_alone(trees[i]) for i in owned])
    trees = [_arrays(t) if t.__class__ in (list, dict) else t for t in trees]  # some may have been recorded before
    if not alone:
        return _certainly(keep, run(function, static, *trees))
    kernel, results = compiled(function, static, owned), []
    try:
        # no bytecode between the run, which overwrites, and the keeping of its results
        results.extend(itertools.starmap(kernel, (trees,)))
    finally:
        if results:  # as _certainly, at whose beginning a signal would come too early
            try:
                keep(results[0])
            except BaseException:
                keep(results[0])
                raise


class Overtaken(BaseException):
    """Another thread has changed what was to be overwritten since it was read; nothing has been done.

    No Exception, so that who deals with errors of a kernel does not take it for one; see :func:`in_turn`.
    """


def in_turn(attempt: Callable[..., Any]) -> Callable[..., Any]:
    """``attempt``, which reads values and replaces them: made again for as long as other threads overtake it."""

    @functools.wraps(attempt)
    def run(*args: Any, **kwargs: Any) -> Any:
        while True:
            try:
                return attempt(*args, **kwargs)
            except Overtaken:
                continue

    return run


class Loan:
    """Tokens in the place of arrays that are being overwritten; who reads one waits for the new array."""

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self.lock.acquire()
        self.lent: list[tuple[HasValue, Any, Pending]] = []

    def begin(self, holding: Sequence[tuple[HasValue, Any]]) -> None:
        """Put a token into each storage. Overtaken: one holds something else than the array that stands beside it."""
        for storage, value in {id(s): (s, v) for s, v in holding}.values():
            token = pending(kind_of(value.aval, value.sharding), self)
            self.lent.append((storage, value, token))
            if storage.value is not value:
                self.lent.pop()  # no token of ours is there
                raise Overtaken
            storage.value = token  # no thread comes between, as nothing is called

    def settle(self, token: Pending) -> None:
        """Wait for what takes the token's place."""
        with self.lock:
            if token.array is None:
                raise RuntimeError("this value is being computed by the optimizer's step that this code interrupts")

    def end(self) -> None:
        """The new arrays are there, or the old ones still. May be called again, if a signal has interrupted it."""
        for storage, value, token in self.lent:
            if storage.value is token:
                storage.value = value
            token.array = settled(storage.value)
        self.lent = []  # tokens know the loan, which would keep the arrays
        try:
            self.lock.release()
        except RuntimeError:  # it has been
            return


def _awaited(value: Any) -> Any:
    """A value that is there by now: no token of who overwrites it."""
    if value.__class__ is Pending:
        settled(value)
    return value


def _certainly(keep: Callable[[Any], object], results: Any) -> None:
    try:
        keep(results)
    except BaseException:
        keep(results)
        raise


def _leaves(tree: Any) -> Iterable[Any]:
    return itertools.chain.from_iterable(tree) if tree and tree[0].__class__ is tuple else tree


def _alone(tree: Any) -> bool:
    """Whether each value of a tree is an array that only a storage (or loan) and the tree hold."""
    classes = {*map(type, _leaves(tree))}
    if classes - {Array, Pending} or max(map(getrefcount, _leaves(tree)), default=0) > TWO:
        return False
    if SHARING and any(map(shared, _leaves(tree))):
        return False
    return Pending not in classes or all(
        [v.array is None or getrefcount(v.array) <= SLOT for v in _leaves(tree) if v.__class__ is Pending]
    )


def _arrays(tree: Any) -> Any:
    """A tree with arrays in place of recorded values."""
    if tree.__class__ is dict:
        return {k: settled(v) for k, v in tree.items()}
    if Pending not in {*map(type, _leaves(tree))}:
        return tree
    if tree[0].__class__ is tuple:
        return [tuple([settled(v) for v in t]) for t in tree]
    return [settled(v) for v in tree]


def _recorded(recorder: Recorder, function: Callable[..., Any], static: Static, trees: Sequence[Any]) -> Any:
    """As :func:`run`, appended to the trace of this thread as one call."""
    leaves, tree = jax.tree.flatten(trees)
    return recorder.record(_flat(function, static, tree), leaves, function.__name__)


@functools.lru_cache(1024)
def _flat(function: Callable[..., Any], static: Static, tree: Any) -> Callable[..., Any]:
    whole = functools.partial(function, **dict(static))
    return jit(lambda *leaves: whole(*jax.tree.unflatten(tree, leaves)), ("flat", whole, str(tree)), many=True)


def home_of(value: Value) -> frozenset[jax.Device]:
    """The devices that an array is on; none for tracers and abstract values."""
    if isinstance(value, jax.Array | Pending) and not isinstance(value, jax.core.Tracer):
        return frozenset(value.devices())
    return frozenset()


def moved(value: Value, like: Value) -> Any:
    """``value`` on the devices of ``like``: spread as that is, if it is of its shape, else whole on each."""
    home = home_of(like)
    if not home or home_of(value) == home:
        return value
    layout = layout_of(like)
    if layout is None:
        return jax.device_put(settled(copy_here(value)), *home)
    return laid(value, layout) if value.shape == like.shape else beside([settled(value)], layout)[0]
