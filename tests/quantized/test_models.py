"""Models that are quantized in eager mode: layers, observation, conversion, training and dynamic quantization."""

import contextlib
import copy
import io
import re
import subprocess
import sys

import numpy as np
import pytest
import torch
from both import agree, agree_error
from quantized_kit import FILTER, Q, numbers, told

import torchlike

pytestmark = FILTER


def q(t):
    return t.ao.quantization


def same(t, module, other=None):
    """``module`` with parameters that do not depend on the library."""
    generator = np.random.default_rng(1)
    for parameter in module.parameters():
        new = generator.normal(0, 0.5, tuple(parameter.shape)).astype(np.float32)
        parameter.data.copy_(t.from_numpy(np.atleast_1d(new)).reshape(parameter.shape))
    for name, buffer in module.named_buffers():
        if "running_var" in name:
            buffer.copy_(t.from_numpy(generator.uniform(0.5, 2, tuple(buffer.shape)).astype(np.float32)))
    return module


def images(t, seed=0, n=2):
    return numbers(t, n, 3, 8, 8, seed=seed, spread=1.0)


class Net:
    """Makes a network of either library, with a convolution, a batch norm, a sum, pooling and linear layers."""

    def __new__(cls, t):
        class Net(t.nn.Module):
            def __init__(self):
                super().__init__()
                nn = t.nn
                self.quant, self.dequant = q(t).QuantStub(), q(t).DeQuantStub()
                self.conv, self.bn, self.relu = nn.Conv2d(3, 4, 3, padding=1), nn.BatchNorm2d(4), nn.ReLU()
                self.second, self.sum = nn.Conv2d(4, 4, 1, bias=False), t.ao.nn.quantized.FloatFunctional()
                self.pool, self.mean = nn.MaxPool2d(2), nn.AdaptiveAvgPool2d(1)
                self.head = nn.Sequential(nn.Linear(4, 6), nn.ReLU(), nn.Dropout(0.0), nn.Linear(6, 2))

            def forward(self, x):
                x = self.relu(self.bn(self.conv(self.quant(x))))
                x = self.sum.add_relu(x, self.second(x))
                x = self.mean(self.pool(x)).flatten(1)
                return self.dequant(self.head(x))

        return same(t, Net())


def plain(x):
    """What is compared of an entry of a state dict: integers, or numbers."""
    return x.int_repr() if getattr(x, "is_quantized", False) else x.detach() if hasattr(x, "detach") else str(x)


FUSED = [["conv", "bn", "relu"], ["head.0", "head.1"]]


def text(t, module):
    shown = repr(module).replace("torchlike.", "torch.")
    return re.sub(r"-?\d+\.\d+(e-?\d+)?", lambda found: f"{float(found[0]):.3g}", shown)


@pytest.mark.parametrize("backend", ["x86", "onednn"])
def test_static(backend):
    def f(t):
        model = Net(t).eval()
        model.qconfig = q(t).get_default_qconfig(backend)
        model = q(t).fuse_modules(model, FUSED)
        ready = q(t).prepare(model)
        floats = [ready(images(t, seed)) for seed in range(2)]
        made = q(t).convert(ready)
        state = {k: [plain(x) for x in (v if isinstance(v, tuple) else (v,))] for k, v in made.state_dict().items()}
        return text(t, ready), floats, text(t, made), state, made(images(t, 3)), hasattr(made.conv, "qconfig")

    agree(f)


def test_training():
    def f(t):
        model = Net(t).train()
        model.qconfig = q(t).get_default_qat_qconfig("x86")
        model = q(t).prepare_qat(q(t).fuse_modules_qat(model, FUSED))
        optimizer, losses = t.optim.SGD(model.parameters(), 0.05), []
        for seed in range(3):
            optimizer.zero_grad()
            loss = model(images(t, seed)).square().mean()
            loss.backward()
            optimizer.step()
            losses.append(loss)
        model.apply(q(t).disable_observer)
        model.apply(t.ao.nn.intrinsic.qat.freeze_bn_stats)
        made = q(t).convert(model.eval())
        return text(t, model), losses, made(images(t, 4)), [*made.state_dict()]

    agree(f)


LAYERS = {
    "linear": (lambda t: t.nn.Linear(40, 30), (5, 40)), "no bias": (lambda t: t.nn.Linear(40, 30, bias=False), (5, 40)),
    "conv1d": (lambda t: t.nn.Conv1d(3, 4, 3, stride=2, padding=1), (2, 3, 9)),
    "conv2d": (lambda t: t.nn.Conv2d(4, 6, 3, dilation=2, groups=2, bias=False), (2, 4, 9, 8)),
    "conv3d": (lambda t: t.nn.Conv3d(2, 3, 2), (1, 2, 4, 4, 4)), "relu6": (lambda t: t.nn.ReLU6(), (3, 40)),
    "reflect": (lambda t: t.nn.Conv2d(2, 3, 3, padding=1, padding_mode="reflect"), (1, 2, 5, 5)),
    "batch norm": (lambda t: t.nn.BatchNorm2d(3), (2, 3, 4, 4)), "sigmoid": (lambda t: t.nn.Sigmoid(), (3, 40)),
    "hardswish": (lambda t: t.nn.Hardswish(), (3, 40)), "elu": (lambda t: t.nn.ELU(), (3, 40)),
    "leaky": (lambda t: t.nn.LeakyReLU(), (3, 40)), "layer norm": (lambda t: t.nn.LayerNorm(40), (3, 40)),
    "group norm": (lambda t: t.nn.GroupNorm(2, 4), (2, 4, 5, 5)), "dropout": (lambda t: t.nn.Dropout(), (3, 40)),
    "fused": (lambda t: t.ao.nn.intrinsic.LinearReLU(t.nn.Linear(40, 30), t.nn.ReLU()), (5, 40)),
    "bn relu": (lambda t: t.ao.nn.intrinsic.BNReLU2d(t.nn.BatchNorm2d(3), t.nn.ReLU()), (2, 3, 4, 4)),
}  # fmt: skip


@pytest.mark.parametrize("name", LAYERS)
def test_layers(name):
    make, shape = LAYERS[name]

    def f(t):
        model = q(t).QuantWrapper(same(t, make(t))).eval()
        model.qconfig = q(t).get_default_qconfig()
        ready = q(t).prepare(model)
        ready(numbers(t, *shape, spread=1.0))
        made = q(t).convert(ready)
        out = made.module(made.quant(numbers(t, *shape, seed=2, spread=1.0)))
        return text(t, made), told(out)[:4], copy.deepcopy(made)(numbers(t, *shape, spread=1.0))

    agree(f)


TRANSPOSED = {
    "1d": lambda nn: nn.ConvTranspose1d(4, 6, 3, groups=2), "2d": lambda nn: nn.ConvTranspose2d(4, 6, 3, dilation=2),
    "options": lambda nn: nn.ConvTranspose2d(4, 6, 3, 2, 1, 1, 2, False, 2),
    "3d": lambda nn: nn.ConvTranspose3d(4, 2, 2),
}  # fmt: skip


@contextlib.contextmanager
def engine(t, name):
    before, t.backends.quantized.engine = t.backends.quantized.engine, name
    try:
        yield
    finally:
        t.backends.quantized.engine = before


@pytest.mark.parametrize("name", TRANSPOSED)
def test_transposed_convolutions(name):
    def f(t):
        with engine(t, "fbgemm"):  # PyTorch's other one is wrong by half of the range on some processors
            return converted(t)

    def converted(t):
        model = q(t).QuantWrapper(same(t, TRANSPOSED[name](t.nn))).eval()
        shape = (2, 4, *[5] * (model.module.weight.ndim - 2))
        model.qconfig = q(t).default_qconfig  # of 7 bits: sums of two products of 8 overflow in PyTorch
        ready = q(t).prepare(model)
        ready(numbers(t, *shape, spread=1.0))
        made = q(t).convert(ready)
        out = made.module(made.quant(numbers(t, *shape, seed=2, spread=1.0)))
        return text(t, made), told(out)[:4], [*made.state_dict()], copy.deepcopy(made)(numbers(t, *shape, spread=1.0))

    agree(f)


def test_sums_and_products_with_numbers():
    def f(t):
        k, kinds = t.ao.nn.quantized.QFunctional(), [(0.05, 128), (0.05, 3), (0.03, 250), (0.05, 50)]
        xs = [Q(t, shape=(16,), scale=scale, zero_point=zero_point) for scale, zero_point in kinds]
        numbers = (0.0, 0.07, 0.025, 1.0, -3.0, 8.0, -20.0, 6.4)
        return told([g(x, y) for x in xs for y in numbers for g in (k.add_scalar, k.mul_scalar)])

    agree(f)


def test_states_travel():
    def made(t, train):
        model = Net(t).eval()
        model.qconfig = q(t).get_default_qconfig()
        ready = q(t).prepare(model)
        if train:
            ready(images(t, 7))
        return q(t).convert(ready)

    def f(t):
        file = io.BytesIO()
        first, second = made(t, True), made(t, False)
        t.save(first.state_dict(), file)
        file.seek(0)
        second.load_state_dict(t.load(file))
        return [*first.state_dict()], second(images(t)), first(images(t))

    agree(f)


def recurrent(t, kind, **options):
    return same(t, getattr(t.nn, kind)(5, 4, **options))


DYNAMIC = {
    "linear": lambda t: t.nn.Sequential(t.nn.Linear(5, 8), t.nn.ReLU(), t.nn.Linear(8, 3, bias=False)),
    "lstm": lambda t: t.nn.ModuleList([t.nn.LSTM(5, 4, num_layers=2, bidirectional=True, batch_first=True)]),
    "gru": lambda t: t.nn.ModuleList([t.nn.GRU(5, 4)]), "lstm cell": lambda t: t.nn.ModuleList([t.nn.LSTMCell(5, 4)]),
    "gru cell": lambda t: t.nn.ModuleList([t.nn.GRUCell(5, 4)]),
    "cell": lambda t: t.nn.ModuleList([t.nn.RNNCell(5, 4, nonlinearity="relu")]),
}  # fmt: skip


@pytest.mark.parametrize("name", DYNAMIC)
def test_dynamic(name):
    def f(t):
        model = same(t, DYNAMIC[name](t))
        t.manual_seed(0)
        made, drawn = q(t).quantize_dynamic(model), t.rand(2)
        x = numbers(t, 6, 2, 5)
        run = made if name == "linear" else made[0]
        out = run(x[0] if "cell" in name else x)
        plain = [(o.detach() * 1000).round() for o in _flat(out)]
        return text(t, made), plain, made.training, hasattr(made, "qconfig"), drawn

    agree(f)


def _flat(x):
    return [y for part in x for y in _flat(part)] if isinstance(x, tuple) else [x]


def test_kinds_of_dynamic():
    def f(t):
        k, model = q(t), same(t, t.nn.Sequential(t.nn.Linear(5, 8), t.nn.LSTM(8, 3)))
        halves = k.quantize_dynamic(model, dtype=t.float16)
        some = k.quantize_dynamic(model, {"0": k.default_dynamic_qconfig})
        channels = k.quantize_dynamic(model, {t.nn.Linear: k.per_channel_dynamic_qconfig})
        x = numbers(t, 6, 2, 5)
        return (
            text(t, halves), text(t, some), text(t, channels), halves[0](x).detach(), channels[0](x).detach(),
            (some[1](some[0](x).detach())[0] * 1000).round(),
        )  # fmt: skip

    agree(f)
    agree_error(lambda t: q(t).quantize_dynamic(t.nn.Linear(2, 2), dtype=t.int32), "default settings")


def test_embeddings():
    def f(t):
        k = q(t)
        model = t.nn.Sequential(same(t, t.nn.Embedding(7, 5)))
        model.qconfig = k.float_qparams_weight_only_qconfig
        made = k.convert(k.prepare(model))
        bags = k.quantize_dynamic(t.nn.Sequential(same(t, t.nn.EmbeddingBag(7, 5, mode="sum"))), dtype=t.quint8)
        places = t.tensor([1, 6, 0, 1])
        return made(places), bags[0](places, t.tensor([0, 3])), text(t, made)

    agree(f)


def test_functions():
    def f(t):
        k, f = t.ao.nn.quantized.QFunctional(), t.ao.nn.quantized.functional
        k.scale, k.zero_point = 0.2, 30
        a, b = Q(t, shape=(2, 64)), Q(t, shape=(2, 64), scale=0.033, seed=3)
        w = t.quantize_per_tensor(numbers(t, 6, 64, spread=0.5), 0.01, 0, t.qint8)
        return told([
            k.mul(a, b), k.cat([a, b], 1), k.mul_scalar(a, 0.5), f.linear(a, w, t.ones(6), 0.3, 100),
            f.hardswish(a, 0.1, 5), f.celu(a, 0.2, 5), f.clamp(a, -1.0, 1.0), f.max_pool2d(Q(t, shape=(1, 2, 4, 4)), 2),
        ]), repr(k)  # fmt: skip

    agree(f)


def test_operators_of_torch_ops():
    def f(t):
        o, a, b = t.ops.quantized, Q(t, shape=(2, 64)), Q(t, shape=(2, 64), scale=0.033, seed=3)
        turned = Q(t, shape=(2, 3, 4, 5)).contiguous(memory_format=t.channels_last)
        strides = o.add(turned, turned, 0.2, 5).stride(), o.mul(turned, turned, scale=0.2, zero_point=5).stride()
        return told([
            o.add(a, b, 0.2, 30), o.add_relu(a, b, 0.2, 30), o.mul(a, b, 0.2, 30), o.mul_relu(a, b, 0.2, 30),
            o.cat([a, b], 1, 0.2, 30), o.cat([a, b], 0, None, None), o.cat_relu([a, b], 1, 0.2, 30), o.add(a, 0.3),
            o.matmul(a, b.t(), 3.0, 100), o.mul(a, -0.3), o.add_relu(a, -1), o.mul_scalar_relu(a, 2),
            o.add(a, a[:1], 1, 3),
        ]), strides  # fmt: skip

    agree(f)
    agree_error(lambda t: t.ops.quantized.add(Q(t), Q(t)), "missing value for argument 'scale'")
    agree_error(lambda t: t.ops.quantized.add(t.ones(2), t.ones(2), 1.0, 0), "quantized::add")


def test_layers_draw_as_many_numbers():
    def f(t):
        nni, setting, out = t.ao.nn.intrinsic, q(t).get_default_qat_qconfig(), []
        for bias in (True, False):
            for kind, layer in (("ConvBnReLU2d", nni.ConvBnReLU2d), ("ConvBn2d", nni.ConvBn2d)):
                parts = [t.nn.Conv2d(2, 3, 3, bias=bias), t.nn.BatchNorm2d(3), t.nn.ReLU()]
                made = layer(*parts[: 3 if "ReLU" in kind else 2])
                made.qconfig = setting
                t.manual_seed(0)
                getattr(nni.qat, kind).from_float(made)
                out.append(t.rand(2))
        t.manual_seed(0)
        nni.qat.LinearBn1d(3, 4, qconfig=setting)
        return out, t.rand(2)

    agree(f)


def test_subclasses_of_sequential():
    def f(t):
        class Block(t.nn.Sequential):
            pass

        model = q(t).QuantWrapper(Block(t.nn.Linear(40, 30), Block(t.nn.ReLU(), t.nn.Linear(30, 2)))).eval()
        model.qconfig = q(t).get_default_qconfig()
        ready = q(t).prepare(same(t, model))
        ready(numbers(t, 5, 40))
        return text(t, q(t).convert(ready)), q(t).convert(ready)(numbers(t, 3, 40, seed=1))

    agree(f)


def test_wrapping():
    def f(t):
        model = t.nn.Sequential(t.nn.Linear(2, 2), t.nn.Sequential(t.nn.Linear(2, 2)))
        model[1][0].qconfig = q(t).default_qconfig
        plain = t.nn.Sequential(t.nn.Linear(2, 2))
        return text(t, q(t).add_quant_dequant(model)), text(t, q(t).prepare(plain))

    agree(f)


def test_fused_layers():
    def f(t):
        nn, out = t.nn, []
        x = numbers(t, 4, 3, 6, 6)
        for layers in ([nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4)], [nn.ConvTranspose2d(3, 4, 3), nn.BatchNorm2d(4)],
                       [nn.BatchNorm2d(3), nn.ReLU()], [nn.Conv2d(3, 4, 3), nn.ReLU()]):  # fmt: skip
            model = same(t, nn.Sequential(*layers)).eval()
            fused = q(t).fuse_modules(model, ["0", "1"])
            out += [text(t, fused), (fused(x).detach() * 100).round()]
        return out

    agree(f)


WRONG = {
    "did not find fuser": lambda t: q(t).fuse_modules(t.nn.Sequential(t.nn.ReLU(), t.nn.ReLU()), ["0", "1"]),
    "training mode": lambda t: q(t).prepare_qat(t.nn.Linear(2, 2).eval()),
    "qconfig": lambda t: t.ao.nn.quantized.Linear.from_float(t.nn.Linear(2, 2)),
    "instance|types": lambda t: t.ao.nn.intrinsic.LinearReLU(t.nn.ReLU(), t.nn.ReLU()),
    "forward": lambda t: t.ao.nn.quantized.FloatFunctional()(1),
    "qconfig must": lambda t: t.ao.nn.qat.Linear(2, 2),
}


@pytest.mark.parametrize("message", WRONG)
def test_errors(message):
    agree_error(WRONG[message], message)


@pytest.mark.parametrize("f", [
    lambda t: t.ao.nn.quantized.Linear(2, 2)(t.ones(1, 2)),
    lambda t: t.ao.quantization.quantize_fx.prepare_fx(None), lambda t: t.ao.nn.quantized.PReLU(0.1, 2),
    lambda t: q(t).quantize_dynamic(t.nn.Sequential(t.nn.LSTM(2, 3, proj_size=2))),
])  # fmt: skip
def test_refused(f):
    with pytest.raises(NotImplementedError):
        f(torchlike)


def test_the_former_names():
    """``torch.quantization`` has what PyTorch's has there, where ``torch.ao.quantization`` has it."""
    ours, former = vars(torchlike.ao.quantization), torchlike.quantization
    new = [n for n in dir(torch.quantization) if not n.startswith("_") and hasattr(ours.get(n), "__module__")]
    assert len(new) > 60 and not [n for n in new if getattr(former, n) is not ours[n]]


def test_former_modules():
    """Parts of modules under their former names, and the files under ``modules``, are those of today."""
    pairs = {
        "quantization.observer.MinMaxObserver": "quantization.MinMaxObserver",
        "quantization.observer.HistogramObserver": "quantization.HistogramObserver",
        "quantization.quantize.convert": "quantization.convert",
        "quantization.fuse_modules.fuse_modules": "quantization.fuse_modules",
        "nn.quantized.modules.conv.Conv2d": "nn.quantized.Conv2d",
        "ao.nn.quantized.modules.linear.Linear": "nn.quantized.Linear",
        "nn.intrinsic.modules.fused.ConvReLU2d": "nn.intrinsic.ConvReLU2d",
        "nn.quantized.dynamic.modules.linear.Linear": "nn.quantized.dynamic.Linear",
    }
    lines = [f"import {'torch.' + a.rpartition('.')[0]}" for a in pairs]
    lines += [f"assert torch.{a} is torch.ao.{b}, {a!r}" for a, b in pairs.items()]
    lines += ["print(torch.ao.quantization.observer.HistogramObserver.__module__)"]
    program = "\n".join(["import torchlike", "torchlike.install_as_torch()", *lines])
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert run.stdout == "torch.ao.quantization.observer\n", run.stderr
