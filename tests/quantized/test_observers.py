"""Observers, fake quantizers and settings: what they choose, keep and print."""

import copy
import re

import pytest
from both import agree, agree_error
from quantized_kit import FILTER, numbers

import torchlike

pytestmark = FILTER


def q(t):
    return t.ao.quantization


def batches(t, n=3):
    return [numbers(t, 4, 5, seed=i) * 2.0**i + 0.1 * i for i in range(n)]  # rounded once, whatever is fused


def watched(t, observer, n=3):
    """What an observer says after each of some batches."""
    out = []
    for x in batches(t, n):
        assert observer(x) is x
        scale, zero_point = observer.calculate_qparams()
        out += [scale, zero_point, repr(observer), {k: v.clone() for k, v in observer.state_dict().items()}]
    again = copy.deepcopy(observer)
    again.load_state_dict(observer.state_dict())
    return out, again.calculate_qparams(), observer.quant_min, observer.quant_max


TENSOR = {
    "plain": {}, "signed": {"dtype": "qint8"}, "symmetric": {"dtype": "qint8", "qscheme": "per_tensor_symmetric"},
    "symmetric unsigned": {"qscheme": "per_tensor_symmetric"}, "reduced": {"reduce_range": True},
    "given": {"quant_min": 0, "quant_max": 100, "qscheme": "per_tensor_symmetric"}, "wide": {"dtype": "qint32"},
    "signed reduced": {"dtype": "qint8", "reduce_range": True}, "coarse": {"eps": 0.5},
}  # fmt: skip
CHANNEL = {
    "plain": {}, "symmetric": {"dtype": "qint8", "qscheme": "per_channel_symmetric"}, "axis": {"ch_axis": 1},
    "floats": {"qscheme": "per_channel_affine_float_qparams"},
}  # fmt: skip


def options(t, of):
    return {k: getattr(t, v) if isinstance(v, str) else v for k, v in of.items()}


@pytest.mark.parametrize("case", TENSOR)
@pytest.mark.parametrize("name", ["MinMaxObserver", "MovingAverageMinMaxObserver"])
def test_of_tensors(name, case):
    agree(lambda t: watched(t, getattr(q(t), name)(**options(t, TENSOR[case]))))


@pytest.mark.parametrize("case", CHANNEL)
@pytest.mark.parametrize("name", ["PerChannelMinMaxObserver", "MovingAveragePerChannelMinMaxObserver"])
def test_of_channels(name, case):
    agree(lambda t: watched(t, getattr(q(t), name)(**options(t, CHANNEL[case]))))


@pytest.mark.parametrize("case", ["plain", "reduced", "symmetric"])
def test_histograms(case):
    def f(t):
        observer = q(t).HistogramObserver(bins=128, **options(t, TENSOR[case]))
        return watched(t, observer), observer.histogram.sum()

    agree(f)
    agree(lambda t: watched(t, q(t).HistogramObserver(**options(t, TENSOR[case])), 2)[1:])


def test_histogram_of_one_number():
    def f(t):
        observer = q(t).HistogramObserver(bins=64)
        for x in (t.ones(3), t.tensor([0.5, 2.0, float("inf")]), t.ones(0), t.ones(2)):
            observer(x)
        return observer.calculate_qparams(), observer.histogram

    agree(f)


def fakes(t):
    k = q(t)
    return {
        "FakeQuantize": k.FakeQuantize(), "fake_quant": k.default_fake_quant(), "weight": k.default_weight_fake_quant(),
        "channels": k.default_per_channel_weight_fake_quant(), "embedding": k.default_embedding_fake_quant(),
        "histogram": k.default_histogram_fake_quant(), "fused": k.default_fused_act_fake_quant(),
        "fused weight": k.default_fused_wt_fake_quant(), "fixed": k.default_fixed_qparams_range_0to1_fake_quant(),
        "fused channels": k.default_fused_per_channel_wt_fake_quant(), "dynamic": k.default_dynamic_fake_quant(),
    }  # fmt: skip


FAKES = "FakeQuantize|fake_quant|weight|channels|embedding|histogram|fused|fused weight|fixed|fused channels|dynamic"


@pytest.mark.parametrize("name", FAKES.split("|"))
def test_fake_quantizers(name):
    def f(t):
        module, out = fakes(t)[name], []
        first = repr(module)
        for i, x in enumerate(batches(t, 4)):
            if i == 2:
                module.apply(q(t).disable_observer)
            if i == 3:
                module.apply(q(t).disable_fake_quant)
            x.requires_grad_()
            y = module(x)
            y.backward(t.arange(20.0).reshape(4, 5))
            out += [y, x.grad, module.scale.clone(), module.zero_point.clone()]
        again = fakes(t)[name]
        again.load_state_dict(module.state_dict())
        return first, out, repr(again), [*module.state_dict()]

    agree(f)


SETTINGS = (
    "default_qconfig default_per_channel_qconfig default_dynamic_qconfig per_channel_dynamic_qconfig "
    "float16_dynamic_qconfig float16_static_qconfig float_qparams_weight_only_qconfig default_qat_qconfig "
    "default_dynamic_qat_qconfig default_weight_only_qconfig default_activation_only_qconfig default_qat_qconfig_v2 "
    "default_reuse_input_qconfig default_symmetric_qnnpack_qconfig default_symmetric_qnnpack_qat_qconfig "
    "default_per_channel_symmetric_qnnpack_qconfig default_per_channel_symmetric_qnnpack_qat_qconfig "
    "default_debug_qconfig default_embedding_qat_qconfig default_quint8_weight_qconfig"
).split()


def text(setting):
    return re.sub(r"observer\.(histogram|running)", "observer", repr(setting).replace("torchlike.", "torch."))


def test_settings():
    agree(lambda t: [text(getattr(q(t), name)) for name in SETTINGS])
    for backend in ("x86", "fbgemm", "qnnpack", "onednn"):
        agree(lambda t, b=backend: [text(q(t).get_default_qconfig(b)), *[
            text(q(t).get_default_qat_qconfig(b, version)) for version in (0, 1)]])  # fmt: skip
    agree(lambda t: [
        q(t).qconfig_equals(q(t).get_default_qconfig(), q(t).get_default_qconfig()),
        q(t).qconfig_equals(q(t).get_default_qconfig(), q(t).default_qconfig), q(t).qconfig_equals(None, None),
    ])  # fmt: skip


def test_states_of_observers():
    def f(t):
        model = t.nn.Sequential(t.nn.Linear(5, 2))
        model.activation_post_process = q(t).MinMaxObserver()
        model.activation_post_process(t.ones(3))
        state = q(t).get_observer_state_dict(model)
        other = t.nn.Sequential(t.nn.Linear(5, 2))
        other.activation_post_process = q(t).MinMaxObserver()
        q(t).load_observer_state_dict(other, state)
        return dict(state), repr(other.activation_post_process)

    agree(f)


WRONG = {
    "only works for": lambda k, t: k.MinMaxObserver(dtype=t.float32),
    "only support": lambda k, t: k.MinMaxObserver(qscheme=t.per_channel_affine),
    "qscheme only": lambda k, t: k.PerChannelMinMaxObserver(qscheme=t.per_tensor_affine),
    "include 0": lambda k, t: k.MinMaxObserver(quant_min=5, quant_max=20),
    "NoopObserver": lambda k, t: k.NoopObserver().calculate_qparams(),
    "observer instance": lambda k, t: k.QConfig(k.MinMaxObserver(), k.MinMaxObserver),
    "out of bound": lambda k, t: k.FakeQuantize(quant_min=0, quant_max=300),
    "backend": lambda k, t: k.get_default_qconfig("foo"),
    "Version": lambda k, t: k.get_default_qconfig("x86", 3),
    "dynamic": lambda k, t: k.HistogramObserver(is_dynamic=True),
}


@pytest.mark.parametrize("message", WRONG)
def test_errors(message):
    agree_error(lambda t: WRONG[message](q(t), t), message)


def test_nothing_observed_is_said():
    for observer in (q(torchlike).MinMaxObserver(), q(torchlike).PerChannelMinMaxObserver()):
        with pytest.warns(UserWarning, match="must run observer"):
            scale, zero_point = observer.calculate_qparams()
        assert (scale.item(), zero_point.item()) == (1.0, 0)
