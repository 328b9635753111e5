"""flex_attention and BlockMask: with torch and with torchlike."""

import copy
import importlib

import pytest
import torch
from both import agree
from story_kit import said, story

import torchlike


def flex(t):
    return importlib.import_module(f"{t.__name__}.nn.attention.flex_attention")


def inputs(t, shape=(2, 4, 9, 6), heads=None, dtype="float64", keys=None, grad=False):
    """Query, key and value of waves."""
    b, h, n, e = shape
    of = [(b, h, n, e), (b, heads or h, keys or n, e), (b, heads or h, keys or n, e - 2)]
    waves = [t.arange(1.0, 1 + s[0] * s[1] * s[2] * s[3], dtype=t.float64).mul(1.7 + i).sin().reshape(s)
             for i, s in enumerate(of)]  # fmt: skip
    return [w.to(getattr(t, dtype)).requires_grad_(grad) for w in waves]


def causal(b, h, q, kv):
    return q >= kv


def window(b, h, q, kv):
    return (q - kv) * (q - kv) <= 4 + h * h


def by_batch(b, h, q, kv):
    return (q + b) % (h + 2) != kv % 3


def nobody_late(b, h, q, kv):
    return q < 3


def waves(t):
    wave = t.arange(9.0, dtype=t.float64).cos()
    return lambda s, b, h, q, kv: s * wave[q] + wave[kv] * b


MODS = {
    "none": lambda t: None,
    "relative": lambda t: lambda s, b, h, q, kv: s + (q - kv) / 2**h,
    "bias": waves,
    "softcap": lambda t: lambda s, b, h, q, kv: t.tanh(s / 2) * 2,
    "where": lambda t: lambda s, b, h, q, kv: t.where(q - kv < h, s, -float("inf")),
}
MASKS = {"causal": (causal, None, None), "window": (window, None, 4), "batch": (by_batch, 2, 4), "late": (nobody_late,
         1, 1)}  # fmt: skip


COMPILE = "_FLEX_ATTENTION_DISABLE_COMPILE_DEBUG"  # PyTorch's own compiler runs for each call, unless this is set


@pytest.fixture(autouse=True)
def without_a_compiler(monkeypatch):
    monkeypatch.setattr(flex(torch), COMPILE, True)


def of_waves(mod, mask):
    def script(t):
        kit = flex(t)
        q, k, v = inputs(t)
        block = None
        if mask is not None:
            fn, b, h = MASKS[mask]
            block = kit.create_block_mask(fn, b, h, 9, 9, device="cpu", BLOCK_SIZE=(4, 2))
        asked = kit.AuxRequest(lse=True)
        return kit.flex_attention(q, k, v, MODS[mod](t), block, return_aux=asked, scale=0.7)

    return script


@pytest.mark.parametrize("mod", MODS)
@pytest.mark.parametrize("mask", [None, *MASKS])
def test_values(mod, mask):
    agree(of_waves(mod, mask))


@pytest.mark.compilers
@pytest.mark.parametrize("mod", MODS)
@pytest.mark.parametrize("mask", [None, *MASKS])
def test_values_of_pytorch_s_compiler(mod, mask, monkeypatch):
    monkeypatch.setattr(flex(torch), COMPILE, False)
    torch._dynamo.reset()
    agree(of_waves(mod, mask))


def test_options():
    def script(t):
        kit = flex(t)
        q, k, v = inputs(t, heads=2, keys=5)
        mask = kit.create_block_mask(causal, 2, None, 9, 5, device="cpu")
        out = [kit.flex_attention(q, k, v, enable_gqa=True), kit.flex_attention(q, k, v, None, mask, enable_gqa=True)]
        out += [kit.flex_attention(q, k[:1], v[:1], None, mask, enable_gqa=True)]
        q, k, v = inputs(t)
        out += [kit.flex_attention(q, k, v, return_lse=True), kit.flex_attention(q, k, v, return_aux=kit.AuxRequest())]
        out += [kit.flex_attention(q, k, v, kernel_options={"BLOCK_M": 64}), kit.flex_attention(q[:, :, :0], k, v)]
        return out

    agree(script)


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
def test_lower_precision(dtype):
    (ours, lse), (theirs, expected) = (
        flex(t).flex_attention(*inputs(t, dtype=dtype), return_aux=flex(t).AuxRequest(lse=True))
        for t in (torchlike, torch)
    )
    assert str(ours.dtype) == str(theirs.dtype) and lse.lse.dtype is torchlike.float32
    gap = 1e-5 if dtype == "float32" else 2e-2
    assert abs(ours.float().numpy() - theirs.float().numpy()).max() < gap
    assert abs(lse.lse.numpy() - expected.lse.float().numpy()).max() < gap


@story
def test_autocast(t):
    kit = flex(t)
    q, k, v = inputs(t, dtype="float32")
    with t.autocast("cpu"):
        out, aux = kit.flex_attention(q, k, v, return_aux=kit.AuxRequest(lse=True))
        double = kit.flex_attention(q.double(), k.double(), v.double())
    return out.dtype, aux.lse.dtype, double.dtype


def by_parts(t, q, k, v, bias, slope, allowed):
    """What the score_mod and mask of the next tests say, written out."""
    place = t.arange(q.shape[2])
    scores = q @ k.transpose(-2, -1) * 0.5 + bias[:, place] + slope[:, None, None] * (place[:, None] - place)
    scores = scores.masked_fill(~allowed, -float("inf"))
    empty = ~allowed.any(-1, keepdim=True)
    return scores.masked_fill(empty, 0).softmax(-1).masked_fill(empty, 0) @ v


def learned(kit, bias, slope, block):
    def score(s, b, h, q, kv):
        return s + bias[h, q, kv] + slope[h] * (q - kv)

    return lambda q, k, v: kit.flex_attention(q, k, v, score, block, scale=0.5)


@pytest.mark.parametrize("mode", ["eager", "compiled"])
@pytest.mark.parametrize("mask", [causal, nobody_late, by_batch])
def test_gradients(mode, mask):
    """Also those of the tensors that a score_mod uses, against PyTorch's of the same written out."""
    out = []
    for t in (torchlike, torch):
        q, k, v = inputs(t, (2, 4, 9, 6), grad=True)
        bias = t.arange(4 * 81.0, dtype=t.float64).cos().reshape(4, 9, 9).clone().requires_grad_()
        slope = t.tensor([0.1, 0.2, -0.3, 0.4], dtype=t.float64, requires_grad=True)
        kit = flex(t)
        if t is torch:
            y = by_parts(t, q, k, v, bias, slope, kit.create_mask(mask, 2, 4, 9, 9, device="cpu"))
        else:
            run = learned(kit, bias, slope, kit.create_block_mask(mask, 2, 4, 9, 9, BLOCK_SIZE=4))
            y = (t.compile(run, fullgraph=True) if mode == "compiled" else run)(q, k, v)
        out.append([y, *t.autograd.grad((y * y).sum(), [q, k, v, bias, slope])])
    for ours, theirs in zip(*out, strict=True):
        assert abs(ours.detach().numpy() - theirs.detach().numpy()).max() < 1e-10


def test_gradients_of_the_sums_and_largest_scores():
    q, k, v = inputs(torchlike, grad=True)
    kit = flex(torchlike)
    mask = kit.create_block_mask(nobody_late, None, None, 9, 9)
    _, aux = kit.flex_attention(q, k, v, None, mask, return_aux=kit.AuxRequest(True, True))
    scores = (q @ k.transpose(-2, -1) / 6**0.5).masked_fill(torchlike.arange(9)[:, None] >= 3, -float("inf"))
    top, late = scores.detach().amax(-1), torchlike.arange(9) >= 3
    assert torchlike.allclose(aux.max_scores, top) and not aux.max_scores.requires_grad
    expected = torchlike.where(late, -float("inf"), scores.masked_fill(late[:, None], 0).logsumexp(-1))
    assert torchlike.allclose(aux.lse, expected)
    ours, theirs = (torchlike.autograd.grad(x[:, :, :3].sum(), q)[0] for x in (aux.lse, expected))
    assert torchlike.allclose(ours, theirs) and not ours.isnan().any()


def test_a_compiled_loop_compiles_once():
    kit = flex(torchlike)
    block = kit.create_block_mask(causal, None, None, 9, 9)
    compiled = torchlike.compile(kit.flex_attention, fullgraph=True)
    first = compiled(*[x * 0.5 for x in inputs(torchlike)], causal_score, block)
    with torchlike.compiler.set_stance("fail_on_recompile"):
        for i in range(3):
            out = compiled(*[x * (i + 1) for x in inputs(torchlike)], causal_score, block)
    assert out.shape == first.shape


def causal_score(s, b, h, q, kv):
    return s - (q - kv)


@story
def test_blocks_of_a_mask(t):
    kit = flex(t)
    out = []
    for size, n, m, more in (
        ((4, 2), 9, 7, {}),
        (3, 9, 9, {}),
        (16, 9, 9, {}),
        (2, 8, 6, {"separate_full_blocks": False}),
    ):
        mask = kit.create_block_mask(window, 1, 2, n, m, device="cpu", BLOCK_SIZE=size, **more)
        parts = {name: getattr(mask, name) for name in kit.BlockMask._TENSOR_ATTRS}
        out += [parts, mask.to_dense(), mask.shape, mask.numel(), mask.sparsity(), repr(mask), str(mask)]
        out += [[x if isinstance(x, int | t.Tensor) else type(x).__name__ for x in mask.as_tuple()]]
        out += [len(mask.as_tuple(flatten=False)), mask.to("cpu").seq_lengths, copy.copy(mask).BLOCK_SIZE]
    return out


@story
def test_pictures_of_a_mask(t):
    mask = flex(t).create_block_mask(window, 2, 2, 44, 60, device="cpu", BLOCK_SIZE=4)
    grids = [mask.to_string(grid_size=g, limit=1) for g in (4, (3, 5), 20, (2, 40))]
    return grids, mask.to_string(limit=4), mask.to_string(limit=3), str(mask[0, 1])


@story
def test_parts_of_a_mask(t):
    kit = flex(t)
    mask = kit.create_block_mask(by_batch, 2, 4, 9, 9, device="cpu", BLOCK_SIZE=3)
    parts = [mask[0], mask[-1], mask[1, 2], mask[:, 1:3], mask[t.tensor([1, 0])], mask[0:1, 0, 1:3], mask[:, :, 1]]
    told = [(p.shape, p.to_dense(), p.q_indices.shape, p.mask_mod.__name__) for p in parts]
    adjusted = [(a.shape, a.to_dense(), a.mask_mod is by_batch) for a in (mask._adjust(4, 7), mask._adjust(9, 12))]
    q, k, v = inputs(t)
    words = [said(lambda: kit.flex_attention(q, k, v, None, mask[:, :]), "Cannot use mask_mod from a sliced BlockMask")]
    sliced = mask[1, :]
    sliced.mask_mod = lambda b, h, q, kv: by_batch(b + 1, h, q, kv)
    return told, adjusted, words, kit.flex_attention(q[1:], k[1:], v[1:], None, sliced)


@story
def test_masks_from_blocks(t):
    kit = flex(t)
    numbers = t.tensor([[[1, 2, 0]]], dtype=t.int32)
    columns = t.tensor([[[[2, 0, 1], [0, 2, 1], [0, 1, 2]]]], dtype=t.int32)
    made = [kit.BlockMask.from_kv_blocks(numbers, columns, BLOCK_SIZE=3, mask_mod=causal),
            kit.BlockMask.from_kv_blocks(numbers, columns, numbers.flip(-1), columns, (3, 2), seq_lengths=(9, 6)),
            kit.BlockMask.from_kv_blocks(numbers, columns, compute_q_blocks=False),
            kit.BlockMask.from_kv_blocks(numbers[0, 0], columns[0, 0], BLOCK_SIZE=2)]  # fmt: skip
    of = kit.BlockMask.from_kv_blocks
    wrong = [said(lambda: of(numbers, columns[0, 0, 0])), said(lambda: of(numbers, columns, numbers))]
    return [(repr(m), m.to_dense(), m.q_num_blocks, m.mask_mod.__name__) for m in made], wrong


def test_blocks_count_as_in_compiled_kernels():
    """PyTorch's eager code asks mask_mod alone; its compiled kernels, and torchlike, leave out what no block names."""
    kit = flex(torchlike)
    q, k, v = inputs(torchlike, (1, 1, 6, 4))
    numbers, columns = torchlike.tensor([[[1, 0]]]), torchlike.tensor([[[[1, 0], [0, 1]]]])
    full = torchlike.tensor([[[0, 2]]]), torchlike.tensor([[[[0, 1], [0, 1]]]])
    mask = kit.BlockMask.from_kv_blocks(numbers, columns, *full, BLOCK_SIZE=3, mask_mod=lambda b, h, q, kv: kv != 4)
    allowed = torchlike.tensor([[False] * 3 + [True, False, True]] * 3 + [[True] * 6] * 3)
    expected = torchlike.nn.functional.scaled_dot_product_attention(q, k, v, allowed)
    assert torchlike.allclose(kit.flex_attention(q, k, v, None, mask), expected)
    few = kit.BlockMask.from_kv_blocks(numbers, columns, BLOCK_SIZE=2, seq_lengths=(6, 6))
    with pytest.raises(ValueError, match="do not reach the end of 6 positions"):
        kit.flex_attention(q, k, v, None, few)


@story
def test_masks_of_functions(t):
    kit = flex(t)
    both = kit.and_masks(causal, lambda b, h, q, kv: q - kv < 2)
    either = kit.or_masks(causal, lambda b, h, q, kv: kv == 3)
    fns = (causal, both, either, kit.and_masks(), kit.or_masks(), kit.noop_mask, by_batch,
           lambda s, b, h, q, kv: t.where(q > kv, s, -float("inf")))  # fmt: skip
    made = [kit.create_mask(f, 2, None, 3, 4, device="cpu") for f in fns]
    wrong = [
        said(lambda: kit.and_masks(causal, 3), "All inputs should be callable"),
        said(lambda: kit.or_masks(3), "All"),
        said(lambda: kit.create_mask(lambda x: x, 1, 1, 2, 2), "Expected 4 or 5.*"),
        said(lambda: kit.create_block_mask(lambda s, b, h, q, kv: s, 1, 1, 2, 2), "requires a mask_mod"),
    ]
    return made, both.__name__, either.__name__, kit.AuxRequest(), kit.AuxOutput(), wrong


@pytest.mark.filterwarnings("ignore:.*_compile")
def test_a_mask_that_is_to_be_compiled_is_made_all_the_same():
    kit = flex(torchlike)
    made = [kit.create_block_mask(causal, 1, 1, 4, 4, "cpu", BLOCK_SIZE=2, _compile=c) for c in (True, False)]
    assert torchlike.equal(made[0].to_dense(), made[1].to_dense())


@story
def test_wrong_calls(t):
    kit = flex(t)
    q, k, v = inputs(t)
    run, other = kit.flex_attention, kit.create_block_mask(causal, 2, 4, 16, 16, device="cpu")
    small = kit.create_block_mask(causal, 2, 4, 4, 9, device="cpu")
    calls = [
        lambda: run(q[0], k, v), lambda: run(q, k[:, :2], v[:, :2]),
        lambda: run(q, k[:, :3], v[:, :3], enable_gqa=True),
        lambda: run(q, k[:1], v[:1]), lambda: run(q[:1], k, v), lambda: run(q, k[..., :4], v),
        lambda: run(q, k, v, None, other), lambda: run(q, k, v, None, small), lambda: run(q[:1], k, v, None, small),
        lambda: run(q, k, v, return_lse=True, return_aux=kit.AuxRequest()), lambda: run(q.to("meta"), k, v),
    ]  # fmt: skip
    patterns = (
        "NYI|same number|multiple of|same batch size|same embedding|larger length|smaller length|both|device type"
    )
    return [said(f, patterns) for f in calls]


@story
def test_functions_that_vmap_refuses(t):
    q, k, v = inputs(t)
    run = flex(t).flex_attention
    flex(t)._FLEX_ATTENTION_DISABLE_COMPILE_DEBUG = True
    try:
        return [
            said(lambda f=f: run(q, k, v, f), "must only return Tensors|item|data-dependent")
            for f in (
                lambda s, b, h, q, kv: None,
                lambda s, b, h, q, kv: s.item(),
                lambda s, b, h, q, kv: s if q > kv else -s,
            )
        ]
    finally:
        flex(t)._FLEX_ATTENTION_DISABLE_COMPILE_DEBUG = False  # fmt: skip


def test_what_is_refused_loudly():
    kit = flex(torchlike)
    q, k, v = inputs(torchlike)
    with pytest.raises(TypeError, match="block_mask to be a BlockMask"):
        kit.flex_attention(q, k, v, None, causal)
    with pytest.raises(TypeError, match="expected tensors"):
        kit.flex_attention(q, [1], v)
    with pytest.raises(ValueError, match="expected H to be 1 or 4"):
        kit.flex_attention(q, k, v, None, kit.create_block_mask(causal, 2, 3, 9, 9))
    with pytest.raises(ValueError, match="same batch size, heads and length"):
        kit.flex_attention(q, k, v[:, :, :3])
    with pytest.raises(NotImplementedError, match="compute_dq_write_order"):
        kit.create_block_mask(causal, 1, 1, 9, 9, compute_dq_write_order=True)
    with pytest.raises(IndexError, match="at most 3 indices"):
        kit.create_block_mask(causal, 1, 1, 9, 9)[0, 0, 0, 0]


def test_a_mask_is_a_container_of_its_tensors():
    kit, tree = flex(torchlike), torchlike.utils._pytree
    mask = kit.create_block_mask(causal, 1, 1, 9, 9, BLOCK_SIZE=3)
    leaves, spec = tree.tree_flatten(mask)
    again = tree.tree_unflatten([x if x is None else x + 0 for x in leaves], spec)
    assert repr(again) == repr(mask) and again.kv_indices is not mask.kv_indices
