"""torch.nn.attention: the choice of kernels, and causal masks that know their corner."""

import importlib
import threading

import pytest
import torch
from story_kit import said, story, warned

import torchlike


def part(t, name=""):
    return importlib.import_module(f"{t.__name__}.nn.attention{name}")


@story
def test_kernels_are_chosen_in_a_context(t):
    kit = part(t)
    kinds, now = kit.SDPBackend, lambda **options: [b.name for b in kit._cur_sdpa_kernel_backends(**options)]
    log = []

    @kit.sdpa_kernel(kinds.MATH)
    def inside():
        log.append(now())

    with kit.sdpa_kernel([kinds.MATH, kinds.FLASH_ATTENTION], set_priority=True) as given:
        log += [given, now(with_priority=True)]
        with kit.sdpa_kernel(kinds.MATH):
            log.append(now())
        inside()
        log.append(sorted(now()))
    inside()
    log.append(sorted(now()))
    pattern = "Backend must be an instance of SDPBackend or a list of SDPBackend instances"
    wrong = [said(lambda b=b: kit.sdpa_kernel(b).__enter__(), pattern) for b in ("x", (kinds.MATH,), {kinds.MATH}, 1)]
    return log, wrong, repr(kinds.MATH), str(kinds(1)), int(kinds.ERROR), kinds.MATH == 0, kinds.CUDNN_ATTENTION.value


def test_a_choice_is_of_one_thread():
    kit, seen = part(torchlike), []
    with kit.sdpa_kernel(kit.SDPBackend.MATH):
        thread = threading.Thread(target=lambda: seen.append(len(kit._cur_sdpa_kernel_backends())))
        thread.start()
        thread.join()
    assert seen == [5]
    with pytest.raises(AssertionError, match="list of SDPBackend instances"):
        kit.sdpa_kernel(["MATH"]).__enter__()


@story
def test_causal_masks(t):
    kit = part(t, ".bias")
    upper, lower = kit.causal_upper_left(3, 4), kit.causal_lower_right(3, 4)
    sizes = ((3, 4), (4, 4), (4, 5))
    waves = [t.arange(2 * n * e, dtype=t.float64).sin().reshape(2, n, e) for n, e in sizes]
    q, k, v = [wave.clone().requires_grad_() for wave in waves]
    attend = t.nn.functional.scaled_dot_product_attention
    out = [
        attend(q, k, v, upper),
        attend(q, k, v, attn_mask=lower, scale=0.3),
        attend(k, q, q, kit.causal_upper_left(9, 9)),
    ]
    out += [attend(q[None], k[None], v[None], lower, enable_gqa=True), attend(k, k, v, kit.causal_lower_right(4, 4))]
    grads = t.autograd.grad(sum(o.sum() for o in out), [q, k, v])
    told = [repr(upper), str(lower), upper._materialize(), upper.shape, upper.dtype, upper.variant, lower.seq_len_kv,
            isinstance(upper, t.Tensor), str(upper.device), lower._materialize("meta").device.type]  # fmt: skip
    wrong = [said(lambda: attend(q, k, v, lower, is_causal=True), "should not be used with causal=True"),
             said(lambda: kit.causal_upper_left(3), "only supports 2D tensors"),
             said(lambda: kit.CausalBias(1, 2, 3), "variant must be a CausalVariant, got int")]  # fmt: skip
    return out, grads, told, wrong, warned(lambda: kit.causal_lower_right(4, 3)), list(kit.CausalVariant)


def test_causal_masks_are_for_one_function():
    bias, x = part(torchlike, ".bias").causal_upper_left(3, 3), torchlike.ones(3, 1, 4)
    attention = torchlike.nn.MultiheadAttention(4, 2)
    for call in (lambda: bias + 1, lambda: torchlike.sum(bias), lambda: attention(x, x, x, attn_mask=bias)):
        with pytest.raises(NotImplementedError, match="for scaled_dot_product_attention only"):
            call()
    attend = torchlike.nn.functional.scaled_dot_product_attention
    compiled = torchlike.compile(lambda q: attend(q, q, q, bias), fullgraph=True)
    assert torchlike.allclose(compiled(x[:, 0]), attend(x[:, 0], x[:, 0], x[:, 0], is_causal=True))


def test_public_names():
    for name in ("", ".bias", ".flex_attention"):
        theirs = [n for n in part(torch, name).__all__ if "flash_attention_impl" not in n]
        assert not [n for n in theirs if not hasattr(part(torchlike, name), n)]
