"""Whatever a tensor can be asked, compiled functions ask it again when the answer may be another one.

The names are those of ``dir(tensor)``; what changes between two calls is here. Names that end a program are left out: a
function in pieces asks in every call.
"""

import functools
import json
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import torchlike as torch
from torchlike import nn

OWN = frozenset((
    *torch.Tensor.__slots__, "__getstate__", "__dir__", "__doc__", "__module__", "__class__", "__init_subclass__",
))  # fmt: skip
ADDRESSES = frozenset(("_cdata", "data_ptr", "const_data_ptr", "mutable_data_ptr", "__hash__", "__jax_array__", "jax"))
ERRORS = (AttributeError, RuntimeError, TypeError, ValueError, NotImplementedError)


def _leaf():
    return torch.arange(6.0).reshape(2, 3).requires_grad_()


KINDS = {
    "leaf": _leaf,
    "with_a_history": lambda: _leaf() * 2,
    "view": lambda: torch.arange(12.0).reshape(4, 3)[:2],
    "view_with_a_history": lambda: (_leaf() * 2)[:1],
    "parameter": lambda: nn.Parameter(torch.arange(6.0).reshape(2, 3)),
}


def _set(name, make):
    return lambda t: setattr(t, name, make())


def _quietly(change):
    def quiet(t):
        with torch.no_grad():
            change(t)

    return quiet


CHANGES = {
    "retain_grad": lambda t: t.retain_grad(),
    "a_hook": lambda t: t.register_hook(lambda g: g * 2),
    "a_late_hook": lambda t: t.register_post_accumulate_grad_hook(lambda p: None),
    "requires_grad": lambda t: t.requires_grad_(),
    "no_grad_any_more": lambda t: t.requires_grad_(False),
    "its_base_requires_grad": lambda t: t._base.requires_grad_(),
    "its_base_has_a_history": lambda t: t._base.mul_(torch.ones(3, requires_grad=True)),
    "its_base_has_new_numbers": _quietly(lambda t: t._base.mul_(2)),
    "its_base_has_new_memory": lambda t: setattr(t._base, "data", torch.ones(7)),
    "a_grad": _set("grad", lambda: torch.ones(2, 3)),
    "backward": lambda t: (t * 2).sum().backward(),
    "another_shape": _set("data", lambda: torch.ones(3, 2)),
    "another_dtype": _set("data", lambda: torch.ones(2, 3).double()),
    "other_strides": _set("data", lambda: torch.ones(3, 2).t()),
    "other_numbers": _set("data", lambda: torch.full((2, 3), 7.0)),
    "resize": _quietly(lambda t: t.resize_(3, 3)),
    "other_memory": _quietly(lambda t: t.set_(torch.ones(5))),
    "more_memory": _quietly(lambda t: t.untyped_storage().resize_(80)),
    "shared_memory": lambda t: t.share_memory_(),
    "numbers_in_place": _quietly(lambda t: t.zero_()),
    "a_history_in_place": lambda t: t.add_(1),
    "detach": lambda t: t.detach_(),
    "transpose": _quietly(lambda t: t.t_()),
    "unsqueeze": _quietly(lambda t: t.unsqueeze_(0)),
    "names": lambda t: t.rename_("a", "b"),
    "an_attribute": _set("foo", lambda: 3),
    "numbers_by_numpy": lambda t: t.detach().numpy().fill(42),
    "dtype_of_the_gradient": _set("grad_dtype", lambda: torch.float64),
    "metadata_of_its_node": lambda t: t.grad_fn.metadata.update(k=1),
}  # fmt: skip


def _holds_tensors(x):
    return isinstance(x, torch.Tensor) or isinstance(x, tuple | list) and any(map(_holds_tensors, x))


def _told(x):
    """An answer in a form that can be compared."""
    if isinstance(x, torch.Tensor | np.ndarray):
        return "tensor", x.shape, str(x.dtype), x.tolist(), getattr(x, "requires_grad", None)
    if isinstance(x, tuple | list):
        return [*map(_told, x)]
    if isinstance(x, dict):
        return [type(v).__name__ for v in x.values()]
    plain = isinstance(x, bool | int | float | str | None | torch.dtype | torch.device)
    return repr(x) if plain else type(x).__name__


def _asked(names):
    """A function that asks a tensor for everything."""

    def ask(t):
        found = []
        for name, called in names:
            try:
                value = getattr(t, name)
                found.append(value() if called else value)
            except ERRORS as error:
                found.append(type(error).__name__)
        return found

    return ask


def _questions(make):
    """[(name, whether it is called)] of what answers without arguments, and with no new tensor."""
    found = []
    for name in sorted(set(dir(make())) - OWN - ADDRESSES):
        try:
            t = make()
            value = getattr(t, name)
        except ERRORS:
            found.append((name, False))
            continue
        if not callable(value) or isinstance(value, torch.Tensor):
            found.append((name, False))
        elif not name.endswith("_") or name.endswith("__"):
            try:
                if not _holds_tensors(value()):
                    found.append((name, True))
            except Exception:  # noqa: BLE001, S112 (it needs arguments)
                continue
    return found


@functools.cache
def _of_whole_programs(kind):
    """The questions that do not end a program."""
    names = []
    for question in _questions(KINDS[kind]):
        compiled, t = torch.compile(_asked([question])), KINDS[kind]()
        compiled(t)
        if compiled.eager is None:
            names.append(question)
    return names


def _runs(make, names, given):
    """``run(wrap, change)``: the answers of two calls ahead of a change and of two after it, None if it is refused."""

    def run(wrap, change):
        t, ask = make(), _asked(names)
        function = wrap(ask if given else lambda: ask(t))
        call = (lambda: _told(function(t))) if given else lambda: _told(function())
        found = [call(), call()]
        try:
            change(t)
        except ERRORS:
            return None
        return [*found, call(), call()]

    return run


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("given", (False, True), ids=("outside", "argument"))
@pytest.mark.parametrize("kind", KINDS)
def test_no_answer_of_a_tensor_is_stale(kind, given):
    make, names = KINDS[kind], _of_whole_programs(kind)
    assert len(names) > 60
    run, stale = _runs(make, names, given), []
    for name, change in CHANGES.items():
        expected = run(lambda f: f, change)
        if expected is None:
            continue
        found = run(torch.compile, change)
        wrong = [q[0] for i, q in enumerate(names) if [a[i] for a in found] != [a[i] for a in expected]]
        stale += [f"{q} after {name}" for q in wrong]
    assert not stale


# What the machine and the build are, what answers the same everywhere here, and what workers alone change (a global).
FACTS = re.compile(
    r".*(_available|_built|\.version|_count|_supported|_supported_devices|or_newer|_is_compiled|is_initialized|arch_list|"
    r"gencode_flags|cpu_capability|bad_fork|max_alg_id|definitely_not_available|_capturing|in_lower_precision|"
    r"flash_attention_impls?|is_exporting|is_scripting|is_tracing|get_tracing_state|_accelerator|current_device|"
    r"_C\._get_default_device|default_backend|torch_function_variadic|get_worker_info|get_device_states|get_ctx|is_compiling)$"
)


def test_no_setting_is_stale():
    """What compiled functions say of it, of all that the public names ask and set."""
    script = Path(__file__).parents[1] / "settings_asked.py"
    done = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, check=True)
    told = json.loads(done.stdout.splitlines()[-1])
    assert told["asked"] > 100
    assert told["stale"] == ["torchlike._dynamo.is_compiling"]  # which is why there is the question
    assert not [name for name in told["constant"] if not FACTS.match(name)]
