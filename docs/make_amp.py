"""Draws docs/images/amp.png, the digits example in three dtypes, with a scaler and without: ``python docs/make_amp.py``

Takes some minutes, and scikit-learn and matplotlib. Model, data and settings are those of ``examples/digits.py``; the
step is written anew, with autocast and a scaler, as one program.
"""

import importlib
import sys
from pathlib import Path

import matplotlib.pyplot as plt

import torchlike as torch

HERE = Path(__file__).parent
PICTURE = HERE / "images" / "amp.png"
INK, MUTED, FAINT = "#1f2933", "#616e7c", "#dde2e8"
EPOCHS, SMALLER = 20, 2.0**14
RUNS = {  # name: (dtype, whether a scaler takes part, how it is drawn); wide lines lie below narrow ones
    "float32": (None, False, {"color": "#c3cad3", "linewidth": 7}),
    "bfloat16": (torch.bfloat16, False, {"color": "#2563eb", "linewidth": 3.2}),
    "float16, GradScaler": (torch.float16, True, {"color": "#0b3d2e", "linewidth": 1.2}),
    "float16": (torch.float16, False, {"color": "#ea580c", "linewidth": 1.8, "linestyle": (0, (4, 2))}),
}


def example():
    """The module ``examples/digits.py``, with torchlike as its torch."""
    torch.install_as_torch()
    sys.path.insert(0, str(HERE.parent / "examples"))
    return importlib.import_module("digits")


def step_of(model, optimizer, scaler, dtype, divisor):
    """One training step as a program."""
    loss_of = torch.nn.CrossEntropyLoss()

    def step(images, labels):
        optimizer.zero_grad()
        with torch.autocast("cpu", dtype=dtype or torch.bfloat16, enabled=dtype is not None):
            loss = loss_of(model(images), labels) / divisor
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        return loss

    return torch.compile(step, fullgraph=True)


def trained(digits, name, divisor, epochs=EPOCHS):
    """The loss on the training digits, without dropout and in float32, after each epoch.

    Adam takes the same steps for a loss that is divided, if its ``eps`` is too.
    """
    dtype, scaled, _ = RUNS[name]
    torch.manual_seed(0)
    train, _ = digits.load_data()
    batches = torch.utils.data.DataLoader(train, batch_size=digits.BATCH, shuffle=True, drop_last=True)
    model = digits.Net()
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3, eps=1e-8 / divisor)
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=epochs)
    scaler = torch.amp.GradScaler("cpu", enabled=scaled)
    step = step_of(model, optimizer, scaler, dtype, divisor)
    images, labels = train.tensors
    losses = []
    for _ in range(epochs):
        model.train()
        for batch in batches:
            step(*batch)
        scheduler.step()
        model.eval()
        with torch.no_grad():
            losses.append(torch.nn.functional.cross_entropy(model(images), labels).item())
    return losses


def drawn(results):
    """The figure of ``{divisor: {name: losses}}``."""
    plt.rcParams.update({"text.color": INK, "axes.labelcolor": MUTED, "axes.edgecolor": FAINT, "font.size": 10})
    figure, both = plt.subplots(1, 2, figsize=(10, 4.2), sharey=True, facecolor="white")
    figure.subplots_adjust(left=0.07, right=0.98, bottom=0.13, top=0.82, wspace=0.08)
    titles = "Loss of the digits example", f"The same with the loss divided by {SMALLER:,.0f}"
    for axes, title, (divisor, runs) in zip(both, titles, results.items(), strict=True):
        for name, losses in runs.items():
            axes.plot(range(1, len(losses) + 1), losses, label=name, solid_capstyle="round", **RUNS[name][2])
        axes.set_title(title, loc="left", fontsize=11, weight="bold", pad=24)
        axes.text(0, 1.03, _subtitle(divisor), transform=axes.transAxes, color=MUTED, fontsize=9)
        axes.set_yscale("log")
        axes.yaxis.set_major_formatter("{x:g}")
        axes.set_xlabel("epoch")
        axes.set_xticks([1, 5, 10, 15, 20])
        axes.tick_params(which="both", colors=MUTED, length=0)
        axes.grid(axis="y", color=FAINT, linewidth=0.8)
        axes.spines[["top", "right", "left"]].set_visible(False)
    both[0].set_ylabel("cross entropy on the training digits")
    both[0].legend(frameon=False)
    return figure


def _subtitle(divisor):
    if divisor == 1.0:
        return "on the digits it was trained with, after each epoch"
    return "and Adam's eps; in float16 what is below 6e-8 becomes 0"


if __name__ == "__main__":
    digits = example()
    results = {}
    for divisor in (1.0, SMALLER):
        results[divisor] = {}
        for name in RUNS:
            results[divisor][name] = losses = trained(digits, name, divisor)
            print(f"{name}, loss / {divisor:g}: {losses[0]:.3g} ... {losses[-1]:.3g}", flush=True)
    drawn(results).savefig(PICTURE, dpi=120)
    print(PICTURE)
