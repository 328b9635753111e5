"""PyTorch's fused operators under their own names, against PyTorch."""

import pytest
from both import agree, agree_error


def waves(t, *shape):
    n = 1
    for size in shape:
        n *= size
    return (t.arange(n, dtype=t.float64).reshape(shape) * 0.37).sin()


OPTIONS = [
    {}, {"maximize": True}, {"weight_decay": 0.0}, {"grad_scale": 2.0}, {"grad_scale": 2.0, "found_inf": 1.0},
    {"lr": lambda t: t.tensor(0.1)},
]  # fmt: skip
ADAM = {"beta1": 0.9, "beta2": 0.99, "eps": 1e-8, "amsgrad": False}
SGD = {"momentum": 0.9, "dampening": 0.2, "nesterov": False, "is_first_step": False}
STEPS = [
    *[(name, ADAM, o) for name in ("_fused_adam_", "_fused_adamw_") for o in [*OPTIONS, {"amsgrad": True}]],
    *[("_fused_sgd_", SGD, o) for o in [*OPTIONS, {"nesterov": True, "dampening": 0.0}, {"is_first_step": True}]],
    ("_fused_sgd_", SGD, {"momentum": 0.0, "dampening": 0.0}),
    *[("_fused_adagrad_", {"lr_decay": 0.1, "eps": 1e-8}, o) for o in OPTIONS],
]


@pytest.mark.parametrize(("name", "defaults", "options"), STEPS)
def test_steps_of_optimizers(name, defaults, options):
    def script(t):
        given = {"lr": 0.1, "weight_decay": 0.01, "maximize": False} | defaults | options
        given = {k: v(t) if callable(v) else t.tensor(v) if k in ("grad_scale", "found_inf") else v
                 for k, v in given.items()}  # fmt: skip
        p, g = [t.tensor([1.0, 2.0, -3.0], requires_grad=True)], [t.tensor([0.1, -0.2, 0.3])]
        states = [[t.tensor([0.1, 0.2, 0.3])] for _ in range(3)]
        counts = [t.tensor(3.0)]
        with t.no_grad():
            if "adagrad" in name:
                t._fused_adagrad_(p, g, states[0], counts, **given)
            elif "sgd" in name:
                t._fused_sgd_(p, g, states[0] if given["momentum"] else [], **given)
            else:
                states[2] = states[2] if given["amsgrad"] else []
                getattr(t, name)(p, g, *states, counts, **given)
        return p, g, [s for s in states if s], counts

    agree(script)


def test_products_of_bytes():
    agree(lambda t: t._int_mm(t.arange(-60, 60, dtype=t.int8).reshape(6, 20), t.ones(20, 8, dtype=t.int8)))
    agree(lambda t: t._int_mm(t.full((2, 3), 200, dtype=t.uint8), t.ones(3, 2, dtype=t.int8)))
    agree_error(lambda t: t._int_mm(t.ones(2, 3), t.ones(3, 2)), "dtype")
    agree_error(lambda t: t._int_mm(t.ones(2, 3, dtype=t.int8), t.ones(2, 3, dtype=t.int8)), "needs to match")


ATTENTION = [
    lambda t: {}, lambda t: {"is_causal": True}, lambda t: {"attn_mask": waves(t, 3, 5), "scale": 0.3},
    lambda t: {"attn_mask": waves(t, 3, 5) > 0},
]  # fmt: skip


@pytest.mark.parametrize("options", ATTENTION)
def test_attention_with_weights(options):
    agree(lambda t: t._scaled_dot_product_attention_math(
        waves(t, 1, 2, 3, 4), waves(t, 1, 2, 5, 4), waves(t, 1, 2, 5, 6), **options(t)))  # fmt: skip


def test_attention_of_groups():
    agree(lambda t: t._scaled_dot_product_attention_math(
        waves(t, 1, 4, 3, 4), waves(t, 1, 2, 5, 4), waves(t, 1, 2, 5, 6), enable_gqa=True))  # fmt: skip


@pytest.mark.parametrize("options", [(), (False, 1), (False, 2), (False, 0, False, None, False, 2)])
@pytest.mark.parametrize("name", ["_embedding_bag", "_embedding_bag_forward_only"])
def test_bags(name, options):
    agree(lambda t: getattr(t, name)(waves(t, 5, 3), t.tensor([0, 2, 1, 4]), t.tensor([0, 2]), *options))


@pytest.mark.parametrize("mode", range(3))
def test_borders_by_number(mode):
    agree(lambda t: t.ops.aten._pad_enum(waves(t, 1, 2, 4), [1, 2], mode, None))


@pytest.mark.parametrize("padding", ["same", "valid"])
def test_convolutions_by_the_name_of_their_padding(padding):
    agree(lambda t: t._convolution_mode(waves(t, 1, 2, 6), waves(t, 3, 2, 3), None, [1], padding, [1], 1))


def test_facts_of_tensors():
    agree(lambda t: t._assert_tensor_metadata(t.ones(2, 3), [2, 3], [3, 1], t.float32))
    agree_error(lambda t: t._assert_tensor_metadata(t.ones(2, 3), [2, 4]), "Tensor sizes mismatch")
    agree_error(lambda t: t._assert_tensor_metadata(t.ones(2, 3), None, [1, 1]), "Tensor strides mismatch")
    agree_error(lambda t: t._assert_tensor_metadata(t.ones(2, 3), None, None, t.int64), "Tensor dtype mismatch")


def test_groups_of_products():
    agree(lambda t: t._grouped_mm(waves(t, 4, 16).bfloat16(), waves(t, 2, 16, 8).bfloat16(), t.tensor([1, 4]).int()))
