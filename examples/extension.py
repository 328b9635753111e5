"""An operator in C++ with its gradient: RMS normalization, checked and trained with.

    python examples/extension.py

Compiles rms_norm.cpp on the first run (a C++ compiler is needed), compares the operator with the same formula over
tensors, checks its gradient numerically, and trains a small network that contains it, eagerly and compiled.
"""

from pathlib import Path

import torchlike as torch
from torchlike import nn
from torchlike.autograd.function import once_differentiable
from torchlike.utils.cpp_extension import load


def _forward_shapes(x, weight, eps):
    """The shapes of what rms_norm returns; x and the results are tensors without numbers."""
    if tuple(weight.shape) != tuple(x.shape[-1:]):
        raise RuntimeError(f"rms_norm: weight must have the shape {list(x.shape[-1:])}, not {list(weight.shape)}")
    return torch.empty_like(x), x.new_empty(x.shape[:-1])


extension = load(
    "rms_norm",
    [Path(__file__).with_name("rms_norm.cpp")],
    results={"rms_norm": _forward_shapes, "rms_norm_backward": ("x", "weight")},
)


class RMSNormFunction(torch.autograd.Function):
    """y = x / sqrt(mean(x^2) + eps) * weight over the last dimension."""

    @staticmethod
    def forward(ctx, x, weight, eps):
        y, scale = extension.rms_norm(x, weight, eps)
        ctx.save_for_backward(x, weight, scale)
        return y

    @staticmethod
    @once_differentiable
    def backward(ctx, grad):
        return *extension.rms_norm_backward(grad, *ctx.saved_tensors), None


class RMSNorm(nn.Module):
    """The layer: [..., features] -> [..., features]."""

    def __init__(self, features, eps=1e-6):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(features))
        self.eps = eps

    def forward(self, x):
        return RMSNormFunction.apply(x, self.weight, self.eps)


def formula(x, weight, eps=1e-6):
    """The same over tensors."""
    return x * torch.rsqrt((x * x).mean(-1, keepdim=True) + eps) * weight


def check():
    """Compare values and gradients with the formula, and the gradient with finite differences."""
    x = torch.randn(4, 3, 5, dtype=torch.float64, requires_grad=True)
    weight = torch.randn(5, dtype=torch.float64, requires_grad=True)
    ours = RMSNormFunction.apply(x, weight, 1e-6)
    torch.testing.assert_close(ours, formula(x, weight))
    grad = torch.randn(4, 3, 5, dtype=torch.float64)
    torch.testing.assert_close(
        torch.autograd.grad(ours, (x, weight), grad), torch.autograd.grad(formula(x, weight), (x, weight), grad)
    )
    assert torch.autograd.gradcheck(lambda x, w: RMSNormFunction.apply(x, w, 1e-6), (x, weight))


def train(compiled):
    """The loss before and after 300 steps on a small regression."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(8, 32), RMSNorm(32), nn.Tanh(), nn.Linear(32, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    x = torch.randn(64, 8)
    y = (x[:, :1] * x[:, 1:2]).sin()

    def step():
        optimizer.zero_grad()
        loss = nn.functional.mse_loss(model(x), y)
        loss.backward()
        optimizer.step()
        return loss.detach()

    if compiled:
        step = torch.compile(step)
    losses = [float(step()) for _ in range(300)]
    return losses[0], losses[-1]


if __name__ == "__main__":
    check()
    print("values and gradients agree with the formula and with finite differences")
    for compiled in (False, True):
        first, last = train(compiled)
        print(f"{'compiled' if compiled else 'eager'}: loss {first:.4f} -> {last:.4f}")
