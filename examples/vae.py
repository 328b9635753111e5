"""Train a variational autoencoder on handwritten digits and let it draw new ones.

    python examples/vae.py                               on PyTorch
    python -m torchlike run examples/vae.py              on torchlike: the same losses

Prints the loss of every fifth epoch and writes vae.png to the folder --out: digits as they are, as the model gives them
back, and new ones from random codes.
"""

import argparse
from pathlib import Path

import matplotlib.pyplot as plt
import torch
import torch.nn as nn
import torch.nn.functional as F
from sklearn.datasets import load_digits
from torch.distributions import Normal, kl_divergence
from torch.utils.data import DataLoader, TensorDataset

CODE, BETA = 8, 0.25  # less than 1: codes say more of their image, and cost more


class VAE(nn.Module):
    """8x8 images as [N, 64] in 0..1, their codes [N, CODE], and images again."""

    def __init__(self):
        super().__init__()
        self.encoder = nn.Sequential(nn.Linear(64, 256), nn.SiLU(), nn.Linear(256, 2 * CODE))
        self.decoder = nn.Sequential(nn.Linear(CODE, 256), nn.SiLU(), nn.Linear(256, 64))

    def forward(self, x):
        mean, spread = self.encoder(x).chunk(2, dim=1)
        code = Normal(mean, F.softplus(spread) + 1e-4)
        return self.decoder(code.rsample()), code


def loss_of(scores, images, code):
    """What an image loses on its way through the code, and BETA times what the code tells: in nats."""
    error = F.binary_cross_entropy_with_logits(scores, images, reduction="sum")
    prior = Normal(torch.zeros_like(code.loc), torch.ones_like(code.scale))
    return (error + BETA * kl_divergence(code, prior).sum()) / len(images)


@torch.no_grad()
def draw(path, model, images):
    rows = [images, model(images)[0].sigmoid(), model.decoder(torch.randn(len(images), CODE)).sigmoid()]
    figure, axes = plt.subplots(3, len(images), figsize=(len(images), 3.2), facecolor="white")
    for cells, row, title in zip(axes, rows, ("given", "given back", "new"), strict=True):
        for cell, image in zip(cells, row, strict=True):
            cell.imshow(image.view(8, 8).numpy(), cmap="gray_r", vmin=0, vmax=1)
            cell.set(xticks=[], yticks=[])
            cell.spines[:].set_visible(False)
        cells[0].set_ylabel(title, rotation=0, ha="right", va="center")
    figure.savefig(path, dpi=150, bbox_inches="tight")
    plt.close(figure)


def main(arguments=None):
    parser = argparse.ArgumentParser(description="Train a variational autoencoder on the scikit-learn digits.")
    parser.add_argument("--epochs", type=int, default=80)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, default=Path("vae-out"), help="folder for the picture")
    args = parser.parse_args(arguments)

    torch.manual_seed(args.seed)
    images = torch.tensor(load_digits().data / 16, dtype=torch.float32)
    loader = DataLoader(TensorDataset(images), batch_size=128, shuffle=True, drop_last=True)
    model = VAE()
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)

    losses = []
    for epoch in range(1, args.epochs + 1):
        for (batch,) in loader:
            scores, code = model(batch)
            loss = loss_of(scores, batch, code)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
        mean = sum(losses[-len(loader) :]) / len(loader)
        if epoch % 5 == 0 or epoch == args.epochs:
            print(f"epoch {epoch:3d}  loss {mean:.3f} nats an image")

    args.out.mkdir(parents=True, exist_ok=True)
    draw(args.out / "vae.png", model, images[:12])
    print(f"wrote {args.out / 'vae.png'}")
    return losses


if __name__ == "__main__":
    main()
