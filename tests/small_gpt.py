"""A small GPT, and some steps of its training, in any of the two libraries."""


def gpt(t, width=32, layers=2, heads=4, words=64, length=16):
    nn = t.nn

    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.before, self.after = nn.LayerNorm(width), nn.LayerNorm(width)
            self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
            self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

        def forward(self, x):
            q, k, v = self.qkv(self.before(x)).unflatten(-1, (3, heads, -1)).permute(2, 0, 3, 1, 4)
            a = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
            x = x + self.out(a.transpose(1, 2).flatten(2))
            return x + self.down(nn.functional.gelu(self.up(self.after(x))))

    class GPT(nn.Module):
        def __init__(self):
            super().__init__()
            self.tokens, self.places = nn.Embedding(words, width), nn.Embedding(length, width)
            self.blocks = nn.ModuleList([Block() for _ in range(layers)])
            self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, words, bias=False)

        def forward(self, tokens):
            x = self.tokens(tokens) + self.places(t.arange(tokens.shape[1]))
            for block in self.blocks:
                x = block(x)
            return self.head(self.norm(x))

    t.manual_seed(0)
    return GPT()


def batches(t, steps, words=64, length=16, size=16):
    g = t.Generator().manual_seed(1)
    for _ in range(steps):
        tokens = t.randint(0, words, (size, length + 1), generator=g)
        yield tokens[:, :-1].contiguous(), tokens[:, 1:].contiguous()


def trained(t, lay=lambda model: model, spread=lambda x: x, compiled=False, steps=3, **sizes):
    """(losses, model, optimizer) of some steps; ``lay`` lays out the model, ``spread`` a batch."""
    model = lay(gpt(t, **sizes)) or None
    optimizer = t.optim.AdamW(model.parameters(), lr=1e-2)

    def step(x, y):
        optimizer.zero_grad()
        loss = t.nn.functional.cross_entropy(model(x).flatten(0, 1), y.flatten())
        loss.backward()
        optimizer.step()
        return loss

    run = t.compile(step) if compiled else step
    return [run(spread(x), spread(y)).item() for x, y in batches(t, steps)], model, optimizer
