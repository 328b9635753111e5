"""Programs that are traced: each is a function of a library that gives what is traced, and what it is called with."""

import math
import operator

PROGRAMS = {}


def program(make):
    """``make(t)`` gives ``(root, inputs)`` or ``(root, inputs, concrete_args)``."""
    PROGRAMS[make.__name__] = make
    return make


def numbers(t, *shape):
    """Numbers in both libraries the same: a ramp of this shape."""
    count = math.prod(shape)
    return (t.arange(float(count)).reshape(shape) - count / 2) / max(count, 1)


def filled(module, t):
    """The module, with parameters and buffers that are ramps."""
    for value in [*module.parameters(), *module.buffers()]:
        if value.is_floating_point():
            value.data = numbers(t, *value.shape).abs() + 0.1
    return module.eval()


@program
def function(t):
    return (lambda x, y: t.relu(x + y) * 2), (numbers(t, 3), numbers(t, 3))


@program
def mlp(t):
    return t.nn.Sequential(t.nn.Linear(4, 5), t.nn.ReLU(), t.nn.Linear(5, 2)), (numbers(t, 3, 4),)


@program
def conv_bn(t):
    class ConvBn(t.nn.Module):
        def __init__(self):
            super().__init__()
            self.conv = t.nn.Conv2d(1, 2, 3, padding=1)
            self.bn = t.nn.BatchNorm2d(2)

        def forward(self, x):
            return t.nn.functional.max_pool2d(t.nn.functional.relu(self.bn(self.conv(x))), 2)

    return ConvBn(), (numbers(t, 1, 1, 4, 4),)


@program
def residual(t):
    class Block(t.nn.Module):
        def __init__(self, c):
            super().__init__()
            self.conv1 = t.nn.Conv2d(c, c, 3, padding=1, bias=False)
            self.bn1 = t.nn.BatchNorm2d(c)
            self.relu = t.nn.ReLU(inplace=True)
            self.downsample = None

        def forward(self, x):
            identity = x
            out = self.relu(self.bn1(self.conv1(x)))
            if self.downsample is not None:
                identity = self.downsample(x)
            out += identity
            return self.relu(out)

    class Net(t.nn.Module):
        def __init__(self):
            super().__init__()
            self.layer1 = t.nn.Sequential(Block(2), Block(2))
            self.avgpool = t.nn.AdaptiveAvgPool2d((1, 1))
            self.fc = t.nn.Linear(2, 3)

        def forward(self, x):
            x = self.layer1(x)
            x = self.avgpool(x)
            x = t.flatten(x, 1)
            return self.fc(x)

    return Net(), (numbers(t, 1, 2, 4, 4),)


@program
def concrete_branch(t):
    def f(x, flag, n=3):
        return x + n if flag else x - n

    return f, (numbers(t, 3), True, 3), {"flag": True}


@program
def concrete_tree(t):
    def f(x):
        return x["a"] + x["b"][0] * x["b"][1]

    PH = type(t.fx.PH)
    assert PH
    inputs = {"a": numbers(t, 2), "b": [numbers(t, 2), numbers(t, 2)]}
    return f, (inputs,), {"x": {"a": t.fx.PH, "b": [t.fx.PH, t.fx.PH]}}


@program
def keywords(t):
    def f(x, *, scale=2.0, shift=None):
        return t.nn.functional.softmax(x * scale, dim=-1)

    return f, (numbers(t, 2, 3),)


@program
def defaults(t):
    def f(x, a: int = 3, b="text", c=None, d=1.5):
        return x * a + d

    return f, (numbers(t, 3),)


@program
def annotated(t):
    def f(x: t.Tensor, y: t.Tensor, n: int = 2) -> t.Tensor:
        return x @ y.t() + n

    return f, (numbers(t, 2, 3), numbers(t, 2, 3))


@program
def slices(t):
    def f(x):
        return x[0], x[:, 1:], x[..., None], x[:, -1], x[1:2, ::2], x[x.shape[0] - 1 :]

    return f, (numbers(t, 3, 4),)


@program
def attributes(t):
    def f(x):
        b, c = x.size(0), x.shape[1]
        return x.view(b, c, 1).T, x.dtype, x.ndim, x.real

    return f, (numbers(t, 2, 3),)


@program
def nested(t):
    class Inner(t.nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = t.nn.Parameter(t.ones(3))
            self.register_buffer("offset", t.ones(3))

        def forward(self, x):
            return x * self.weight + self.offset

    class Outer(t.nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = Inner()
            self.list = t.nn.ModuleList([Inner(), t.nn.Linear(3, 3)])
            self.dict = t.nn.ModuleDict({"a": t.nn.Tanh()})
            self.plain = t.ones(3)

        def forward(self, x):
            x = self.inner(x)
            for m in self.list:
                x = m(x)
            return self.dict["a"](x) + self.plain - self.inner.weight

    return Outer(), (numbers(t, 2, 3),)


@program
def reflected(t):
    def f(x):
        return 1 + x, 2 - x, 3 * x, 4 / x, 2**x, -x, abs(x), 7 // x, 5 % x, ~(x > 0), x @ x.T

    return f, (numbers(t, 3, 3) + 1,)


@program
def parameters(t):
    class P(t.nn.Module):
        def __init__(self):
            super().__init__()
            self.w = t.nn.Parameter(t.ones(3))

        def forward(self, x):
            return self.w + x, x + self.w, self.w[0] * x, t.matmul(self.w, x), self.w * 2

    return P(), (numbers(t, 3),)


@program
def inplace(t):
    def f(x):
        x = x.clone()
        x += 1
        x.add_(2).mul_(3)
        x -= 1
        x *= 2
        return x.relu_()

    return f, (numbers(t, 3),)


@program
def methods(t):
    def f(x):
        y = x.transpose(0, 1).contiguous().view(-1)
        z = x.permute(1, 0).reshape(2, -1).unsqueeze(dim=0)
        return y.sum(), z.mean(dim=-1, keepdim=True), x.to(t.float64), x.chunk(2, dim=1)

    return f, (numbers(t, 3, 4),)


@program
def functional(t):
    F = t.nn.functional

    def f(x, w, b):
        h = F.linear(x, w, b)
        h = F.gelu(h) + F.silu(h) + F.softplus(h) + F.logsigmoid(h) + F.leaky_relu(h, 0.1) + F.elu(h)
        h = F.dropout(h, 0.5, training=False)
        h = F.layer_norm(h, (2,))
        return F.mse_loss(h, x[:, :2]), F.log_softmax(h, -1), F.normalize(h), F.pad(h, (1, 1)), F.threshold(h, 0.1, 2)

    return f, (numbers(t, 4, 3), numbers(t, 2, 3), numbers(t, 2))


@program
def namespaces(t):
    def f(x):
        y = t.linalg.norm(x) + t.fft.fft(x).real.sum() + t.special.expit(x).sum() + t.linalg.inv(x).sum()
        y = y + t.einsum("ij,ij->", x, x) + t.norm(x) + t.stack([x, x]).sum() + t.cat((x, x), dim=1).sum()
        a, b = t.split(x, 1, dim=0)
        return y, a, b, t.where(x > 0, x, t.zeros_like(x)), t.max(x, dim=1)[0], t.topk(x, 1).values

    return f, (numbers(t, 2, 2) + t.eye(2),)


@program
def constants(t):
    k = t.ones(3)

    class C(t.nn.Module):
        def forward(self, x):
            return x + k, t.tensor([1.0, 2.0, 3.0]) * x, t.zeros(3) + x

    return C(), (numbers(t, 3),)


@program
def containers(t):
    def f(x, pair):
        a, b = pair[0], pair[1]
        return {"sum": a + b, "list": [x, (a, None)], "slice": slice(0, 2), "n": 3}

    return f, (numbers(t, 3), (numbers(t, 3), numbers(t, 3)))


@program
def unpacked(t):
    def f(pair):
        a, b = pair
        return a * b

    return f, ((numbers(t, 3), numbers(t, 3)),)


@program
def variadic(t):
    def f(x, *rest, **options):
        return x

    return f, (numbers(t, 3),)


@program
def dtypes(t):
    def f(x):
        y = t.ones_like(x, dtype=t.float64, device="cpu") + t.full((2,), 3.0, dtype=t.float64)
        return y.to(dtype=t.int64), x.to(t.device("cpu")), x.new_zeros(2), x.type(t.float16), x * float("inf")

    return f, (numbers(t, 2),)


@program
def builtin_names(t):
    def f(len, str, x_1, x):
        return len + str + x_1 + x + x

    return f, tuple(numbers(t, 2) for _ in range(4))


@program
def mathematics(t):
    def f(x):
        return math.sqrt(x.size(0)) * x / math.pow(x.size(-1), 2)

    return f, (numbers(t, 2, 3),)


@program
def operators(t):
    def f(x):
        return operator.add(x, x), operator.getitem(x, 0), operator.neg(x), x.T, operator.matmul(x, x)

    return f, (numbers(t, 2, 2),)


@program
def comparisons(t):
    def f(x, y):
        return (x == y) | (x < y) & (x >= 0) ^ (x != 1), x << 1, x >> 1

    return f, (t.arange(3), t.arange(3))


@program
def attention(t):
    class Attention(t.nn.Module):
        def __init__(self):
            super().__init__()
            self.qkv = t.nn.Linear(4, 12)
            self.out = t.nn.Linear(4, 4)
            self.heads, self.scale = 2, 2**-0.5

        def forward(self, x):
            b, n, c = x.shape[0], x.shape[1], x.shape[2]
            qkv = self.qkv(x).reshape(b, n, 3, self.heads, c // self.heads).permute(2, 0, 3, 1, 4)
            q, k, v = qkv[0], qkv[1], qkv[2]
            attn = (q @ k.transpose(-2, -1)) * self.scale
            return self.out((attn.softmax(dim=-1) @ v).transpose(1, 2).reshape(b, n, c))

    return Attention(), (numbers(t, 1, 3, 4),)


@program
def reused(t):
    class Reused(t.nn.Module):
        def __init__(self):
            super().__init__()
            self.fc1 = t.nn.Linear(3, 3)
            self.fc_10 = t.nn.Linear(3, 3)
            self.alias = self.fc1

        def forward(self, x):
            return self.fc1(x) + self.alias(x) + self.fc_10(self.fc1(x))

    return Reused(), (numbers(t, 2, 3),)


@program
def returns_none(t):
    def f(x):
        x + 1

    return f, (numbers(t, 2),)


@program
def returns_input(t):
    return (lambda x: x), (numbers(t, 2),)


@program
def keyword_module(t):
    class Scale(t.nn.Module):
        def __init__(self):
            super().__init__()
            self.bilinear = t.nn.Bilinear(2, 2, 2)
            self.drop = t.nn.Dropout(0.1)

        def forward(self, a, b):
            return self.drop(self.bilinear(a, input2=b))

    return Scale(), (numbers(t, 2, 2), numbers(t, 2, 2))


@program
def embedding(t):
    class Model(t.nn.Module):
        def __init__(self):
            super().__init__()
            self.embed = t.nn.Embedding(5, 4)
            self.norm = t.nn.LayerNorm(4)
            self.act = t.nn.GELU()
            self.head = t.nn.Sequential(t.nn.Linear(4, 4), t.nn.Tanh())

        def forward(self, ids):
            x = self.act(self.norm(self.embed(ids)))
            return self.head(x).mean(1)

    return Model(), (t.tensor([[1, 2, 3]]),)
