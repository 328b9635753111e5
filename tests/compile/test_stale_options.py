"""Settings and options of the library that changed since, and switches that a program was made under."""

import pytest
from guard_kit import x2
from stale_kit import Stories, calls, never_stale

import torchlike as torch
import torchlike._dynamo.config
import torchlike._inductor.config

STORIES = Stories()
story = STORIES.story


def _restored(settings, names, told):
    before = {name: getattr(settings, name) for name in names}
    try:
        return told()
    finally:
        for name, value in before.items():
            setattr(settings, name, value)


@story
def a_number_of_the_settings(wrap):
    config = torch._dynamo.config

    def told():
        run = wrap(lambda x: x * config.recompile_limit + config.cache_size_limit)
        return calls(run, lambda i: setattr(config, "recompile_limit", i + 20))

    return _restored(config, ["recompile_limit"], told)


@story
def flags_of_the_settings(wrap):
    config = torch._inductor.config

    def told():
        run = wrap(lambda x: x * (2 if config.max_autotune else 3) + (10 if config.triton.cudagraphs else 20))
        found = calls(run, lambda i: setattr(config, "max_autotune", i % 2 == 0))
        return found + calls(run, lambda i: setattr(config.triton, "cudagraphs", i % 2 == 0))

    return _restored(config, ["max_autotune"], lambda: _restored(config.triton, ["cudagraphs"], told))


@story
def options_of_printing(wrap):
    try:
        run = wrap(lambda x: x * torch._tensor_str.PRINT_OPTS.precision)
        return calls(run, lambda i: torch.set_printoptions(precision=i + 5))
    finally:
        torch.set_printoptions(profile="default")


@story
def switches_that_functions_tell(wrap):
    world, strategy = torch.distributed, torch.multiprocessing.get_sharing_strategy()

    def f(x):
        told = len(str(world.get_debug_level())) + 10 * torch.jit.onednn_fusion_enabled()
        return x * told + len(torch.multiprocessing.get_sharing_strategy()) + torch.autograd.is_view_replay_enabled()

    run, found = wrap(f), []
    try:
        for change in (
            lambda: None,
            lambda: world.set_debug_level(world.DebugLevel.DETAIL),
            lambda: torch.jit.enable_onednn_fusion(True),
            lambda: torch.multiprocessing.set_sharing_strategy("file_system"),
        ):
            change()
            found.append(run(x2()))
        with torch.autograd._force_original_view_tracking(True):
            found.append(run(x2()))
    finally:
        world.set_debug_level(world.DebugLevel.OFF)
        torch.jit.enable_onednn_fusion(False)
        torch.multiprocessing.set_sharing_strategy(strategy)
    return [*found, run(x2())]


@story
def whether_a_future_is_done(wrap):
    futures = [torch.futures.Future() for _ in range(3)]
    run = wrap(lambda x: x * sum([1.0 + f.value() if f.done() else 2.0 for f in futures]))
    return calls(run, lambda i: futures[i].set_result(i + 3.0))


class Raised(torch.Tensor):
    @classmethod
    def __torch_function__(cls, function, types, args=(), kwargs=None):
        out = super().__torch_function__(function, types, args, kwargs or {})
        return out + 100 if getattr(function, "__name__", "") == "mul" else out


@pytest.mark.parametrize("off_first", [False, True])
@pytest.mark.parametrize("switch", ["DisableTorchFunction", "DisableTorchFunctionSubclass"])
@pytest.mark.parametrize("outside", [False, True])
def test_overrides_that_are_off(switch, off_first, outside):
    """A program of a call with overrides is none of one without, for arguments and for what the function reads."""

    def told(wrap):
        kept, found = x2().as_subclass(Raised), []
        run = wrap((lambda x: torch.mul(kept, x)) if outside else (lambda x: torch.mul(x, 2)))
        for i in range(6):
            x = x2() if outside else x2().as_subclass(Raised)
            if (i % 2 == 0) == off_first:
                with getattr(torch._C, switch)():
                    found.append(run(x))
            else:
                found.append(run(x))
        return [y.as_subclass(torch.Tensor) for y in found]

    never_stale(told)


@pytest.mark.parametrize("name", STORIES)
def test_nothing_is_stale(name):
    never_stale(STORIES[name])


def test_a_group_of_settings_is_one_object():
    assert torch._inductor.config.triton is torch._inductor.config.triton
