"""L-BFGS."""

import jax

from torchlike._base.state import UNUSUAL, enable_grad
from torchlike._core.tensor.mutation import write
from torchlike._core.tensor.tensor import Tensor, strided, value_of, wrap
from torchlike._executor import fused
from torchlike._executor.pending import Array, as_numpy, settled
from torchlike._ops import lbfgs as ops
from torchlike.optim._group import demand_rate, number, zeros
from torchlike.optim._line_search import _cubic_interpolate as _cubic_interpolate
from torchlike.optim._line_search import _strong_wolfe as _strong_wolfe
from torchlike.optim._line_search import strong_wolfe
from torchlike.optim.optimizer import Optimizer

__all__ = ["LBFGS"]


def _run(function, *arguments):
    found = fused.run(function, (), *arguments)
    return jax.tree.map(settled, found) if UNUSUAL else found  # Python decides on most of them


def _number(x):
    return float(as_numpy(x)) if x.__class__ is Array else float(x)


class LBFGS(Optimizer):
    """Quasi-Newton steps from the last gradients (Nocedal & Wright, chapter 7), with line search if asked.

    Args:
        params: all in one group. lr: length of a step. max_iter: iterations of one ``step``.
        max_eval: evaluations of the closure in one ``step`` (default: 1.25 * max_iter).
        tolerance_grad: largest gradient of a solution. tolerance_change: smallest change that counts.
        history_size: how many steps are remembered. line_search_fn: None or ``'strong_wolfe'``.

    ``step(closure)`` needs a closure that clears the gradients, computes the loss, calls backward and
    returns the loss.

    Raises:
        ValueError: a negative rate, more than one parameter group. RuntimeError: another line search.
    """

    def __init__(self, params, lr=1, max_iter=20, max_eval=None, tolerance_grad=1e-7, tolerance_change=1e-9,
                 history_size=100, line_search_fn=None) -> None:  # fmt: skip
        demand_rate(lr)
        defaults = {
            "lr": lr,
            "max_iter": max_iter,
            "max_eval": max_iter * 5 // 4 if max_eval is None else max_eval,
            "tolerance_grad": tolerance_grad,
            "tolerance_change": tolerance_change,
            "history_size": history_size,
            "line_search_fn": line_search_fn,
        }
        super().__init__(params, defaults)
        if len(self.param_groups) != 1:
            raise ValueError("LBFGS doesn't support per-parameter options (parameter groups)")
        self._params = self.param_groups[0]["params"]

    def __setstate__(self, state):
        super().__setstate__(state)
        self._params = self.param_groups[0]["params"]

    # -- vectors -------------------------------------------------------------------------------------
    def _flat_grad(self):
        grads = [zeros(tuple(p.shape), p.dtype) if p.grad is None else p.grad for p in self._params]
        grads = [g if g.layout is strided else g.to_dense() for g in grads]
        return _run(ops.flatten, [value_of(g) for g in grads])

    def _move(self, t, direction, start=None):
        values = [value_of(p) for p in self._params] if start is None else start
        for p, value in zip(self._params, _run(ops.move, values, t, direction), strict=True):
            write(p, value)

    def _evaluate(self, closure, start, t, direction):
        """(loss, flat gradient) at ``t`` along the direction; the parameters return to ``start``."""
        self._move(t, direction, start)
        loss = number(closure())
        grad = self._flat_grad()
        for p, value in zip(self._params, start, strict=True):
            write(p, value)
        return loss, grad

    # -- the algorithm -------------------------------------------------------------------------------
    def step(self, closure):
        """Iterate until a tolerance or a limit is met; returns the loss before.

        Args:
            closure: clears the gradients, computes the loss, calls backward and returns the loss.
        """
        group = self.param_groups[0]
        closure = enable_grad()(closure)
        state = self.state[self._params[0]]
        state.setdefault("func_evals", 0)
        state.setdefault("n_iter", 0)
        first = closure()
        run = _Run(self, group, state, closure, number(first))
        state["func_evals"] += 1
        if run.largest() <= group["tolerance_grad"]:
            return first
        run.iterate()
        run.keep()
        return first


class _Run:
    """The iterations of one step."""

    def __init__(self, optimizer, group, state, closure, loss):
        self.optimizer, self.group, self.state, self.closure = optimizer, group, state, closure
        self.loss, self.evals = loss, 1
        self.lr = number(group["lr"])
        self.grad = optimizer._flat_grad()
        self.d, self.t = _value(state.get("d")), number(state.get("t"))
        self.dirs = [value_of(y) for y in state.get("old_dirs") or ()]
        self.steps = [value_of(s) for s in state.get("old_stps") or ()]
        self.ro = [value_of(r) for r in state.get("ro") or ()]
        self.scale = _value(state.get("H_diag"))
        self.previous = _value(state.get("prev_flat_grad"))
        self.previous_loss = state.get("prev_loss")
        self.alphas = None

    def largest(self):
        return _number(_run(ops.slope, self.grad, self.grad)[1])

    def keep(self):
        """Leave what the next step needs in the optimizer's state."""
        alphas = [None] * self.group["history_size"]
        if self.alphas is not None:
            alphas[: len(self.ro)] = [wrap(a) for a in self.alphas[: len(self.ro)]]
            self.state["al"] = alphas
        scale = self.scale if isinstance(self.scale, int) else wrap(self.scale)
        self.state |= {
            "d": wrap(self.d), "t": self._given(self.t), "old_dirs": [wrap(y) for y in self.dirs],
            "old_stps": [wrap(s) for s in self.steps], "ro": [wrap(r) for r in self.ro], "H_diag": scale,
            "prev_flat_grad": wrap(self.previous), "prev_loss": self.previous_loss,
        }  # fmt: skip

    def _given(self, t):
        """The step length as PyTorch keeps it: a tensor where the rate is one and no line search chose it."""
        rate = self.group["lr"]
        if isinstance(rate, Tensor) and self.group["line_search_fn"] is None:
            return rate.new_tensor(t)
        return t

    def iterate(self):
        group = self.group
        n = 0
        while n < group["max_iter"]:  # which may be inf, or a fraction
            n += 1
            self.state["n_iter"] += 1
            self._choose_direction()
            self.previous, self.previous_loss = self.grad, self.loss
            gtd, _, total = map(_number, _run(ops.slope, self.grad, self.d))
            self.t = (1.0 / max(1.0, total)) * self.lr if self.state["n_iter"] == 1 else self.lr
            if gtd > -group["tolerance_change"]:
                return
            done = self._advance(gtd, n == group["max_iter"])
            if done or self._settled(n):
                return

    def _settled(self, n):
        group = self.group
        if n == group["max_iter"] or self.evals >= group["max_eval"]:
            return True
        if _number(_run(ops.slope, self.d, self.d)[1]) * abs(self.t) <= group["tolerance_change"]:
            return True
        return abs(self.loss - self.previous_loss) < group["tolerance_change"]

    def _choose_direction(self):
        if self.state["n_iter"] == 1:
            self.d, self.dirs, self.steps, self.ro, self.scale = -self.grad, [], [], [], 1
            return
        y, s, ys, ro, scale = _run(ops.curvature, self.grad, self.previous, self.d, self.t)
        if _number(ys) > 1e-10:
            if len(self.dirs) == self.group["history_size"]:
                for history in (self.dirs, self.steps, self.ro):
                    history.pop(0)
            self.dirs.append(y)
            self.steps.append(s)
            self.ro.append(ro)
            self.scale = scale
        if not self.dirs:
            self.d = -self.grad * self.scale
            self.alphas = []
            return
        # lengths are padded to powers of two, so that few programs are compiled
        pad = (1 << (len(self.dirs) - 1).bit_length()) - len(self.dirs)
        ys, ss = self.dirs + [self.d] * pad, self.steps + [self.d] * pad
        ro = self.ro + [self.ro[-1] * 0] * pad  # arrays: numbers in other places would be another program
        self.d, self.alphas = _run(ops.direct, self.grad, ys, ss, ro, self.scale)

    def _advance(self, gtd, last):
        """Take the step; whether the gradient is small enough."""
        optimizer, group, evals = self.optimizer, self.group, 0
        search = group["line_search_fn"]
        if search is not None:
            if search != "strong_wolfe":
                raise RuntimeError(f"only 'strong_wolfe' is supported as line_search_fn, not {search!r}")
            start = [value_of(p) for p in optimizer._params]

            def along(t):
                loss, grad = optimizer._evaluate(self.closure, start, t, self.d)
                return loss, grad, _number(_run(ops.slope, grad, self.d)[0])

            width, left = _number(_run(ops.slope, self.d, self.d)[1]), min(25, group["max_eval"] - self.evals)
            found = strong_wolfe(along, self.t, self.loss, self.grad, gtd, width, most=left)
            self.loss, self.grad, self.t, evals = found
            optimizer._move(self.t, self.d)
        else:
            optimizer._move(self.t, self.d)
            if not last:  # nobody would read the loss of the last iteration
                self.loss = number(self.closure())
                self.grad = optimizer._flat_grad()
                evals = 1
        self.evals += evals
        self.state["func_evals"] += evals
        return (search is not None or not last) and self.largest() <= group["tolerance_grad"]


def _value(x):
    return x if x is None or isinstance(x, int | float) else value_of(x)
