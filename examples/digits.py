"""Train a small convolutional network on 1,797 handwritten digits, in plain PyTorch.

    python examples/digits.py                            on PyTorch
    python -m torchlike run examples/digits.py           on torchlike, unchanged

Prints the accuracy on 384 digits that training never sees, and leaves in the folder --out
digits.png (how the loss fell, and which held-out digits were misread) and model.pt (the weights).
"""

import argparse
import csv
import time
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from torch.utils.data import DataLoader, TensorDataset
from tqdm import tqdm

HELD_OUT = 384
BATCH = 64
INK, MUTED, FAINT = "#1f2933", "#616e7c", "#dde2e8"


class Net(nn.Module):
    """8x8 images with one channel to ten class scores: [N, 1, 8, 8] -> [N, 10]."""

    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(1, 32, kernel_size=3, padding=1)
        self.conv2 = nn.Conv2d(32, 64, kernel_size=3, padding=1)
        self.pool = nn.MaxPool2d(2)
        self.dropout = nn.Dropout(0.3)
        self.fc1 = nn.Linear(64 * 2 * 2, 128)
        self.fc2 = nn.Linear(128, 10)

    def forward(self, x):
        x = self.pool(F.relu(self.conv1(x)))
        x = self.pool(F.relu(self.conv2(x)))
        x = self.dropout(torch.flatten(x, 1))
        x = F.relu(self.fc1(x))
        return self.fc2(x)


def load_data():
    """The training and held-out sets, the same split in every run; images [N, 1, 8, 8], standardized."""
    digits = load_digits()
    images = digits.images.astype(np.float32)[:, None]
    train_x, test_x, train_y, test_y = train_test_split(
        images, digits.target, test_size=HELD_OUT, random_state=0, stratify=digits.target
    )
    mean, std = train_x.mean(), train_x.std()
    train = TensorDataset(torch.from_numpy((train_x - mean) / std), torch.from_numpy(train_y))
    test = TensorDataset(torch.from_numpy((test_x - mean) / std), torch.from_numpy(test_y))
    return train, test


def train_epoch(model, loader, criterion, optimizer, progress):
    model.train()
    losses = []
    for images, labels in loader:
        optimizer.zero_grad()
        loss = criterion(model(images), labels)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
        progress.update()
    return losses


@torch.no_grad()
def evaluate(model, loader, criterion):
    """Mean loss, accuracy and the predicted label of every image of the loader."""
    model.eval()
    total_loss, correct, predictions = 0.0, 0, []
    for images, labels in loader:
        scores = model(images)
        predicted = scores.argmax(dim=1)
        total_loss += criterion(scores, labels).item()
        correct += (predicted == labels).sum().item()
        predictions.append(predicted)
    return total_loss / len(loader), correct / len(loader.dataset), torch.cat(predictions)


def plot(path, step_losses, test_losses, accuracy, test, predictions):
    """One picture: on the left how the loss fell, on the right the digits that were misread."""
    plt.rcParams.update({"text.color": INK, "axes.labelcolor": MUTED, "axes.edgecolor": FAINT})
    figure = plt.figure(figsize=(11, 4.8), facecolor="white")
    left, right = figure.subfigures(1, 2, width_ratios=[1.2, 1])
    heading(left, 0.11, "Cross-entropy loss", "thin line: each training step")
    plot_losses(left, np.array(step_losses), test_losses)
    images, labels = (tensor.numpy() for tensor in test.tensors)
    predictions = predictions.numpy()
    wrong = np.flatnonzero(predictions != labels)
    titles = [f"read {predictions[i]}, is {labels[i]}" for i in wrong]
    shown = plot_images(right, images[wrong, 0], titles)
    more = f"; the first {shown} of them" if shown < len(wrong) else ""
    heading(right, 0.05, f"Held-out accuracy {accuracy:.1%}", f"{len(wrong)} of {len(labels)} misread{more}")
    figure.savefig(path, dpi=150)
    plt.close(figure)


def heading(figure, x, title, subtitle):
    figure.text(x, 0.925, title, fontsize=13, weight="bold")
    figure.text(x, 0.87, subtitle, color=MUTED)


def plot_losses(figure, step_losses, test_losses):
    epochs = len(test_losses)
    axes = figure.subplots()
    figure.subplots_adjust(left=0.11, right=0.95, bottom=0.13, top=0.83)
    step_ends = np.arange(1, len(step_losses) + 1) * epochs / len(step_losses)
    epoch_ends = np.arange(1, epochs + 1)
    means = step_losses.reshape(epochs, -1).mean(axis=1)
    axes.plot(step_ends, step_losses, color="#2563eb", alpha=0.22, linewidth=0.8)
    axes.plot(epoch_ends - 0.5, means, color="#2563eb", linewidth=2, label="training, with dropout")
    axes.plot(epoch_ends, test_losses, "o-", color="#ea580c", linewidth=2, markersize=4, label="held out")
    axes.set_yscale("log")
    axes.yaxis.set_major_formatter("{x:g}")
    axes.set_xlim(0, epochs + 0.2)
    axes.set_xlabel("epoch")
    axes.locator_params(axis="x", integer=True)
    axes.tick_params(which="both", colors=MUTED, length=0)
    axes.grid(axis="y", color=FAINT, linewidth=0.8)
    axes.spines[["top", "right", "left"]].set_visible(False)
    axes.legend(frameon=False)


def plot_images(figure, images, titles):
    """A grid as large as the images need, 24 cells at most; returns how many it shows."""
    columns = 4 if len(images) <= 12 else 6
    rows = min(4, max(2, -(-len(images) // columns)))
    cells = figure.subplots(rows, columns).ravel()
    figure.subplots_adjust(left=0.05, right=0.97, bottom=0.04, top=0.78, wspace=0.25, hspace=0.35)
    for cell in cells:
        cell.axis("off")
    for cell, image, title in zip(cells, images, titles, strict=False):
        cell.imshow(image, cmap="gray_r")
        cell.set_title(title, fontsize=8.5, pad=4, color=INK)
    return min(len(images), len(cells))


def main():
    parser = argparse.ArgumentParser(description="Train a small CNN on the scikit-learn digits.")
    parser.add_argument("--epochs", type=int, default=20)
    parser.add_argument("--lr", type=float, default=3e-3)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, default=Path("digits-out"), help="folder for the results")
    parser.add_argument("--csv", action="store_true", help="also write the loss and accuracy of every epoch")
    args = parser.parse_args()

    started = time.perf_counter()
    torch.manual_seed(args.seed)
    train, test = load_data()
    train_loader = DataLoader(train, batch_size=BATCH, shuffle=True, drop_last=True)
    test_loader = DataLoader(test, batch_size=BATCH)
    model = Net()
    criterion = nn.CrossEntropyLoss()
    optimizer = torch.optim.Adam(model.parameters(), lr=args.lr)
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=args.epochs)
    print(f"{sum(p.numel() for p in model.parameters()):,} parameters; {len(train)} digits to learn from")

    step_losses, history = [], []
    with tqdm(total=args.epochs * len(train_loader), unit="step") as progress:
        for epoch in range(1, args.epochs + 1):
            losses = train_epoch(model, train_loader, criterion, optimizer, progress)
            scheduler.step()
            test_loss, accuracy, predictions = evaluate(model, test_loader, criterion)
            step_losses += losses
            history.append((epoch, sum(losses) / len(losses), test_loss, accuracy))
            progress.set_postfix(epoch=epoch, accuracy=f"{accuracy:.1%}")

    args.out.mkdir(parents=True, exist_ok=True)
    torch.save(model.state_dict(), args.out / "model.pt")
    plot(args.out / "digits.png", step_losses, [row[2] for row in history], accuracy, test, predictions)
    if args.csv:
        with open(args.out / "digits.csv", "w", newline="") as file:
            writer = csv.writer(file)
            writer.writerow(["epoch", "train_loss", "test_loss", "test_accuracy"])
            writer.writerows(history)
    print(f"held-out accuracy {accuracy:.2%} on {len(test)} digits, in {time.perf_counter() - started:.1f} s")
    print(f"wrote {args.out / 'digits.png'}")


if __name__ == "__main__":
    main()
