"""What few programs rely on in torch.nn, on both libraries."""

import gc
import weakref

import pytest
from autocast_kit import lacks_lstm
from both import agree
from story_kit import said, story, warned

import torchlike

IMAGE, GRID = (1, 1, 2, 2), (1, 1, 1, 2)
GRIDS = [
    ((1, 2, 2), GRID), ((1, 2, 2), (1, 1, 2)), (IMAGE, (1, 1, 1, 1, 3)), (IMAGE, (2, 1, 1, 2)), (IMAGE, (1, 1, 1, 3)),
    ((2, 2), (1, 1, 2)), ((1, 1, 2, 2, 2), GRID), ((), GRID), ((1,), GRID), ((2,), ()),
    ((1, 1, 2, 2, 2, 2), (1, 1, 1, 1, 1, 4)),
]  # fmt: skip
EMPTY = {1: ((0, 2, 10), (2, 0, 10), (0, 10)), 2: ((0, 2, 9, 9), (2, 0, 9, 9), (0, 9, 9)),
         3: ((0, 2, 9, 9, 9), (2, 0, 9, 9, 9), (0, 9, 9, 9))}  # fmt: skip


@pytest.mark.parametrize(("image", "grid"), GRIDS)
def test_sizes_of_grids(image, grid):
    agree(lambda t: said(lambda: t.nn.functional.grid_sample(t.ones(image), t.ones(grid), align_corners=False),
                         r"Dimension|expected.*(?=, but)"))  # fmt: skip


def test_grids_without_elements():
    def f(t, points):
        x, at = t.ones(1, 1, 2, 2, 2, requires_grad=True), t.zeros(1, points, 1, 1, 3)
        return t.nn.functional.grid_sample(x, at, align_corners=True)

    agree(lambda t: [f(t, 0).shape, f(t, 2)])


@pytest.mark.parametrize("kind", ["Reflection", "Replication"])
@pytest.mark.parametrize("dims", [1, 2, 3])
def test_pads_of_what_is_empty(kind, dims):
    agree(lambda t: [
        said(lambda s=s: getattr(t.nn, f"{kind}Pad{dims}d")(2)(t.ones(s)).shape, "Expected.*") for s in EMPTY[dims]
    ])  # fmt: skip


@pytest.mark.parametrize("shape", [(3,), (2, 3), (), (0, 3, 4), (1, 0, 4, 4)])
def test_unfold_of_few_dimensions(shape):
    agree(lambda t: said(lambda: t.nn.functional.unfold(t.ones(shape), (2, 2)).shape, "Dimension|Expected"))


def test_affine_grid_warns_of_single_elements():
    def f(t, size, corners):
        theta = t.ones(1, len(size) - 2, len(size) - 1)
        return warned(lambda: t.nn.functional.affine_grid(theta, size, align_corners=corners), "See .* details")

    agree(lambda t: [f(t, s, c) for s in ((1, 1, 2, 1), (1, 1, 2, 2), (1, 1, 2, 1, 2)) for c in (True, False)])


def test_names_of_other_modules():
    agree(lambda t: [t.nn.functional.grad is t.nn.grad, repr(t.nn.Unflatten("a", (2, 2)))])


def test_parameter_dict_of_a_tensor():
    update = "update sequence.*"
    agree(lambda t: [said(lambda s=s: t.nn.ParameterDict().update(t.ones(s)), update) for s in ((10, 10), (2, 3))])


def test_batch_norm_keeps_channels_last_where_a_size_is_1():
    def f(t, training):
        x = t.arange(6.0).reshape(1, 3, 2, 1).permute(0, 2, 1, 3)
        return t.nn.BatchNorm2d(2).train(training)(x)

    agree(lambda t: [f(t, True), f(t, False), f(t, False).stride()])


def test_sums_of_many_complex_numbers():
    agree(lambda t: (t.ones(64, 32, 16, 16, dtype=t.complex64) * (1 + 3.25j)).sum().item() / 2**19)


def test_attention_of_no_sequences():
    agree(lambda t: t.nn.TransformerDecoderLayer(8, 2, batch_first=True)(t.ones(0, 5, 8), t.ones(0, 3, 8)).shape)


def test_adagrad_of_a_parameter_without_a_shape():
    agree(lambda t: said(lambda: t.optim.Adagrad([t.nn.UninitializedParameter()]), "uninitialized parameter"))


def test_state_hook_keeps_no_module():
    def f(t):
        m = t.nn.Linear(2, 2)
        m._register_load_state_dict_pre_hook(lambda *args: None, True)
        alive = weakref.ref(m)
        gc.disable()
        try:
            del m
            return alive() is None
        finally:
            gc.enable()

    agree(f)


def test_hooks_of_all_modules_are_what_is_assigned():
    def f(t):
        module, seen = t.nn.modules.module, []
        before = dict(module._global_forward_hooks)
        t.nn.modules.module.register_module_forward_hook(lambda *args: seen.append(1))
        try:
            t.nn.ReLU()(t.ones(1))
            length = len(module._global_forward_hooks) - len(before)
        finally:
            module._global_forward_hooks = type(module._global_forward_hooks)(before)
        t.nn.ReLU()(t.ones(1))
        return len(seen), length

    agree(f)


def test_casts_that_lose_imaginary_parts_warn():
    def f(t):
        x, loss, before = t.ones(2, dtype=t.complex64), "Casting .* part", t.is_warn_always_enabled()
        t.set_warn_always(True)
        try:
            return [
                warned(call, loss)
                for call in (lambda: t.ones(2).copy_(x), x.float, x.int, x.bool, x.cdouble, lambda: x.to(t.float64),
                             lambda: t.ones(2, dtype=t.int32).copy_(x), lambda: t.ones(2, dtype=t.bool).copy_(x))
            ]  # fmt: skip
        finally:
            t.set_warn_always(before)

    agree(f)


@pytest.mark.parametrize("proj", [0, 3])
@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.filterwarnings("ignore:LSTM with projections")
def test_states_of_an_lstm_under_autocast(proj, packed):
    if not (proj or packed) and lacks_lstm():
        pytest.skip("PyTorch has no kernel for it on this processor: autocast_kit.lacks_lstm")

    def f(t, state):
        lstm = t.nn.LSTM(4, 6, proj_size=proj)
        x = t.ones(5, 2, 4)
        if packed:
            x = t.nn.utils.rnn.pack_padded_sequence(x, [5, 3])
        if state is not None:
            state = [t.ones(1, 2, n, dtype=getattr(t, state)) for n in (proj or 6, 6)]
        with t.autocast("cpu", t.bfloat16):
            out, (h, c) = lstm(x, state)
        return [str(v.dtype).partition(".")[2] for v in ((out.data if packed else out), h, c)]

    agree(lambda t: [f(t, state) for state in (None, "float32", "bfloat16")])


def test_nnpack_is_not_there():
    assert torchlike._nnpack_available() is False


@story
def test_threshold_of_expanded_tensors(t):
    """What is done twice is as good as what is done once; other functions refuse."""
    row, functional = t.tensor([[-1.0, 2.0, 0.1]]), t.nn.functional
    x, y = row.clone().expand(2, 3), row.clone().expand(2, 3)
    functional.threshold(x, 0.5, 0.7, inplace=True)
    t.nn.Threshold(0.5, 0.7, inplace=True)(y)
    return x, y, said(lambda: functional.hardtanh_(row.expand(2, 3)), "more than one element")


@story
def test_complex_modules_warn(t):
    return warned(lambda: t.nn.Linear(1, 1).to(t.cfloat), "Complex modules are a new feature")
