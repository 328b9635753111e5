"""Kernels of single operators: compiled quickly at first, and well once they have been worth it.

On CPU most of a program's first seconds go into LLVM's optimisation of small kernels. A kernel is therefore compiled
without it until it has been called often enough, on enough data, to pay for it; both counts are exact, so runs repeat.
Whole programs (``torch.compile``, recorded traces) are compiled by jax as it sees fit.
"""

import jax

from torchlike._executor.pending import Array, trace_state_clean

try:
    from jax._src.interpreters.pxla import JitGlobalCppCacheKeys, cc_shard_arg
    from jax._src.lib import _jax
    from jax._src.tree_util import dispatch_registry
except ImportError:  # no public name lets a kernel be compiled anew behind the same fast call
    _jax = None  # type: ignore[assignment]

# Sums of the elements of arguments and results.
TINY = 1 << 8  # up to here a kernel takes no longer for being compiled quickly
LARGE = 1 << 18  # beyond, one call of a quickly compiled kernel costs as much as compiling it well
WORK = 1 << 19  # so many elements in all calls together do
CALLS = 64  # as do so many calls: each costs some microseconds more meanwhile

WELL = {"xla_cpu_use_fusion_emitters": False}
QUICKLY = WELL | {"xla_backend_optimization_level": 0}


def jit(function, donated=()):
    """``function`` compiled for each structure, shapes and dtypes of its arguments; it overwrites those ``donated``."""
    plain = jax.jit(function, donate_argnums=donated)
    if _jax is None or not hasattr(plain, "_cache_miss"):
        return plain
    new = _jax.pjit(
        plain.__name__, function, _Miss(plain, donated), (), (),
        JitGlobalCppCacheKeys(donate_argnums=donated), dispatch_registry, cc_shard_arg, _CACHE,
    )  # fmt: skip
    new.__wrapped__, new._fun, new._jit_info = function, plain._fun, plain._jit_info
    return new


_CACHE = None if _jax is None else _jax.PjitFunctionCache(capacity=1 << 13)


class _Miss:
    """What a kernel does where it has no executable: (results, what to call from now on, whether to ask again)."""

    __slots__ = ("plain", "well", "quickly", "calls")

    def __init__(self, plain, donated):
        self.plain = plain
        self.well, self.quickly = (
            jax.jit(plain._fun, donate_argnums=donated, compiler_options=o) for o in (WELL, QUICKLY)
        )
        self.calls: dict = {}

    def __call__(self, *args, **kwargs):
        leaves = jax.tree.leaves((args, kwargs))
        if not trace_state_clean() or not all(map(_plain, leaves)):
            return self.plain._cache_miss(*args, **kwargs)
        size = sum([v.size for v in leaves if v.__class__ is Array])
        if size > LARGE:
            return self.well._cache_miss(*args, **kwargs)
        key = tuple([v.aval if v.__class__ is Array else v.__class__ for v in leaves])
        calls = self.calls[key] = self.calls.get(key, 0) + 1
        if calls > 1 and calls >= min(CALLS, WORK // max(size, 1)):
            del self.calls[key]
            return self.well._cache_miss(*args, **kwargs)
        if calls > 1:
            return self.quickly(*args, **kwargs), None, True
        found = self.quickly._cache_miss(*args, **kwargs)
        size += sum([v.size for v in jax.tree.leaves(found[0])])
        if size <= TINY or found[1] is None:
            self.calls.pop(key, None)
            return found
        return found[0], None, True


def _plain(v):
    """Whether a value is a number, or an array on a CPU."""
    return v.__class__ in _NUMBERS or (v.__class__ is Array and next(iter(v.sharding.device_set)).platform == "cpu")


_NUMBERS = frozenset({float, int, bool, complex})
