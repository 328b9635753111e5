"""Train a small GPT on a page of nonsense verse, letter by letter, and let it write some.

    python examples/verse.py                             on PyTorch
    python -m torchlike run examples/verse.py            on torchlike: the same losses

Prints the loss of every tenth step and, at the end, what the model writes after "The ". On a CPU both libraries start
from the same weights and read the same lines, so the losses agree to rounding.
"""

import argparse
from pathlib import Path

import torch
import torch.nn as nn
import torch.nn.functional as F

TEXT = Path(__file__).parent / "data" / "verse.txt"  # Lewis Carroll, 1871: Jabberwocky, The Walrus and the Carpenter
CONTEXT, WIDTH, HEADS, LAYERS = 64, 64, 4, 2


class Block(nn.Module):
    """Attention to earlier letters, then a network for each letter: [N, T, WIDTH] -> [N, T, WIDTH]."""

    def __init__(self):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.qkv, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.mlp = nn.Sequential(nn.Linear(WIDTH, 4 * WIDTH), nn.GELU(), nn.Linear(4 * WIDTH, WIDTH), nn.Dropout(0.1))

    def forward(self, x):
        n, t, _ = x.shape
        parts = self.qkv(self.norm1(x)).view(n, t, 3, HEADS, WIDTH // HEADS).permute(2, 0, 3, 1, 4)
        seen = F.scaled_dot_product_attention(*parts, is_causal=True)
        x = x + self.out(seen.transpose(1, 2).reshape(n, t, WIDTH))
        return x + self.mlp(self.norm2(x))


class GPT(nn.Module):
    """Letters [N, T] to the scores of each next one [N, T, letters]."""

    def __init__(self, letters):
        super().__init__()
        self.letter, self.place = nn.Embedding(letters, WIDTH), nn.Embedding(CONTEXT, WIDTH)
        self.blocks = nn.Sequential(*[Block() for _ in range(LAYERS)])
        self.norm, self.head = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, letters, bias=False)

    def forward(self, x):
        return self.head(self.norm(self.blocks(self.letter(x) + self.place.weight[: x.shape[1]])))


def batch(data, size):
    """Pieces of the text and the same pieces one letter on."""
    starts = torch.randint(len(data) - CONTEXT - 1, (size,))
    pieces = torch.stack([data[i : i + CONTEXT + 1] for i in starts.tolist()])
    return pieces[:, :-1], pieces[:, 1:]


@torch.no_grad()
def write(model, text, letters, n):
    """``text`` and the ``n`` letters that the model finds likeliest after it."""
    model.eval()
    codes = torch.tensor([[letters.index(c) for c in text]])
    for _ in range(n):
        codes = torch.cat([codes, model(codes[:, -CONTEXT:])[:, -1].argmax(-1, keepdim=True)], 1)
    return "".join(letters[i] for i in codes[0].tolist())


def main(arguments=None):
    parser = argparse.ArgumentParser(description="Train a small GPT on nonsense verse.")
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args(arguments)

    torch.manual_seed(args.seed)
    text = TEXT.read_text()
    letters = sorted(set(text))
    data = torch.tensor([letters.index(c) for c in text])
    model = GPT(len(letters))
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    print(f"{sum(p.numel() for p in model.parameters()):,} parameters; {len(text):,} letters, {len(letters)} kinds")

    losses = []
    for step in range(args.steps):
        x, y = batch(data, 32)
        loss = F.cross_entropy(model(x).flatten(0, 1), y.flatten())
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        losses.append(loss.item())
        if step % 10 == 0 or step == args.steps - 1:
            print(f"step {step:4d}  loss {losses[-1]:.4f}")
    print(write(model, "The ", letters, 200))
    return losses


if __name__ == "__main__":
    main()
