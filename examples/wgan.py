"""Train a Wasserstein GAN with gradient penalty to put points on a ring, under automatic mixed precision.

    python examples/wgan.py                              on PyTorch
    python -m torchlike run examples/wgan.py             on torchlike

In float32 the losses are the same. In bfloat16 the first difference is one rounding of a float32 product in the
penalty of the first step, and the game between the networks makes it grow: after 200 steps the generator's loss is 3.37
here and 3.44 on PyTorch, whose own runs end between 3.10 and 3.57 as ONEDNN_MAX_CPU_ISA and ATEN_CPU_CAPABILITY choose
its instructions.

Prints what the critic and the generator lose and writes wgan.png to the folder --out: the points it should learn, and
those it makes. --dtype float32 turns mixed precision off.
"""

import argparse
import math
from pathlib import Path

import matplotlib.pyplot as plt
import torch
import torch.nn as nn

NOISE, WIDTH, CRITIC_STEPS, PENALTY = 4, 64, 3, 0.1


def network(inputs, outputs):
    inner = nn.Linear(inputs, WIDTH), nn.LeakyReLU(0.2), nn.Linear(WIDTH, WIDTH), nn.LeakyReLU(0.2)
    return nn.Sequential(*inner, nn.Linear(WIDTH, outputs))


def points(n):
    """Points near eight places on the unit circle: [n, 2]."""
    angle = torch.randint(8, (n,)) * (math.pi / 4)
    return torch.stack([angle.cos(), angle.sin()], 1) + 0.05 * torch.randn(n, 2)


def penalty(critic, real, made):
    """How far the critic's gradient is from length 1 between real and made points; autocast stays off for it."""
    weight = torch.rand(len(real), 1)
    between = (weight * real + (1 - weight) * made).requires_grad_()
    (grad,) = torch.autograd.grad(critic(between).sum(), between, create_graph=True)
    return (grad.norm(dim=1) - 1).square().mean()


def draw(path, real, made):
    figure, axes = plt.subplots(1, 2, figsize=(8, 4), sharex=True, sharey=True, facecolor="white")
    for cell, some, title in zip(axes, (real, made), ("the points", "what the generator makes"), strict=True):
        cell.scatter(*some.T.numpy(), s=4, alpha=0.5, color="#2563eb")
        cell.set(title=title, aspect="equal", xlim=(-1.6, 1.6), ylim=(-1.6, 1.6))
        cell.spines[["top", "right"]].set_visible(False)
    figure.savefig(path, dpi=150, bbox_inches="tight")
    plt.close(figure)


def main(arguments=None):
    parser = argparse.ArgumentParser(description="Train a WGAN-GP on points of a ring.")
    parser.add_argument("--steps", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--dtype", choices=["bfloat16", "float16", "float32"], default="bfloat16")
    parser.add_argument("--out", type=Path, default=Path("wgan-out"), help="folder for the picture")
    args = parser.parse_args(arguments)

    torch.manual_seed(args.seed)
    lower = torch.float16 if args.dtype == "float16" else torch.bfloat16
    mixed = torch.autocast("cpu", dtype=lower, enabled=args.dtype != "float32")
    scaler = torch.amp.GradScaler("cpu", enabled=args.dtype == "float16")
    generator, critic = network(NOISE, 2), network(2, 1)
    of_generator = torch.optim.Adam(generator.parameters(), lr=1e-3, betas=(0.5, 0.9))
    of_critic = torch.optim.Adam(critic.parameters(), lr=1e-3, betas=(0.5, 0.9))

    losses = []
    for step in range(args.steps):
        for _ in range(CRITIC_STEPS):
            real = points(128)
            with mixed:
                made = generator(torch.randn(128, NOISE)).detach().float()
                loss = (critic(made) - critic(real)).float().mean()
            loss = loss + PENALTY * penalty(critic, real, made)
            of_critic.zero_grad()
            scaler.scale(loss).backward()
            scaler.step(of_critic)
            scaler.update()
        with mixed:
            loss_made = -critic(generator(torch.randn(128, NOISE))).float().mean()
        of_generator.zero_grad()
        scaler.scale(loss_made).backward()
        scaler.step(of_generator)
        scaler.update()
        losses += [loss.item(), loss_made.item()]
        if step % 100 == 0 or step == args.steps - 1:
            print(f"step {step:4d}  critic {losses[-2]:+.4f}  generator {losses[-1]:+.4f}")

    args.out.mkdir(parents=True, exist_ok=True)
    with torch.no_grad():
        draw(args.out / "wgan.png", points(1000), generator(torch.randn(1000, NOISE)))
    print(f"wrote {args.out / 'wgan.png'}")
    return losses


if __name__ == "__main__":
    main()
