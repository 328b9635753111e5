"""Programs as users write them for a GPU, on the accelerator that jax has; on the CPU where it has none."""

import copy
import io
import pickle

import jax
import numpy as np
import pytest
import torch

import torchlike
from torchlike._base.device import is_present

PLACE = next((kind for kind in ("cuda", "xla") if is_present(kind)), "cpu")
EAGERLY, COMPILED = (lambda step: step), torchlike.compile
needed = pytest.mark.skipif(PLACE == "cpu", reason="jax has no accelerator here")


def host(t):
    return t.detach().cpu().numpy()


def same(ours, theirs, tolerance=2e-4):
    np.testing.assert_allclose(host(ours), theirs.detach().numpy(), rtol=tolerance, atol=tolerance)


# -- training ----------------------------------------------------------------------------------------------------------


def perceptrons(t):
    nn = t.nn
    return nn.Sequential(nn.Linear(12, 16), nn.LayerNorm(16), nn.GELU(), nn.Linear(16, 4)), (8, 12)


def pictures(t):
    nn = t.nn
    layers = [nn.Conv2d(3, 6, 3, padding=1), nn.BatchNorm2d(6), nn.ReLU(), nn.MaxPool2d(2)]
    layers.append(nn.ConvTranspose2d(6, 4, 2, 2))
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(2), nn.Flatten(), nn.Linear(16, 4)), (8, 3, 8, 8)


def sequences(t):
    class Reader(t.nn.Module):
        def __init__(self):
            super().__init__()
            self.lstm, self.gru = t.nn.LSTM(12, 6, batch_first=True), t.nn.GRU(6, 6, batch_first=True)
            self.head = t.nn.Linear(6, 4)

        def forward(self, x):
            return self.head(self.gru(self.lstm(x)[0])[0][:, -1])

    return Reader(), (8, 5, 12)


def attention(t):
    class Reader(t.nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = t.nn.TransformerEncoderLayer(12, 3, 16, dropout=0.0, batch_first=True)
            self.head = t.nn.Linear(12, 4)

        def forward(self, x):
            return self.head(self.layer(x).mean(1))

    return Reader(), (8, 5, 12)


MODELS = [perceptrons, pictures, sequences, attention]
OPTIMIZERS = {
    "sgd": lambda t, p: t.optim.SGD(p, 0.05, momentum=0.9),
    "adamw": lambda t, p: t.optim.AdamW(p, 0.01),
    "fused": lambda t, p: t.optim.Adam(p, 0.01, fused=True),
}


def data(shape):
    rng = np.random.RandomState(0)
    return rng.randn(*shape).astype(np.float32), rng.randint(0, 4, shape[0])


def losses(t, make, optimizer, place, transform=EAGERLY, steps=4):
    t.manual_seed(0)
    model, shape = make(t)
    model = model.to(place)
    opt = OPTIMIZERS[optimizer](t, model.parameters())
    x, y = (t.from_numpy(a).to(place) for a in data(shape))

    def step(x, y):
        opt.zero_grad()
        loss = t.nn.functional.cross_entropy(model(x), y)
        loss.backward()
        t.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        opt.step()
        return loss

    run = transform(step)
    found = t.stack([run(x, y).detach() for _ in range(steps)])
    assert str(found.device).partition(":")[0] == place
    assert all(p.device == found.device and p.grad.device == found.device for p in model.parameters())
    return found


@pytest.mark.parametrize("transform", [EAGERLY, COMPILED], ids=["eager", "compiled"])
@pytest.mark.parametrize("make, optimizer", [
    (perceptrons, "sgd"), (perceptrons, "fused"), *((make, "adamw") for make in MODELS),
])  # fmt: skip
def test_training(make, transform, optimizer):
    same(losses(torchlike, make, optimizer, PLACE, transform), losses(torch, make, optimizer, "cpu"), 2e-3)


def scaled_losses(t, place, dtype):
    t.manual_seed(0)
    model = perceptrons(t)[0].to(place)
    opt, scaler = t.optim.SGD(model.parameters(), 0.1), t.amp.GradScaler(place, init_scale=2.0**8)
    x, y = (t.from_numpy(a).to(place) for a in data((8, 12)))
    found = []
    for _ in range(4):
        opt.zero_grad(set_to_none=True)
        with t.autocast(place, dtype=dtype):
            out = model(x)
            assert out.dtype == dtype
            loss = t.nn.functional.cross_entropy(out, y)
        scaler.scale(loss).backward()
        scaler.unscale_(opt)
        scaler.step(opt)
        scaler.update()
        found.append(loss.detach().float())
    assert scaler.get_scale() == 2.0**8
    return t.stack(found)


@pytest.mark.parametrize("name", ["float16", "bfloat16"])
def test_mixed_precision(name):
    ours = scaled_losses(torchlike, PLACE, getattr(torchlike, name))
    same(ours, scaled_losses(torch, "cpu", getattr(torch, name)), 0.03)


def test_an_overflow_skips_the_step():
    t = torchlike
    p = t.nn.Parameter(t.ones(3, device=PLACE))
    opt, scaler = t.optim.SGD([p], 0.1), t.amp.GradScaler(PLACE, init_scale=4.0)
    scaler.scale((p * float("inf")).sum()).backward()
    scaler.step(opt)
    scaler.update()
    assert p.tolist() == [1, 1, 1] and scaler.get_scale() == 2


# -- tensors -----------------------------------------------------------------------------------------------------------


def made_by():
    t = torchlike
    return {
        "tensor": lambda: t.tensor([1.0, 2.0], device=PLACE),
        "zeros": lambda: t.zeros(2, device=PLACE),
        "full": lambda: t.full((2,), 3, device=PLACE),
        "arange": lambda: t.arange(4, device=PLACE),
        "linspace": lambda: t.linspace(0, 1, 3, device=PLACE),
        "eye": lambda: t.eye(2, device=PLACE),
        "rand": lambda: t.rand(2, device=PLACE),
        "randn": lambda: t.randn(2, 2, device=PLACE),
        "randint": lambda: t.randint(5, (3,), device=PLACE),
        "randperm": lambda: t.randperm(5, device=PLACE),
        "empty": lambda: t.empty(2, device=PLACE).fill_(1),
        "to": lambda: t.ones(2).to(PLACE),
        "like": lambda: t.zeros_like(t.ones(2, device=PLACE)),
        "new": lambda: t.ones(2, device=PLACE).new_tensor([1, 2]),
        "new_zeros": lambda: t.ones(2, device=PLACE).new_zeros(3),
        "normal": lambda: t.empty(3, device=PLACE).normal_(),
        "bernoulli": lambda: t.full((3,), 0.5, device=PLACE).bernoulli(),
        "multinomial": lambda: t.ones(4, device=PLACE).multinomial(2),
        "dropout": lambda: t.nn.functional.dropout(t.ones(4, device=PLACE)),
        "nonzero": lambda: t.ones(4, device=PLACE).nonzero(),
        "masked": lambda: (x := t.ones(4, device=PLACE))[x > 0],
        "unique": lambda: t.tensor([1, 1, 2], device=PLACE).unique(),
        "view": lambda: t.ones(4, device=PLACE).view(2, 2).t()[0],
        "mixed with a number on the CPU": lambda: t.ones(2, device=PLACE) * t.tensor(2.0),
        "mixed with an index on the CPU": lambda: t.ones(4, device=PLACE)[t.tensor([0, 1])],
        "tril_indices": lambda: t.tril_indices(3, 3, device=PLACE),
        "one_hot": lambda: t.nn.functional.one_hot(t.tensor([0, 2], device=PLACE)),
        "parameter": lambda: t.nn.Linear(2, 2, device=PLACE).weight,
        "context": lambda: _within(lambda: t.ones(2) + t.tensor([1.0, 2.0])),
        "from jax": lambda: torchlike.from_jax_array(jax.device_put(np.ones(2, np.float32), jax.devices()[0])),
        "cat": lambda: t.cat([t.ones(2, device=PLACE), t.zeros(2, device=PLACE)]),
        "where": lambda: t.where(t.ones(2, device=PLACE) > 0, 1.0, t.tensor(0.0)),
        "sort": lambda: t.tensor([2.0, 1.0], device=PLACE).sort().indices,
        "bucketize": lambda: t.bucketize(t.tensor([2.0, 1.0], device=PLACE), t.tensor([1.5], device=PLACE)),
        "hann_window": lambda: t.hann_window(4, device=PLACE),
        "sparse": lambda: t.eye(3, device=PLACE).to_sparse().to_dense(),
        "gradient": lambda: t.autograd.grad((x := t.ones(2, device=PLACE, requires_grad=True)).prod(), x)[0],
        "deep copy": lambda: copy.deepcopy(t.ones(2, device=PLACE)),
        "pickle": lambda: pickle.loads(pickle.dumps(t.ones(2, device=PLACE))),
    }


def _within(f):
    with torchlike.device(PLACE):
        return f()


@pytest.mark.parametrize("name", made_by())
def test_where_it_is(name):
    t = made_by()[name]()
    assert t.device.type == PLACE and host(t + t).shape == t.shape
    assert t.is_cuda == (PLACE == "cuda") and (t + 1).device == t.device


def test_two_places_are_refused():
    there = torchlike.ones(2, device=PLACE if PLACE != "cpu" else "meta")
    for call in (
        lambda: there + torchlike.ones(2),
        lambda: torchlike.ones(2, 2) @ there,
        lambda: torchlike.cat([there, torchlike.ones(2)]),
    ):
        with pytest.raises(RuntimeError, match="(?i)device"):
            call()


@needed
def test_what_the_host_cannot_read():
    x = torchlike.ones(2, device=PLACE)
    with pytest.raises(TypeError, match="can't convert .* device type tensor to numpy|Tensor.cpu"):
        x.numpy()
    with pytest.raises(TypeError, match="(?i)cpu"):
        np.asarray(x)
    assert f"device='{PLACE}:0'" in repr(x)


def written(t, place):
    x = t.zeros(4, 4, device=place)
    x[1:3, 1:3].add_(1)
    x[0] = t.arange(4)
    x[:, 3] = 7
    x.t()[2].mul_(2)
    x[x == 7] = -1
    x.index_add_(0, t.tensor([3, 3], device=place), t.ones(2, 4, device=place))
    y = x.cpu() if place != "cpu" else x.clone()
    x.zero_()
    assert x.sum().item() == 0
    return y.tolist()


def test_writes_are_seen_through_views_and_copies_are_apart():
    assert written(torchlike, PLACE) == written(torch, "cpu")


def test_copies_between_places():
    x = torchlike.arange(6.0).view(2, 3).t()
    y = x.to(PLACE, non_blocking=True)
    z = torchlike.empty(3, 2, device=PLACE).copy_(x)
    back = torchlike.empty(3, 2).copy_(y)
    assert torchlike.equal(back, x) and torchlike.equal(y, z) and y.stride() == x.stride()
    p = torchlike.ones(2, requires_grad=True)
    (p.to(PLACE) * 3).sum().backward()
    assert p.grad.device.type == "cpu" and p.grad.tolist() == [3, 3]


def test_files():
    state = {"w": torchlike.arange(3.0, device=PLACE), "n": torchlike.nn.Linear(2, 2).to(PLACE).state_dict()}
    file = io.BytesIO()
    torchlike.save(state, file)
    for where, kind in ((None, PLACE), ("cpu", "cpu"), (PLACE, PLACE)):
        file.seek(0)
        found = torchlike.load(file, map_location=where)
        assert found["w"].device.type == found["n"]["weight"].device.type == kind and found["w"].tolist() == [0, 1, 2]


def test_an_optimizer_goes_on_from_a_file():
    def made():
        torchlike.manual_seed(0)
        layer = torchlike.nn.Linear(3, 2).to(PLACE)
        return layer, torchlike.optim.Adam(layer.parameters(), 0.1)

    layer, opt = made()
    layer(torchlike.ones(1, 3, device=PLACE)).sum().backward()
    opt.step()
    file = io.BytesIO()
    torchlike.save([layer.state_dict(), opt.state_dict()], file)
    file.seek(0)
    states = torchlike.load(file, map_location="cpu")
    other, its = made()
    other.load_state_dict(states[0])
    its.load_state_dict(states[1])
    assert {v.device.type for k, v in its.state[other.weight].items() if k != "step"} == {PLACE}
    for net, o in ((layer, opt), (other, its)):
        o.zero_grad()
        net(torchlike.ones(1, 3, device=PLACE)).sum().backward()
        o.step()
    assert torchlike.equal(layer.weight, other.weight)


# -- random numbers ----------------------------------------------------------------------------------------------------


def test_seeds():
    def drawn(g=None):
        return torchlike.cat(
            [torchlike.rand(3, device=PLACE, generator=g), torchlike.randn(3, device=PLACE, generator=g)]
        )

    torchlike.manual_seed(3)
    first, second = drawn(), drawn()
    torchlike.manual_seed(3)
    assert torchlike.equal(first, drawn()) and not torchlike.equal(first, second)
    g = torchlike.Generator(device=PLACE).manual_seed(3)
    a, state = drawn(g), g.get_state()
    b = drawn(g)
    g.set_state(state)
    assert torchlike.equal(b, drawn(g)) and not torchlike.equal(a, b)


@needed
def test_forked_states():
    with torchlike.random.fork_rng(devices=[0], device_type=PLACE):
        torchlike.manual_seed(1)
        first = torchlike.rand(3, device=PLACE)
    torchlike.manual_seed(1)
    assert torchlike.equal(first, torchlike.rand(3, device=PLACE))
    with pytest.raises(RuntimeError, match="device"):
        torchlike.rand(3, generator=torchlike.Generator(device=PLACE))


# -- precision ---------------------------------------------------------------------------------------------------------


def _error(t):
    rng = np.random.RandomState(0)
    a, b = rng.randn(256, 256), rng.randn(256, 256)
    out = host(t.from_numpy(a).float().to(PLACE) @ t.from_numpy(b).float().to(PLACE))
    return np.abs(out - a.astype(np.float32).astype(np.float64) @ b.astype(np.float32).astype(np.float64)).max()


def test_products_are_exact_unless_told_otherwise():
    assert _error(torchlike) < 1e-4
    try:
        torchlike.set_float32_matmul_precision("high")
        assert _error(torchlike) < 0.1
    finally:
        torchlike.set_float32_matmul_precision("highest")
    assert _error(torchlike) < 1e-4


def test_convolutions_are_as_exact_as_their_flag():
    rng = np.random.RandomState(0)
    x, w = rng.randn(2, 32, 16, 16).astype(np.float32), rng.randn(32, 32, 3, 3).astype(np.float32)
    exact = torch.nn.functional.conv2d(torch.from_numpy(x).double(), torch.from_numpy(w).double()).numpy()
    before = torchlike.backends.cudnn.allow_tf32
    try:
        torchlike.backends.cudnn.allow_tf32 = False
        out = torchlike.nn.functional.conv2d(torchlike.from_numpy(x).to(PLACE), torchlike.from_numpy(w).to(PLACE))
        assert np.abs(host(out) - exact).max() < 1e-3
    finally:
        torchlike.backends.cudnn.allow_tf32 = before


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float64", "complex64", "complex128"])
def test_products_of_other_dtypes(dtype):
    rng = np.random.RandomState(0)
    a, b = rng.randn(33, 17), rng.randn(17, 9)
    x, y = (torchlike.from_numpy(v).to(getattr(torchlike, dtype)) for v in (a, b))
    out, there = x @ y, x.to(PLACE) @ y.to(PLACE)
    tolerance = {"float16": 1e-2, "bfloat16": 1e-1, "complex64": 1e-4}.get(dtype, 1e-10)
    np.testing.assert_allclose(
        host(there.to(torchlike.complex128)), host(out.to(torchlike.complex128)), atol=tolerance, rtol=tolerance
    )


# -- the rest of a program ---------------------------------------------------------------------------------------------


def test_batches_arrive():
    data = torchlike.utils.data
    loader = data.DataLoader(data.TensorDataset(torchlike.arange(8.0)), 4, num_workers=2, pin_memory=PLACE != "cpu")
    batches = [batch for (batch,) in loader]
    assert {batch.device.type for batch in batches} == {"cpu"}
    found = [batch.to(PLACE, non_blocking=True) for batch in batches]
    assert [x.tolist() for x in found] == [[0, 1, 2, 3], [4, 5, 6, 7]] and found[0].device.type == PLACE


def test_transforms():
    def f(x):
        return (x.sin() * x).sum()

    x = torchlike.linspace(0, 1, 4, device=PLACE)
    h = torchlike.func.hessian(f)(x)
    g = torchlike.func.vmap(torchlike.func.grad(f))(torchlike.stack([x, x]))
    assert h.device.type == g.device.type == PLACE
    same(h, torch.func.hessian(f)(torch.linspace(0, 1, 4)))


def test_double_backward_and_hooks():
    x = torchlike.linspace(0.1, 1, 4, device=PLACE, requires_grad=True)
    seen = []
    x.register_hook(lambda g: seen.append(g.device.type))
    (g,) = torchlike.autograd.grad(x.log().sum(), x, create_graph=True)
    g.sum().backward()
    assert seen[-1] == PLACE
    np.testing.assert_allclose(host(x.grad), -1 / host(x) ** 2, rtol=1e-5)


class Twice(torchlike.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * x

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return 2 * x * g


def test_own_functions_and_checkpoints():
    x = torchlike.ones(3, device=PLACE, requires_grad=True)
    y = torchlike.utils.checkpoint.checkpoint(lambda x: Twice.apply(x).exp(), x, use_reentrant=False)
    y.sum().backward()
    np.testing.assert_allclose(host(x.grad), 2 * np.e * np.ones(3), rtol=1e-6)


def test_gradcheck():
    x = torchlike.rand(2, 3, dtype=torchlike.float64, device=PLACE, requires_grad=True)
    assert torchlike.autograd.gradcheck(lambda x: torchlike.nn.functional.softplus(x).cumsum(1), (x,))


def test_exchange_with_jax():
    x = torchlike.ones(3, device=PLACE)
    assert x.jax().devices() == {jax.devices()[0]}
    assert torchlike.from_dlpack(x.jax()).device == x.device
    assert jax.jit(lambda t: t * 2)(x).device == x.device


def test_data_parallel():
    layer = torchlike.nn.DataParallel(torchlike.nn.Linear(3, 2)).to(PLACE)
    out = layer(torchlike.ones(4, 3, device=PLACE))
    out.sum().backward()
    assert out.device.type == PLACE and layer.module.weight.grad.device.type == PLACE


@pytest.mark.parametrize("wrap", ["ddp", "fsdp", "fsdp2"])
def test_one_process(wrap):
    d = torchlike.distributed
    d.init_process_group("nccl" if PLACE == "cuda" else "gloo", store=d.HashStore(), rank=0, world_size=1)
    try:
        layer = torchlike.nn.Linear(3, 2).to(PLACE)
        if wrap == "ddp":
            layer = torchlike.nn.parallel.DistributedDataParallel(layer, device_ids=[0] if PLACE == "cuda" else None)
        elif wrap == "fsdp":
            layer = d.fsdp.FullyShardedDataParallel(layer)
        else:
            d.fsdp.fully_shard(layer)
        opt = torchlike.optim.SGD(layer.parameters(), 0.01)
        x = torchlike.ones(4, 3, device=PLACE)
        first = layer(x).pow(2).sum()
        first.backward()
        opt.step()
        t = torchlike.ones(2, device=PLACE)
        d.all_reduce(t)
        assert layer(x).pow(2).sum().item() < first.item() and t.tolist() == [1, 1] and t.device.type == PLACE
    finally:
        d.destroy_process_group()


def test_export():
    layer = torchlike.nn.Linear(3, 2).to(PLACE)
    x = torchlike.ones(1, 3, device=PLACE)
    program = torchlike.export.export(layer, (x,))
    same_values = torchlike.equal(program.module()(x), layer(x))
    assert same_values


def test_profiler():
    with torchlike.profiler.profile() as p:
        (torchlike.ones(64, 64, device=PLACE) @ torchlike.ones(64, 64, device=PLACE)).sum().item()
    assert "matmul" in p.key_averages().table() or "mm" in p.key_averages().table()


# -- torch.cuda --------------------------------------------------------------------------------------------------------


@pytest.mark.skipif(PLACE != "cuda", reason="jax has no GPU here")
def test_what_a_gpu_says():
    cuda = torchlike.cuda
    assert cuda.is_available() and cuda.device_count() >= 1 and cuda.current_device() == 0
    assert isinstance(cuda.get_device_name(), str) and cuda.get_device_capability()[0] >= 5
    properties = cuda.get_device_properties(0)
    assert properties.total_memory > 1 << 30 and properties.multi_processor_count > 0
    free, total = cuda.mem_get_info()
    assert 0 < free <= total
    before = cuda.memory_allocated()
    x = torchlike.ones(1 << 20, device="cuda")
    assert cuda.memory_allocated() - before >= 1 << 22 and cuda.max_memory_allocated() >= cuda.memory_allocated()
    del x
    assert cuda.memory_allocated() <= before
    start, end = cuda.Event(enable_timing=True), cuda.Event(enable_timing=True)
    start.record()
    stream = cuda.Stream()
    with cuda.stream(stream):
        y = torchlike.ones(512, 512, device="cuda") @ torchlike.ones(512, 512, device="cuda")
    cuda.current_stream().wait_stream(stream)
    end.record()
    cuda.synchronize()
    assert start.elapsed_time(end) > 0 and y[0, 0].item() == 512
    cuda.empty_cache(), cuda.reset_peak_memory_stats(), cuda.manual_seed_all(1), cuda.ipc_collect()
    assert torchlike.accelerator.current_accelerator().type == "cuda" and torchlike.get_device_module() is cuda


@pytest.mark.skipif(PLACE != "cuda", reason="jax has no GPU here")
def test_too_much_memory():
    with pytest.raises(torchlike.cuda.OutOfMemoryError, match="(?i)out of memory"):
        torchlike.ones(1 << 40, device="cuda")
    assert torchlike.ones(2, device="cuda").sum().item() == 2


@pytest.mark.skipif(PLACE != "cuda", reason="jax has no GPU here")
def test_moves_to_the_gpu():
    x = torchlike.ones(2).cuda()
    assert str(x.device) == "cuda:0" and torchlike.nn.Linear(1, 1).cuda().weight.is_cuda and x.get_device() == 0
    assert torchlike.ones(2).pin_memory().cuda().tolist() == [1, 1]
    assert torchlike.cuda.FloatTensor([1, 2]).is_cuda and x.type() == "torch.cuda.FloatTensor"
    graph = torchlike.cuda.CUDAGraph()
    static = torchlike.zeros(2, device="cuda")
    with torchlike.cuda.graph(graph):
        out = static + 1
    static.fill_(3)
    graph.replay()
    assert out.tolist() == [4, 4]


@pytest.mark.skipif(PLACE != "cuda" or not torch.cuda.is_available(), reason="PyTorch has no GPU here")
def test_exchange_with_pytorch():
    theirs = torch.arange(3.0, device="cuda")
    ours = torchlike.from_dlpack(theirs)
    assert ours.is_cuda and ours.tolist() == [0, 1, 2]
    assert torch.from_dlpack(torchlike.arange(3.0, device="cuda")).tolist() == [0, 1, 2]
