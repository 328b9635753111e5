"""Teach an LSTM to continue waves: it reads 60 values and gives the next 40.

    python examples/waves.py                             on PyTorch
    python -m torchlike run examples/waves.py            on torchlike: the same losses

Prints the loss as it falls and writes waves.png to the folder --out: waves that training has not seen, and how the
model goes on.
"""

import argparse
import math
from pathlib import Path

import matplotlib.pyplot as plt
import torch
import torch.nn as nn
import torch.nn.functional as F

READ, WRITE = 60, 40


class Continue(nn.Module):
    """Values [N, T] to the value after each [N, T], and what the network remembers."""

    def __init__(self):
        super().__init__()
        self.lstm = nn.LSTM(1, 48, num_layers=2, batch_first=True)
        self.out = nn.Linear(48, 1)

    def forward(self, x, memory=None):
        states, memory = self.lstm(x[..., None], memory)
        return self.out(states).squeeze(-1), memory


def waves(n):
    """Sums of two sines of random lengths, heights and starts: [n, READ + WRITE]."""
    t = torch.arange(READ + WRITE)
    length, start = 16 + 24 * torch.rand(n, 2, 1), 2 * math.pi * torch.rand(n, 2, 1)
    height = torch.tensor([[0.7], [0.3]])
    return (height * torch.sin(2 * math.pi * t / length + start)).sum(1)


@torch.no_grad()
def go_on(model, values):
    """The WRITE values that the model puts after ``values`` [N, READ]."""
    model.eval()
    guess, memory = model(values)
    found = [guess[:, -1:]]
    for _ in range(WRITE - 1):
        guess, memory = model(found[-1], memory)
        found.append(guess)
    return torch.cat(found, 1)


def draw(path, truth, found):
    figure, axes = plt.subplots(2, 2, figsize=(10, 4.5), sharex=True, sharey=True, facecolor="white")
    for cell, wave, guess in zip(axes.flat, truth, found, strict=True):
        cell.plot(wave.numpy(), color="#9aa5b1", label="the wave")
        cell.plot(range(READ, READ + WRITE), guess.numpy(), color="#ea580c", label="the model")
        cell.axvline(READ - 0.5, color="#dde2e8")
        cell.spines[["top", "right"]].set_visible(False)
    figure.legend(*axes[0, 0].get_legend_handles_labels(), frameon=False, loc="upper center", ncols=2)
    figure.savefig(path, dpi=150, bbox_inches="tight")
    plt.close(figure)


def main(arguments=None):
    parser = argparse.ArgumentParser(description="Teach an LSTM to continue waves.")
    parser.add_argument("--steps", type=int, default=400)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, default=Path("waves-out"), help="folder for the picture")
    args = parser.parse_args(arguments)

    torch.manual_seed(args.seed)
    model = Continue()
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    scheduler = torch.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=1e-2, total_steps=args.steps)

    losses = []
    for step in range(args.steps):
        wave = waves(32)
        guess, _ = model(wave[:, :-1])
        loss = F.mse_loss(guess, wave[:, 1:])
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        scheduler.step()
        losses.append(loss.item())
        if step % 20 == 0 or step == args.steps - 1:
            print(f"step {step:4d}  loss {losses[-1]:.5f}")

    args.out.mkdir(parents=True, exist_ok=True)
    truth = waves(4)
    draw(args.out / "waves.png", truth, go_on(model, truth[:, :READ]))
    print(f"wrote {args.out / 'waves.png'}")
    return losses


if __name__ == "__main__":
    main()
