"""A step of training of a Llama over a mesh of devices, cut both ways: data (and state) along fsdp, layers along tp.

python -m torchlike run examples/llama.py                            # a small one, on the devices that there are
python -m torchlike plan examples/llama.py --mesh 16x16 --size 8B    # what 256 devices would need for a large one
"""

import argparse

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.checkpoint import checkpoint

from torchlike import sharding

SIZES = {
    "small": dict(width=64, layers=2, heads=4, groups=2, hidden=128, words=256, length=32, batch=8),
    "8B": dict(width=4096, layers=32, heads=32, groups=8, hidden=14336, words=128256, length=4096, batch=64),
}
RULES = {
    "(q|k|v|gate|up).weight": ("tp", "fsdp"), "(o|down).weight": ("fsdp", "tp"), "tokens|head": ("tp", "fsdp"),
}  # fmt: skip


def turned(x, cos, sin):
    """Each pair of numbers of ``x`` turned by its angle."""
    a, b = x.float().chunk(2, -1)
    return torch.cat((a * cos - b * sin, b * cos + a * sin), -1).to(x.dtype)


class Attention(nn.Module):
    def __init__(self, width, heads, groups):
        super().__init__()
        self.size = width // heads
        self.q, self.o = nn.Linear(width, width, bias=False), nn.Linear(width, width, bias=False)
        self.k, self.v = (nn.Linear(width, groups * self.size, bias=False) for _ in range(2))

    def forward(self, x, cos, sin):
        q, k, v = (f(x).unflatten(-1, (-1, self.size)).transpose(1, 2) for f in (self.q, self.k, self.v))
        q, k = turned(q, cos, sin), turned(k, cos, sin)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)
        return self.o(y.transpose(1, 2).flatten(2))


class MLP(nn.Module):
    def __init__(self, width, hidden):
        super().__init__()
        self.gate, self.up = (nn.Linear(width, hidden, bias=False) for _ in range(2))
        self.down = nn.Linear(hidden, width, bias=False)

    def forward(self, x):
        return self.down(F.silu(self.gate(x)) * self.up(x))


class Block(nn.Module):
    def __init__(self, width, heads, groups, hidden):
        super().__init__()
        self.attention, self.mlp = Attention(width, heads, groups), MLP(width, hidden)
        self.norms = nn.ModuleList([nn.RMSNorm(width, eps=1e-5) for _ in range(2)])

    def forward(self, x, cos, sin):
        x = x + self.attention(self.norms[0](x), cos, sin)
        return x + self.mlp(self.norms[1](x))


class Llama(nn.Module):
    def __init__(self, mesh, width, layers, heads, groups, hidden, words, length, **_):
        super().__init__()
        self.mesh = mesh
        self.tokens, self.head = nn.Embedding(words, width), nn.Linear(width, words, bias=False)
        self.blocks = nn.ModuleList([Block(width, heads, groups, hidden) for _ in range(layers)])
        self.norm, self.size = nn.RMSNorm(width, eps=1e-5), width // heads

    def forward(self, tokens):
        angles = torch.arange(0, self.size, 2).float().div(self.size).neg().mul(torch.log(torch.tensor(5e5))).exp()
        angles = torch.arange(tokens.shape[1]).float()[:, None] * angles
        x, cos, sin = self.tokens(tokens), angles.cos(), angles.sin()
        for block in self.blocks:  # what goes from block to block is whole along tp
            x = checkpoint(block, x.shard(self.mesh, "fsdp"), cos, sin, use_reentrant=False)
        return self.head(self.norm(x.shard(self.mesh, "fsdp"))).shard(self.mesh, ("fsdp", None, "tp"))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--size", choices=SIZES, default="small")
    parser.add_argument("--layers", type=int)
    parser.add_argument("--tp", type=int, default=16)
    parser.add_argument("--steps", type=int, default=3)
    options = parser.parse_args()
    size = SIZES[options.size] | ({"layers": options.layers} if options.layers else {})
    mesh = sharding.make_mesh(fsdp=-1, tp=options.tp)
    torch.manual_seed(0)
    model = torch.distribute(Llama(mesh, **size).bfloat16(), mesh, RULES)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)

    @torch.compile
    def step(tokens, targets):
        optimizer.zero_grad()
        loss = F.cross_entropy(model(tokens).float().flatten(0, 1), targets.flatten())
        loss.backward()
        optimizer.step()
        return loss

    for _ in range(options.steps):
        tokens = torch.randint(0, size["words"], (size["batch"], size["length"] + 1))
        tokens, targets = (x.contiguous().shard(mesh, "fsdp") for x in (tokens[:, :-1], tokens[:, 1:]))
        loss = step(tokens, targets)
    print(f"loss {loss.item():.3f}")


if __name__ == "__main__":
    main()
