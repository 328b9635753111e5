"""The same training step in every form that is measured: by hand in JAX, with torchlike, and in PyTorch."""

import functools
import os
from typing import Any, NamedTuple

os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")  # PyTorch needs some of a GPU's memory too

import _handwritten as jax_steps  # noqa: E402
import _programs as programs  # noqa: E402
import jax  # noqa: E402
import numpy as np  # noqa: E402

import torchlike  # noqa: E402
from torchlike._core.tensor.tensor import value_of  # noqa: E402

try:
    import torch
except ImportError:
    torch = None

GPU = jax.default_backend() == "gpu"
DEVICE = "cuda" if GPU else None
RECORDED = hasattr(torchlike, "set_execution")
if torch is not None:
    if GPU and not torch.cuda.is_available():
        torch = None
    else:
        torch.set_num_threads(len(os.sched_getaffinity(0)))  # as many as XLA takes
        torch.backends.cudnn.allow_tf32 = False  # as for matrix products, and as in the other two


class Case(NamedTuple):
    """A step of torchlike, torch or jax, its arguments, and how torchlike is to execute meanwhile."""

    step: Any
    arguments: tuple
    mode: str | None = None

    def enter(self):
        """Ahead of its turn: choose how torchlike executes."""
        if RECORDED:
            torchlike.set_execution(self.mode or DEFAULT)

    def __call__(self):
        """One step, until its result is there, and what it writes."""
        wait(self.step(*self.arguments))
        if self.mode is not None:  # else it is one program
            for t in getattr(self.step, "written", ()):
                wait(t)

    def numbers(self):
        """One step's result as a numpy array of its own."""
        out = self.step(*self.arguments)
        return np.array(out if isinstance(out, jax.Array) else out.detach().cpu().numpy())


DEFAULT = torchlike.get_execution() if RECORDED else None


def wait(out):
    """Wait until a result is there, in any of the three libraries."""
    if isinstance(out, jax.Array):
        out.block_until_ready()
    elif isinstance(out, torchlike.Tensor):
        value_of(out).block_until_ready()
    elif GPU:
        torch.cuda.synchronize()


class Forms:
    """The forms of one program, all from the same numbers: ``by_hand()``, ``of(torchlike)``, ``of(torch)``."""

    def __init__(self, name, quick=False):
        self.program = programs.PROGRAMS[name]
        self.options, self.data = self.program.sized(quick)
        self.state = None
        if self.data:
            torchlike.manual_seed(0)
            model = getattr(programs, self.program.model)(torchlike, **self.options)
            self.state = {k: v.numpy().copy() for k, v in model.state_dict().items()}

    def by_hand(self, forward=None, low=None):
        """(the case of the step in JAX, a function that lowers it).

        ``forward``: another way to write the model; ``low``: the dtype that products are computed in.
        """
        if not self.data:
            *pair, lowered = jax_steps.parameters_alone(**self.options)
            return Case(*pair), lowered
        forward = forward or getattr(jax_steps, self.program.model)
        if "heads" in self.options:
            forward = functools.partial(forward, heads=self.options["heads"])
        *pair, lowered = jax_steps.start(forward, self.state, *self.data, low)
        return Case(*pair), lowered

    def of(self, lib, transform=None, mode=None, **amp):
        """The case of the step in ``lib``, through ``transform``; ``amp``: see ``_programs.start``."""
        if self.data:
            model = getattr(programs, self.program.model)(lib, **self.options)
            step, arguments = programs.start(lib, model, *self.data, self.state, device=DEVICE, **amp)
        else:
            step, arguments = programs.parameters_alone(lib, **self.options, device=DEVICE)
        return Case(step if transform is None else transform(step), arguments, mode)


def agree(cases, steps=3, tolerance=2e-3):
    """Take the first steps of all cases: their results must be the same.

    {case: why it does not work}, for torch.compile, which needs a C++ compiler on CPU; such a case is removed.
    """
    expected, failed = None, {}
    for name, case in list(cases.items()):
        case.enter()
        try:
            seen = [case.numbers() for _ in range(steps)]
        except Exception as error:
            if name != "torch.compile":
                raise
            failed[name] = f"{type(error).__name__}: {str(error).splitlines()[0]}"
            del cases[name]
            continue
        expected = seen if expected is None else expected
        np.testing.assert_allclose(seen, expected, rtol=tolerance, atol=tolerance, err_msg=name)
    return failed
