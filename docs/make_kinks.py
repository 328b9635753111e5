"""Writes docs/kinks.md, its table from the derivatives themselves: ``python docs/make_kinks.py``."""

from pathlib import Path

PAGE = Path(__file__).with_name("kinks.md")
HEAD = """\
# Derivatives where there is none

Programs are full of points at which a function has no derivative: `relu` at 0, a maximum with a tie, the length of a
zero vector. PyTorch answers there too, by six rules, taken in this order: the first that fits decides. torchlike gives
the same answers, for the first derivative and for the second, run as it is or traced by `jax.jit`; `tests/ops/`
compares them with PyTorch's (`test_kinks.py`, `test_kinks_2.py`). Where PyTorch departs from its own rules, so does
torchlike.

```python
>>> import torchlike as torch
>>> inf, nan = float("inf"), float("nan")
>>> def slope(f, *point):
...     x = torch.tensor(point, requires_grad=True)
...     return (torch.autograd.grad(f(x).sum(), x)[0] + 0.0).tolist()
```

## The rules

**1. Convex around the point: the shortest subgradient.** It is the direction of steepest descent, so a step against
it never goes up. For `abs` every slope in [-1, 1] supports the graph at 0, and 0 is the shortest. Equal maxima share,
because equal weights are the shortest of all weights that sum to 1.

```python
>>> slope(torch.abs, 0.0), slope(torch.relu, 0.0)
([0.0], [0.0])
>>> slope(torch.linalg.norm, 0.0, 0.0)
[0.0, 0.0]
>>> slope(torch.amax, 2.0, 1.0, 2.0)
[0.5, 0.0, 0.5]
```

**2. Concave around the point: the shortest supergradient.** The same with the sign turned.

```python
>>> slope(lambda x: -x.abs(), 0.0)
[0.0]
>>> slope(torch.amin, 1.0, 1.0, 3.0)
[0.5, 0.5, 0.0]
```

**3. A limit: the value that makes the derivative continuous**, infinite ones included.

```python
>>> slope(torch.sqrt, 0.0), slope(torch.sinc, 0.0)
([inf], [0.0])
>>> slope(lambda x: x ** 1.5, 0.0), slope(lambda x: x ** 0.0, 0.0)
([0.0], [0.0])
>>> slope(torch.prod, 0.0, 2.0, 3.0)
[6.0, 0.0, 0.0]
```

**4. Several limits: one of them, fixed but arbitrary.** The gradient passes at the bounds of `clamp`, not at those of
`relu6`. Functions that return a place give the whole gradient to the element that they picked.

```python
>>> slope(lambda x: x.clamp(0.0, 1.0), 0.0, 1.0), slope(torch.nn.functional.relu6, 0.0, 6.0)
([1.0, 1.0], [0.0, 0.0])
>>> slope(lambda x: torch.nn.functional.leaky_relu(x, 0.25), 0.0)
[0.25]
>>> slope(lambda x: x.max(0).values, 2.0, 2.0), slope(lambda x: x.cummax(0).values, 2.0, 2.0)
([1.0, 0.0], [1.0, 1.0])
```

**5. Not defined there: NaN**, or an error where PyTorch checks.

```python
>>> slope(torch.sqrt, -1.0), slope(torch.acos, 2.0), slope(torch.atanh, nan)
([nan], [nan], [nan])
>>> try:
...     torch.linalg.inv(torch.zeros(2, 2))
... except torch.linalg.LinAlgError as error:
...     print(error)
linalg.inv: The diagonal element 1 is zero...
```

**6. Not a function in the mathematical sense: no derivative.** What returns integers or truth values does not require
grad. A few others record a node whose backward raises. Rounding is neither: its derivative is 0.

```python
>>> x = torch.tensor([0.5, -1.5], requires_grad=True)
>>> (x > 0).requires_grad, x.argmax().requires_grad, slope(torch.round, 0.5)
(False, False, [0.0])
>>> (x // 1).sum().backward()
Traceback (most recent call last):
RuntimeError: derivative for aten::floor_divide is not implemented...
```

## An untaken branch can still spoil the gradient

`torch.where` gives the branch that was not taken the gradient 0, and 0 times an infinite slope is NaN. Make the input
of the dangerous function harmless before, not its result after:

```python
>>> slope(lambda x: torch.where(x > 0, x.sqrt(), 0.0), 0.0)
[nan]
>>> slope(lambda x: torch.where(x > 0, torch.where(x > 0, x, 1.0).sqrt(), 0.0), 0.0)
[0.0]
```

For the same reason the second derivative at a kink is often NaN where the first is fine: it is that of the formula of
the first, mask included. The last column of the table shows where.

## JAX's conventions are others

jax.numpy follows the program text. Some points where that matters when code moves between the two:

```python
>>> import jax, jax.numpy as jnp
>>> float(jax.grad(lambda x: jnp.clip(x, 0.0, 1.0))(0.0)), slope(lambda x: x.clamp(0.0, 1.0), 0.0)
(0.5, [1.0])
>>> jax.grad(jnp.linalg.norm)(jnp.zeros(2)).tolist(), slope(torch.linalg.norm, 0.0, 0.0)
([nan, nan], [0.0, 0.0])
>>> jax.grad(jnp.std)(jnp.ones(2)).tolist(), slope(torch.std, 1.0, 1.0)
([nan, nan], [0.0, 0.0])
```

## Where the two may differ

- The gradient of `relu6`, `hardtanh`, `hardswish`, `hardshrink`, `softshrink`, `elu`, `celu` and `selu` at NaN depends
  in PyTorch on where in memory the element lies; here it is always that of PyTorch's vectorized loops.
- Which of several equal elements `kthvalue`, `topk` and `mode` pick is an accident of PyTorch's algorithm.
- Arithmetic with complex infinities, and with the sign of complex zeros, is that of XLA.
- Double backward through `hardsigmoid`, `cdist`, `pdist`, the margin losses, `ctc_loss` and `embedding_bag`, which
  PyTorch refuses, gives the second derivative; that of `det` is exact at singular matrices.
- The gradient of the norm of order 0 is zeros; PyTorch gives none. A zero second derivative, too, may be zeros where
  PyTorch has None.
- Backward through `slogdet` and `logdet` of a singular matrix gives NaN where PyTorch raises.

## Table

Derivative and second derivative (that of the sum of the first) of the sum of the results, at the points given. Made
from torchlike by `python docs/make_kinks.py`; a test computes it with PyTorch too.

"""
CASES = """
x.abs()                                | 0, nan
x.sign()                               | 0, 2
x.sqrt()                               | 0, inf, -1
x.rsqrt()                              | 0, inf
x.reciprocal()                         | 0, inf
x.log()                                | 0, inf, -1
x.log1p()                              | -1
x.asin()                               | 1, -1, 2
x.acosh()                              | 1
x.atanh()                              | 1
x.sinc()                               | 0, 1
x.erfinv()                             | 1, -1
x.lgamma()                             | 0
x.digamma()                            | 0
t.special.i1(x)                        | 0
t.special.entr(x)                      | 0, -1
x.logit()                              | 0, 1
x.logit(0.25)                          | 0, 0.25, 1
x.round()                              | 0.5, 1.5
x.frac()                               | 1, 0.5
x.nan_to_num()                         | nan, inf
x.angle()                              | 0, -1
x ** 0                                 | 0, inf
x ** 0.5                               | 0
x ** 1                                 | 0
x ** 1.5                               | 0
x ** 2                                 | 0, inf
x ** -1                                | 0
0.0 ** x                               | 0, 1, -1
x ** x.detach()                        | 0, 1, -1
x.detach() ** x                        | 0, 1, -1
x.clamp(0.0, 1.0)                      | 0, 1, 2, nan
x.clamp(1.0, 0.0)                      | 0.5
x % 2.0                                | 0, 2, 4
t.fmod(x, 2.0)                         | 0, 2
t.remainder(x.detach(), x)             | 2, 0
t.copysign(x, -1.0)                    | 0, 2
t.maximum(x, x.detach())               | 1, nan
t.maximum(x, t.zeros_like(x))          | 0, nan
t.fmax(x, t.zeros_like(x))             | 0, nan
t.fmin(t.zeros_like(x), x)             | 0, nan
t.atan2(x, x.detach())                 | 0, inf
t.hypot(x, x.detach())                 | 0, inf
t.xlogy(x, x.detach())                 | 0, 1
t.xlogy(x.detach(), x)                 | 0, 1
t.special.xlog1py(x, x - 1)            | 0
t.logaddexp(x, x.detach())             | 0, inf, -inf
F.relu(x)                              | 0, nan
F.relu6(x)                             | 0, 6
F.leaky_relu(x, 0.25)                  | 0
F.elu(x, 2.0)                          | 0
F.celu(x, 2.0)                         | 0
F.selu(x)                              | 0
F.prelu(x, t.tensor([0.25]).to(x))     | 0
F.threshold(x, 1.0, 5.0)               | 1
F.hardtanh(x)                          | -1, 1
F.hardswish(x)                         | -3, 3
F.hardshrink(x)                        | -0.5, 0.5
F.softshrink(x)                        | -0.5, 0.5
F.softplus(x)                          | 20, 21
F.logsigmoid(x)                        | inf, -inf
F.silu(x)                              | inf, -inf
F.l1_loss(x, t.zeros_like(x), reduction="sum")         | 0, nan
F.smooth_l1_loss(x, t.zeros_like(x), reduction="sum")  | 0, 1, -1
F.huber_loss(x, t.zeros_like(x), reduction="sum")      | 0, 1, -1
F.hinge_embedding_loss(x, -t.ones_like(x), reduction="sum") | 1, 0
F.kl_div(t.zeros_like(x), x, reduction="sum")          | 0, 1
F.binary_cross_entropy(x, t.zeros_like(x), reduction="sum") | 0, 1
x.max()                                | 2 2 1, nan 1 nan
x.amax()                               | 2 2 1
x.max(0).values                        | 2 2 1, nan 1 nan
x.median()                             | 2 2 2 1
x.median(0).values                     | 1 2 3, nan 1 nan
x.quantile(0.5)                        | 2 2 2 1, 1 2 3 4
x.cummax(0).values                     | 2 2 1
x.sort().values[0]                     | 2 1 1
x.prod()                               | 0 2 3, 0 0 3
x.cumprod(0)                           | 0 2 3, 0 0 3
x.logsumexp(0)                         | -inf -inf, inf 0
x.softmax(0)[0]                        | -inf -inf, inf 0
x.var()                                | 1 1, 1
x.std()                                | 1 1, 1
x.norm()                               | 0 0, inf 1
x.norm(p=1)                            | 0 0, 0 2
x.norm(p=0.5)                          | 0 0, 0 1
x.norm(p=3)                            | 0 0, 0 2
x.norm(p=inf)                          | 0 0, 2 -2
x.norm(p=-inf)                         | 0 0, 2 -2
F.normalize(x, dim=0)[0]               | 0 0
F.cosine_similarity(x, t.ones_like(x), dim=0) | 0 0
F.pairwise_distance(x, x.detach(), eps=0.0)   | 1 1
F.max_pool1d(x[None], 2)               | 2 2 1 nan
F.embedding(t.tensor([1, 1]), x[:, None], padding_idx=1) | 1 2
t.det(x.reshape(2, 2))                 | 1 1 1 1
"""


def cases():
    """(expression, points) of the table; a point is a list of numbers."""
    for line in CASES.strip().splitlines():
        text, _, points = line.rpartition("|")
        for point in points.split(","):
            yield text.strip(), [float(number) for number in point.split()]


def derivatives(t, text, point):
    """The first and second derivatives in the library ``t``."""
    x = t.tensor(point, dtype=t.float64, requires_grad=True)
    scope = {"t": t, "F": t.nn.functional, "x": x, "inf": float("inf")}
    (first,) = t.autograd.grad(eval(text, scope).sum(), x, create_graph=True)
    second = t.autograd.grad(first.sum(), x, allow_unused=True)[0] if first.requires_grad else None
    return (first + 0).tolist(), [0.0] * len(point) if second is None else (second + 0).tolist()


def shown(numbers):
    """Numbers as they stand in the table."""
    return " ".join(f"{number + 0.0:.4g}" for number in numbers)


def rows(t):
    """The rows of the table, computed by the library ``t``."""
    for text, point in cases():
        first, second = derivatives(t, text, point)
        yield f"| `{text}` | {shown(point)} | {shown(first)} | {shown(second)} |"


def page(t):
    """The text of docs/kinks.md."""
    lines = ["| function | at | derivative | second derivative |", "|---|---|---|---|", *rows(t)]
    return HEAD + "\n".join(lines) + "\n"


if __name__ == "__main__":
    import torchlike

    PAGE.write_text(page(torchlike))
    print(PAGE.name)
