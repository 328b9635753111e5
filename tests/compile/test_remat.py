"""Checkpoints in programs, compiled or recorded: they recompute what eager code would, and need as little memory."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from both import agree
from compile_kit import both, data, same, state_of

import torchlike as torch
from torchlike import nn
from torchlike._core.tensor.tensor import wrap
from torchlike._executor import trie
from torchlike._transforms.capture import remat
from torchlike._transforms.capture.capture import Trace
from torchlike._transforms.capture.program import Program
from torchlike.utils import checkpoint as ck

F = nn.functional
LAYERS, WIDTH, BATCH = 4, 32, 128
PRODUCTS = [torch.ops.aten.addmm.default, torch.ops.aten.mm.default]


class Block(nn.Module):
    def __init__(self, drop=0.0, norm=False):
        super().__init__()
        self.a, self.b, self.drop = nn.Linear(WIDTH, 8 * WIDTH), nn.Linear(8 * WIDTH, WIDTH), drop
        self.norm = nn.BatchNorm1d(8 * WIDTH) if norm else nn.Identity()

    def forward(self, x, scale=1.0):
        return x + scale * self.b(F.dropout(F.gelu(self.norm(self.a(x))), self.drop))


saved = functools.partial(ck.checkpoint, use_reentrant=False)
reentrant = functools.partial(ck.checkpoint, use_reentrant=True)


def plain(block, x):
    return block(x)


def selective(ops):
    return lambda block, x: saved(block, x, context_fn=functools.partial(ck.create_selective_checkpoint_contexts, ops))


def one_by_one(call):
    """A net whose blocks run through ``call(block, x)``."""

    def run(blocks, x):
        for block in blocks:
            x = call(block, x)
        return x

    return run


def in_halves(call):
    """A net in two checkpoints, whose blocks run through ``call`` in them."""

    def run(blocks, x):
        for half in (blocks[: LAYERS // 2], blocks[LAYERS // 2 :]):
            x = saved(functools.partial(one_by_one(call), half), x)
        return x

    return run


def several_outputs(block, x):
    out = saved(lambda x: {"a": block(x), "b": (x * 0.5, None)}, x)
    return out["a"] - out["b"][0]


# name: (the net, options of its blocks, at most this part of the memory of the same net without checkpoints)
NETS = {
    "saved": (one_by_one(saved), {}, 0.45),
    "reentrant": (one_by_one(reentrant), {}, 0.45),
    "sequential": (lambda b, x: ck.checkpoint_sequential(b, LAYERS, x, use_reentrant=False), {}, 0.45),
    "closure": (one_by_one(lambda block, x: saved(lambda: block(x))), {}, 0.45),
    "partial": (one_by_one(lambda block, x: saved(functools.partial(block, x))), {}, 0.45),
    "keywords": (one_by_one(lambda block, x: saved(block, x=x, scale=0.5)), {}, 0.45),
    "dropout": (one_by_one(saved), {"drop": 0.5}, 0.45),
    "dropout, reentrant": (one_by_one(reentrant), {"drop": 0.5}, 0.45),
    "buffers": (one_by_one(saved), {"norm": True}, 0.45),
    "buffers, reentrant": (one_by_one(reentrant), {"norm": True}, 0.45),
    "halves": (in_halves(plain), {}, 0.75),
    "nested": (in_halves(saved), {}, 0.5),
    "reentrant in others": (in_halves(reentrant), {}, 0.5),
    "keeping products": (one_by_one(selective(PRODUCTS)), {}, 0.8),
    "keeping activations": (one_by_one(selective([torch.ops.aten.gelu.default])), {}, 0.8),
    "in place inside": (one_by_one(lambda block, x: saved(lambda x: block(x.mul(0.5).add_(1)), x)), {}, 0.45),
    "in place after": (one_by_one(lambda block, x: saved(block, x).mul_(0.5)), {}, 0.5),
    "a view": (one_by_one(lambda block, x: saved(lambda x: block(x.T), x.T)), {}, 0.5),
    "several outputs": (one_by_one(several_outputs), {}, 0.7),
}


def training(net, loss=lambda x: x.pow(2).mean(), **options):
    """(step, arguments of call i, what to look at) of a net that learns."""
    blocks = nn.Sequential(*[Block(**options) for _ in range(LAYERS)])

    def step(x):
        value = loss(net(blocks, x * torch.ones(WIDTH, requires_grad=True)))
        value.backward()
        for p in blocks.parameters():
            p.data.sub_(0.01 * p.grad)
            p.grad = None
        return value.detach()

    return step, lambda i: (data(i, BATCH, WIDTH),), state_of(blocks)


def peak(make):
    """Bytes of temporaries of the compiled step, by XLA's account."""
    step, arguments, _ = make()
    trace = Trace(step, *jax.tree.flatten((arguments(0), {}), is_leaf=torch.is_tensor))
    return Program(trace).lowered(list(arguments(1))).compile().memory_analysis().temp_size_in_bytes


@functools.cache
def usual(loss=None, **options):
    return peak(lambda: training(one_by_one(plain), **({"loss": loss} if loss else {}), **options))


# -- memory --------------------------------------------------------------------------------------------
@pytest.mark.parametrize("name", NETS)
def test_the_program_needs_less_memory(name):
    net, options, part = NETS[name]
    assert peak(lambda: training(net, **options)) < part * usual(**options)


def test_a_gradient_that_is_a_constant_does_not_undo_it():
    total = torch.sum
    assert peak(lambda: training(one_by_one(saved), total)) < 0.5 * usual(total)


def test_regions_side_by_side_run_again_in_turn():
    """The loss in parts: each has large intermediate values, and none depends on another."""

    def make(call):
        w, target = nn.Parameter(data(0, 2000, WIDTH)), torch.zeros(BATCH, dtype=torch.long)

        def part(x, y):
            return F.cross_entropy(x @ w.T, y, reduction="sum")

        def step(x):
            loss = sum(call(part, x, y) for x, y in zip(x.chunk(8), target.chunk(8), strict=True))
            loss.backward()
            w.data.sub_(0.001 * w.grad)
            w.grad = None
            return loss.detach()

        return step, lambda i: (data(i, BATCH, WIDTH),), lambda: w

    together = lambda f, *args: f(*args)  # noqa: E731
    assert peak(lambda: make(saved)) < 0.65 * peak(lambda: make(together))
    both(lambda: make(saved))


def test_a_backward_outside_gets_the_inputs_of_the_regions_alone():
    def sizes(call):
        blocks = [Block() for _ in range(LAYERS)]
        run = torch.compile(lambda x: one_by_one(call)(blocks, x), fullgraph=True)
        out = run(data(0, BATCH, WIDTH).requires_grad_())
        held = [a.shape for a in out.grad_fn.residuals if a.shape and a.shape[0] == BATCH]
        out.sum().backward()
        return held

    assert set(sizes(saved)) == {(BATCH, WIDTH)}
    assert (BATCH, 8 * WIDTH) in sizes(plain)


# -- values --------------------------------------------------------------------------------------------
OUTSIDE = [n for n, (_, options, _) in NETS.items() if not options and "reentrant" not in n]


@pytest.mark.parametrize("name", ["saved", *(n for n in NETS if n not in OUTSIDE)])
def test_steps_are_those_of_eager_code(name):
    net, options, _ = NETS[name]
    both(lambda: training(net, **options), calls=2)


# The backward of a reentrant checkpoint fills .grad itself: see below.
@pytest.mark.parametrize("name", OUTSIDE)
def test_gradients_through_a_backward_outside(name):
    def gradients(wrap):
        torch.manual_seed(0)
        blocks = nn.Sequential(*[Block() for _ in range(LAYERS)])
        x = data(0, BATCH, WIDTH).requires_grad_()
        wrap(lambda x: NETS[name][0](blocks, x))(x).pow(2).mean().backward()
        return [t.grad.numpy() for t in (x, *blocks.parameters())]

    same(gradients(lambda f: f), gradients(lambda f: torch.compile(f, fullgraph=True)))


@pytest.mark.parametrize("reentrant", [False, True])
def test_a_backward_outside_without_fullgraph(reentrant):
    """That of a reentrant checkpoint cannot be part of a program: the call runs in eager."""
    x = torch.ones(3, requires_grad=True)
    f = lambda x: ck.checkpoint(lambda x: x.exp().sin(), x, use_reentrant=reentrant)  # noqa: E731
    torch.compile(f)(x).sum().backward()
    np.testing.assert_allclose(x.grad.numpy(), np.e * np.cos(np.e) * np.ones(3), rtol=1e-6)


def compiled(t, f):
    return t.compile(f, fullgraph=True) if t is torch else f


@pytest.mark.parametrize("create", [False, True])
def test_against_pytorch(create):
    """Gradients, and gradients of gradients, of a checkpoint with in-place operations and closed-over tensors."""

    def script(t):
        w = t.arange(6, dtype=t.float64).div(7).sin().reshape(2, 3).requires_grad_()
        shift = t.tensor([0.5, -0.5, 0.0], dtype=t.float64)

        def region(x):
            return (x @ w + shift).tanh().mul_(2.0).view(-1)[1:]

        def step(x):
            y = t.utils.checkpoint.checkpoint(region, x * 1, use_reentrant=False)
            (g,) = t.autograd.grad(y.exp().sum(), x, create_graph=create)
            if create:
                g = t.autograd.grad(g.pow(2).sum(), (x, w))
            return g

        x = t.tensor([[0.25, -1.0], [0.0, 2.0]], dtype=t.float64, requires_grad=True)
        return compiled(t, step)(x)

    agree(script)


def test_random_numbers_of_a_region_are_drawn_once():
    def script(call):
        def step(x):
            y = call(lambda x: F.dropout(x * torch.rand(64), 0.5) * torch.randn(64), x * 1)
            (g,) = torch.autograd.grad(y.sum(), x)
            return y / x, g, torch.rand(3)

        return step, lambda i: (torch.ones(64, requires_grad=True),), lambda: None

    both(lambda: script(saved))
    torch.manual_seed(0)
    y, g, _ = torch.compile(script(saved)[0], fullgraph=True)(torch.ones(64, requires_grad=True))
    np.testing.assert_allclose(y.detach().numpy(), g.numpy())


def test_tensors_that_a_region_writes():
    def make():
        seen, x = torch.zeros(3), torch.ones(3)

        def region(x):
            seen.add_(x.detach())
            return (x * seen.clone()).exp().sin()

        def step(k):
            y = x.clone().requires_grad_() * k
            saved(region, y).sum().backward()
            return seen.sum()

        return step, lambda i: (torch.full((3,), 0.1 * i),), lambda: seen

    both(make)


# -- recorded execution --------------------------------------------------------------------------------
@pytest.fixture
def sizes(monkeypatch):
    """Bytes of temporaries of the programs that recorded execution runs, in order."""
    seen, make = [], trie.TraceProgram.__init__

    def init(self, *args):
        make(self, *args)
        run = self.run

        def counted(*inputs):
            seen.append(run.lower(*inputs).compile().memory_analysis().temp_size_in_bytes)
            return run(*inputs)

        self.run = counted

    trie.TRIE.reset()
    monkeypatch.setattr(trie.TraceProgram, "__init__", init)
    yield seen
    trie.TRIE.reset()


@pytest.mark.parametrize("name", ["saved", "reentrant", "buffers", "nested", "keeping products"])
def test_recorded_steps(name, sizes):
    net, options, part = NETS[name]

    def losses(execution, net):
        torch.manual_seed(0)
        with torch.set_execution(execution):
            step, arguments, _ = training(net, **options)
            return np.float32([step(*arguments(i)).item() for i in range(6)])

    expected = losses("immediate", net)
    same(losses("recorded", net), expected)
    needed = max(sizes)
    sizes.clear()
    losses("recorded", one_by_one(plain))
    assert needed < part * max(sizes)


def test_a_node_that_is_called_by_hand():
    with torch.set_execution("recorded"):
        y = saved(lambda x: x.exp().sin(), torch.zeros(2, requires_grad=True))
        gradient = y.grad_fn(torch.ones(2))
    np.testing.assert_allclose(gradient.detach().numpy(), np.cos([1.0, 1.0]), rtol=1e-6)


def test_meta_tensors_pass_in_recorded_execution():
    with torch.set_execution("recorded"):
        x = torch.ones(3, device="meta", requires_grad=True)
        saved(lambda x: x.exp().sin(), x).sum().backward()
        assert x.grad.is_meta


# -- the fence -----------------------------------------------------------------------------------------
ARRAYS = [
    np.float32([0.0, -0.0, np.nan, np.inf, -np.inf, 1e-45]), np.float64(2.5), np.zeros((0, 3), np.float32),
    np.array([True, False]), np.arange(5), np.uint8([255]), np.complex64([1 + 2j, complex(np.nan, -0.0)]),
    np.float16([6e-8, 65504]), jnp.bfloat16([1.5, -2]),
]  # fmt: skip


@pytest.mark.parametrize("array", ARRAYS, ids=lambda a: f"{a.dtype}{list(a.shape)}")
@pytest.mark.parametrize("word", [0, 1, 2**31, 2**32 - 1, 0x7FC00000])
def test_what_passes_the_fence_is_unchanged(array, word):
    out = np.asarray(remat._behind(jnp.asarray(array), remat._opened(jnp.uint32(word), jnp.uint32(0))))
    assert out.dtype == array.dtype and out.shape == array.shape and out.tobytes() == np.asarray(array).tobytes()


@pytest.mark.parametrize("array", [a for a in ARRAYS if a.dtype.kind in "fcV" and a.size], ids=lambda a: str(a.dtype))
def test_any_gradient_opens_it(array):
    assert bool(remat._opened(remat._word(jnp.asarray(array)), remat._word(jnp.asarray(array))))


@pytest.mark.parametrize("platform, kept", [("cpu", 0), ("cuda", 1), ("tpu", 1)])
def test_accelerators_get_a_barrier(platform, kept):
    traced = jax.jit(remat._behind).trace(jnp.ones(3), True)
    text = traced.lower(lowering_platforms=(platform,)).as_text()
    assert text.count("optimization_barrier") == kept and text.count("stablehlo.select") == 1 - kept


@pytest.mark.parametrize("execution", ["immediate"], indirect=True)  # a recorded trace is compiled: it needs the fences
def test_nothing_is_added_to_eager_code():
    x = torch.ones(3, requires_grad=True)
    y = saved(torch.sin, x)
    assert not y.grad_fn._ex
    y.sum().backward()
    assert torch.allclose(x.grad, torch.ones(3).cos())


@pytest.mark.parametrize("call", [saved, reentrant])
def test_in_a_function_that_jax_traces(call):
    """Without torch.compile: tensors that hold jax's tracers."""

    def gradient(value):
        x = wrap(value).requires_grad_()
        call(lambda x: x.exp().sin(), x * 2).sum().backward()
        return x.grad._storage.value

    value = jnp.linspace(-1, 1, 5)
    jaxpr = str(jax.make_jaxpr(gradient)(value))
    assert jaxpr.count("optimization_barrier") >= 1
    expected = 2 * np.exp(2 * value) * np.cos(np.exp(2 * value))
    np.testing.assert_allclose(jax.jit(gradient)(value), expected, rtol=1e-5)


def test_a_second_run_that_fails_leaves_no_fence():
    kept, runs = torch.ones(3), []

    def region(x):
        runs.append(x)
        y = x * kept
        if len(runs) > 1:
            raise ValueError("again")
        return y.exp()

    def gradient(value):
        saved(region, wrap(value).requires_grad_() * 2).sum().backward()

    before = kept._storage.value
    with pytest.raises(ValueError, match="again"):
        jax.make_jaxpr(gradient)(jnp.ones(3))
    assert kept._storage.value is before and not torch._base.state.state.active
    assert (kept * 2).tolist() == [2.0] * 3
