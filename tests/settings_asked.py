"""A program that asks compiled functions for every setting of the library, under each setting that it can make.

It prints the questions whose answers were stale, and those whose answers nothing here changes. Settings stay changed,
so it is a process of its own; ``test_stale_answers`` starts it.
"""

import importlib
import json
import pkgutil
import re
import sys
import types
import warnings

import lowering_kit  # noqa: F401 (lowering takes less time)

import torchlike as torch

LEFT_OUT = frozenset((
    "distributed", "testing", "viz", "fx", "onnx", "package", "interop", "distributions", "conventions", "collect_env",
    "cpp_extension",
))  # fmt: skip
QUESTION = re.compile(
    r"_?(is|get|are|has|default|initial|can|maybe|current|list)_|_current|.*_(enabled|available|allowed|mode|count|level"
    r"|precision|allocated|reserved|state|info|stats|options|strategy)$|version"
)
CHANGE = re.compile(r"_?(un)?set_|_?(enable|disable|allow|use|preferred|clear|register)|.*set_enabled")
UNBALANCED = re.compile(r".*(dual_level|crement|nesting|_stance|per_process|interop)|register_(?!backend)")
VALUES = (
    True, False, 0, 2, 3, "high", "medium", "cpu", "error", "warn", "recorded", "immediate", "file_system", "/tmp/x",
    torch.float64, torch.bfloat16, 0.25, torch.device("meta"),
)  # fmt: skip
SPECIAL = (
    lambda: torch.use_deterministic_algorithms(True, warn_only=True), torch.use_deterministic_algorithms,
    lambda: torch._dynamo.register_backend(lambda g, i: g, name="asked"),
    lambda: torch.set_autocast_enabled("cpu", True), lambda: torch.set_autocast_enabled("cpu", False),
    lambda: torch.set_autocast_dtype("cpu", torch.float16), lambda: torch.set_default_device("meta"),
    lambda: torch.set_default_device(None), lambda: torch.serialization.add_safe_globals([set]),
    lambda: torch.manual_seed(5),
)  # fmt: skip
CONTEXTS = (
    torch.no_grad, torch.inference_mode, lambda: torch.autocast("cpu"), lambda: torch.autocast("cpu", enabled=False),
    lambda: torch.autograd.detect_anomaly(check_nan=False), torch.autograd.profiler.profile,
    torch.autograd.forward_ad.dual_level, lambda: torch.autograd.graph.saved_tensors_hooks(abs, abs),
    lambda: torch.autograd.graph.disable_saved_tensors_hooks("no"), lambda: torch.device("meta"),
    lambda: torch.autograd.set_multithreading_enabled(False), lambda: torch.sparse.check_sparse_tensor_invariants(True),
    lambda: torch.autograd.forward_ad._set_fwd_grad_enabled(False), torch._C.DisableTorchFunctionSubclass,
    torch._C.DisableTorchFunction,
    lambda: torch.autograd._force_original_view_tracking(True), torch.overrides.BaseTorchFunctionMode,
    lambda: torch.backends.cudnn.flags(enabled=False),
)  # fmt: skip


def functions():
    """(name, function) of every public function of the library, and of ``torch._C``."""
    seen = set()
    names = [m.name for m in pkgutil.walk_packages(torch.__path__, "torchlike.")]
    for module in ("torchlike", *names):
        parts = module.split(".")[1:]
        private = any(p[0] == "_" and p not in ("_C", "_dynamo") for p in parts)
        if private or LEFT_OUT.intersection((*parts[:1], *parts[-1:])):
            continue
        try:
            found = vars(importlib.import_module(module))
        except ImportError:
            continue
        for name, f in list(found.items()):
            own = str(getattr(f, "__module__", "")).startswith("torchlike")
            if own and callable(f) and not isinstance(f, type | types.ModuleType) and id(f) not in seen:
                seen.add(id(f))
                yield f"{module}.{name}", name, f


def plain(x):
    kinds = bool | int | float | str | None | torch.dtype | torch.device
    return isinstance(x, kinds) or (isinstance(x, tuple | list) and all(map(plain, x)))


def told(f, *args):
    try:
        return repr(f(*args))
    except Exception as error:  # noqa: BLE001
        return type(error).__name__


def main():
    questions, changes = {}, []
    for full, name, f in functions():
        if UNBALANCED.match(name):
            continue
        if QUESTION.match(name):
            try:
                if plain(f()):
                    questions[full] = f
            except Exception:  # noqa: BLE001, S110 (it needs arguments)
                pass
        if CHANGE.match(name):
            changes += [lambda f=f: f()] + [lambda f=f, v=v: f(v) for v in VALUES]
    compiled = {name: torch.compile(lambda f=f: f()) for name, f in questions.items()}
    first, changed, stale = {name: told(f) for name, f in questions.items()}, set(), set()
    before = dict(first)
    for run in (*compiled.values(), *compiled.values()):
        told(run)

    def compare(at_once=False):
        for name, f in questions.items():
            now = told(f)
            if now != before[name] or at_once:
                changed.update([name] * (now != before[name]))
                before[name] = now
                stale.update([name] * (told(compiled[name]) != now))

    for context in CONTEXTS:
        with context():
            compare(True)
        compare(True)
    for change in (*SPECIAL, *changes):
        try:
            change()
        except BaseException:  # noqa: BLE001, S112 (it wants other values)
            continue
        compare()
    torch.set_grad_enabled(True)
    x = torch.ones(2, requires_grad=True, device="cpu")
    y = x * 2
    y.register_hook(lambda g: compare(True))
    y.sum().backward()
    torch.func.vmap(lambda t: (compare(True), t)[1])(x.detach())
    whole = [name for name, run in compiled.items() if run.eager is None]
    print(json.dumps({"stale": sorted(stale), "constant": sorted(set(whole) - changed), "asked": len(questions)}))


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    sys.exit(main())
