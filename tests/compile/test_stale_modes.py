"""Modes that are active where a compiled function is called: they see its calls as those of eager code."""

import pytest
from guard_kit import x2
from stale_kit import never_stale

import torchlike as torch
from torchlike import nn
from torchlike.overrides import TorchFunctionMode
from torchlike.utils._python_dispatch import TorchDispatchMode


class DoubledProducts(TorchFunctionMode):
    def __torch_function__(self, function, types, args=(), kwargs=None):
        result = function(*args, **(kwargs or {}))
        return result * 2 if function in (torch.mul, torch.Tensor.mul) else result


class RaisedProducts(TorchDispatchMode):
    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        result = function(*args, **(kwargs or {}))
        return result + 1 if function is torch.ops.aten.mul.Tensor else result


def _stories():
    m = nn.Sequential(nn.Linear(2, 2), nn.ReLU())
    yield "a_function", lambda wrap: wrap(lambda x: torch.mul(x, 3))
    yield "two_calls", lambda wrap: wrap(lambda x: torch.mul(torch.mul(x, x), 2).sum())
    yield "a_module", lambda wrap: wrap(nn.Sequential(m, nn.GLU(0)))
    yield "in_pieces", lambda wrap: wrap(lambda x: torch.mul(x, 2) if torch.mul(x, x).sum() > 3 else torch.mul(x, 5))


STORIES = dict(_stories())


@pytest.mark.parametrize("mode", [DoubledProducts, RaisedProducts])
@pytest.mark.parametrize("name", STORIES)
def test_a_mode_sees_what_a_compiled_function_does(mode, name):
    def story(wrap):
        run = STORIES[name](wrap)
        found = [run(x2()), run(x2())]
        for _ in range(2):
            with mode():
                found += [run(x2()), run(x2())]
            found += [run(x2()), run(x2())]
        return found

    never_stale(story)


def test_a_function_is_compiled_after_a_call_under_a_mode():
    run = torch.compile(lambda x: torch.mul(x, 3), fullgraph=True)
    with DoubledProducts():
        found = run(x2())
    assert found.tolist() == (x2() * 6).tolist()
    assert run.count == 0
    assert run(x2()).tolist() == (x2() * 3).tolist()
    assert run.count == 1


MAKES_META = {
    "made": lambda x: torch.ones(2, device="meta"),
    "moved": lambda x: x.to("meta"),
    "beside_numbers": lambda x: (x * 2, torch.empty(3, device="meta") * 2),
    "by_default": lambda x: torch.ones(2),
}


@pytest.mark.parametrize("name", MAKES_META)
def test_tensors_of_the_meta_device_are_made_in_eager_code(name):
    def story(wrap):
        run = wrap(MAKES_META[name])

        def told(found):
            return [(str(t.device), t.shape) for t in (found if isinstance(found, tuple) else (found,))]

        found = [told(run(x2()))]
        with torch.device("meta"):
            found.append(told(run(torch.ones(2, device="cpu"))))
        return [*found, told(run(x2()))]

    never_stale(story)
