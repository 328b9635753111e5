"""Calls of torch.ops.aten under the names of the schemas, and with the defaults that these have."""

import pytest
from both import agree, agree_error

NAMED = [
    lambda t, a, x: a.mish_backward(grad_output=x, self=x),
    lambda t, a, x: a.smooth_l1_loss_backward(grad_output=x, self=x, target=x + 1, reduction=0, beta=1.0),
    lambda t, a, x: a.soft_margin_loss_backward(grad_output=x, self=x, target=x, reduction=0),
    lambda t, a, x: a.gelu_backward(grad_output=x, self=x, approximate="tanh"),
    lambda t, a, x: a.gelu_backward.grad_input(grad_output=x, self=x, grad_input=t.empty(2, 3)),
    lambda t, a, x: a.cross_entropy_loss(self=x, target=x.softmax(1), label_smoothing=0.5),
    lambda t, a, x: a.batch_norm_update_stats(input=x, running_mean=None, running_var=None, momentum=0.5),
    lambda t, a, x: a.Complex.Tensor_float(x=x[0, 0], y=2.0),
    lambda t, a, x: a.Float.Tensor(a=x[0, 0]),
    lambda t, a, x: a.result_type.Tensor(tensor=x, other=x.int()),
    lambda t, a, x: a.upsample_bicubic2d(x[None, None], [4, 4], align_corners=False, scales_h=None),
    lambda t, a, x: a.upsample_nearest2d(self=x[None, None], output_size=[4, 4], scales_w=None),
    lambda t, a, x: a.embedding_backward(
        grad=x, indices=t.tensor([1, 0]), num_weights=3, padding_idx=-1, scale_grad_by_freq=False, sparse=False
    ),
    lambda t, a, x: a.equal(x, x),
    lambda t, a, x: a.equal(self=x, other=x + 1),
    lambda t, a, x: a.one_hot(t.tensor([0, 2])),
    lambda t, a, x: a.take_along_dim(x, t.tensor([4, 1]), None),
    lambda t, a, x: a.nuclear_norm(x.expand(4, 2, 3), keepdim=True),
    lambda t, a, x: t.nuclear_norm(x.expand(4, 2, 3)),
    lambda t, a, x: a.repeat_interleave.Tensor(repeats=t.tensor([1, 2])),
]


@pytest.mark.parametrize("f", NAMED)
def test_names_of_schemas(f):
    agree(lambda t: f(t, t.ops.aten, t.tensor([[0.5, -1.0, 2.0], [1.5, 0.25, -0.5]])))


LOSSES = [
    lambda of, x, y: of.margin_ranking_loss(x[0], x[1], y),
    lambda of, x, y: of.cosine_embedding_loss(x, x + 1, y[:2]),
    lambda of, x, y: of.hinge_embedding_loss(x[0], y),
    lambda of, x, y: of.kl_div(x, x),
    lambda of, x, y: of.triplet_margin_loss(x, x + 1, x - 1),
    lambda of, x, y: of.binary_cross_entropy_with_logits(x, x),
    lambda of, x, y: of.ctc_loss(x.log_softmax(1)[:, None], y[:1, None].abs().long(), [2], [1]),
]


@pytest.mark.parametrize("f", LOSSES)
def test_losses_are_means_by_default_but_those_of_torch(f):
    def story(t):
        x, y = t.tensor([[0.5, 1.0, 2.0], [1.5, 0.25, 0.5]]), t.tensor([1.0, -1.0, 1.0])
        return [f(of, x, y) for of in (t, t.ops.aten)]

    agree(story)


@pytest.mark.parametrize("scales", [(0.5, None), (None, 2.0), (0.5, 2.0), (None, None)])
@pytest.mark.parametrize("name", ["upsample_bilinear2d", "_upsample_bilinear2d_aa", "_upsample_bicubic2d_aa"])
def test_factors_for_some_dimensions(name, scales):
    def story(t):
        x = t.arange(30.0).double().reshape(1, 1, 5, 6).sin()
        forward = getattr(t.ops.aten, name)(x, [4, 3], False, *scales)
        back = getattr(t.ops.aten, f"{name}_backward")(forward, [4, 3], [1, 1, 5, 6], False, *scales)
        return forward, back

    agree(story)


def test_lanczos_keeps_edges():
    agree_error(
        lambda t: t.nn.functional.interpolate(t.eye(4)[None, None], 2, None, "lanczos", True, antialias=True),
        "Lanczos mode does not support align_corners=True",
    )
