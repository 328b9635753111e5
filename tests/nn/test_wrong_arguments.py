"""Wrong arguments of layers, of functions and of optimizers: errors of PyTorch's types."""

import pytest
from both import agree_error
from story_kit import story

CALLS = {
    "kernel of no elements": (lambda t: t.nn.Conv2d(3, 4, 0)(t.ones(1, 3, 5, 5)), "convolution|kernel"),
    "lp_pool2d": (lambda t: t.nn.functional.lp_pool2d(t.ones(1, 3, 5, 5), 0, 2), "division by zero"),
    "local_response_norm": (lambda t: t.nn.functional.local_response_norm(t.ones(1, 3, 5), 0), "greater than zero"),
    "clip_grad_norm_": (lambda t: t.nn.utils.clip_grad_norm_(t.nn.Linear(2, 2).parameters(), "a"), "string to float"),
    "clip_grad_value_": (lambda t: t.nn.utils.clip_grad_value_(t.nn.Linear(2, 2).parameters(), "a"), "string to float"),
    "max of bags, sparse": (
        lambda t: t.nn.EmbeddingBag(3, 4, mode="max", sparse=True)(t.tensor([[1]])),
        "max mode does not support sparse weights",
    ),
    "ctc_loss": (lambda t: t.nn.functional.ctc_loss(1, 2, 3, 4), "invalid combination of arguments"),
    "ctc_loss without targets": (
        lambda t: t.nn.functional.ctc_loss(t.zeros(3, 1, 2), 2, 3, 4), "invalid combination of arguments",
    ),
    "one state of an LSTM": (lambda t: t.nn.LSTMCell(2, 3)(t.ones(2, 2), t.ones(2, 3)), "tuple of Tensors, not Tensor"),
    "a tuple of one state": (lambda t: t.nn.LSTMCell(2, 3)(t.ones(2, 2), (t.ones(2, 3),)), "expects two hidden states"),
    "lstm_cell": (lambda t: t.lstm_cell(t.ones(1, 2), 3, t.ones(12, 2), t.ones(12, 3)), "tuple of Tensors, not int"),
    "mask of a transformer": (
        lambda t: t.nn.TransformerEncoderLayer(4, 2)(t.ones(1, 2, 4), src_mask=3), "must be None or torch.Tensor",
    ),
    "mask of attention": (
        lambda t: t.nn.MultiheadAttention(4, 2)(*[t.ones(2, 1, 4)] * 3, attn_mask=3), "must be Tensor, not int",
    ),
    "padding mask": (
        lambda t: t.nn.MultiheadAttention(4, 2)(*[t.ones(2, 1, 4)] * 3, key_padding_mask=3), "must be Tensor, not int",
    ),
    "Unflatten": (lambda t: t.nn.Unflatten("a", 3), "tuple of ints"),
    "pixels of fractional pooling": (
        lambda t: t.nn.functional.fractional_max_pool2d(t.ones(1, 4, 4), (2,), output_size=2), "either be a single Int",
    ),
    "voxels of fractional pooling": (
        lambda t: t.nn.functional.fractional_max_pool3d(t.ones(1, 4, 4, 4), 2, output_size=(2, 2)), "three Ints",
    ),
    "empty sequences": (lambda t: t.nn.utils.rnn.pack_padded_sequence(t.ones(0, 0), []), "Cannot pack empty tensors"),
    "lengths in rows": (
        lambda t: t.nn.utils.rnn.pack_padded_sequence(t.ones(2, 1), t.tensor([[2, 1]])), "be a 1D CPU int64 tensor",
    ),
    "padded row of bags": (
        lambda t: t.nn.functional.embedding_bag(t.tensor([[1]]), t.ones(4, 2), padding_idx=4),
        "padding_idx must be within the number of embeddings, -4 through 3, but got 4",
    ),
    "padded row of a layer of bags": (lambda t: t.nn.EmbeddingBag(4, 2, padding_idx=-5), "idx must be within num"),
    "weights of other bags": (
        lambda t: t.nn.EmbeddingBag(4, 2, mode="sum")(t.tensor([[1]]), per_sample_weights=t.ones(1, 1).double()),
        "have the same type as",
    ),
    "sizes of two dimensions": (
        lambda t: t.nn.functional.interpolate(t.ones(1, 1, 3), size=(2, 2), mode="bilinear"), "number of spatial dim",
    ),
    "no dimensions to resize": (lambda t: t.nn.functional.interpolate(t.ones(3), size=2), "Only 3D, 4D and 5D input"),
    "corners of an unknown mode": (
        lambda t: t.nn.functional.interpolate(t.ones(1, 1, 3), size=2, mode="foo", align_corners=True), "Only 3D, 4D",
    ),
    "SparseAdam": (lambda t: t.optim.SparseAdam([t.eye(2).to_sparse()]), r"Sparse params at indices \[\[0, 0\]\]"),
}  # fmt: skip


HUGE = 2**62 - 1
SIZES = {
    "adaptive_max_pool": lambda t: t.nn.AdaptiveMaxPool1d(HUGE)(t.ones(2, 2, 2)),
    "adaptive_avg_pool": lambda t: t.nn.AdaptiveAvgPool2d(HUGE)(t.ones(2, 2, 2)),
    "repeat": lambda t: t.ones(2).repeat(HUGE),
    "expand": lambda t: t.ones(2).expand(HUGE, 2).contiguous(),
    "interpolate": lambda t: t.nn.functional.interpolate(t.ones(1, 1, 2), size=HUGE),
    "randn": lambda t: t.randn(HUGE, 4),
    "pad": lambda t: t.nn.functional.pad(t.ones(2), (HUGE, 0)),
    "one_hot": lambda t: t.nn.functional.one_hot(t.tensor([1]), HUGE),
}


@pytest.mark.parametrize("name", SIZES)
def test_results_of_more_bytes_than_can_be_counted(name):
    agree_error(SIZES[name], "overflow")


@pytest.mark.parametrize("name", CALLS)
def test_errors(name):
    agree_error(*CALLS[name])


@story
def test_an_empty_tensor_keeps_its_dtype(t):
    return t.nn.functional.local_response_norm(t.ones(0, 1, 2, dtype=t.int64), 1)


@story
def test_a_rate_that_is_a_tensor_stays_one(t):
    p = t.nn.Parameter(t.ones(2))
    optimizer = t.optim.SparseAdam([p], lr=t.tensor(0.1))
    p.grad = t.ones(2).to_sparse()
    optimizer.step()
    return p, optimizer.param_groups[0]["lr"], optimizer.state_dict()["param_groups"][0]["lr"]
