"""What else the note "AMP examples" shows: each of its programs on both libraries, eager and compiled."""

import contextlib
import warnings

import pytest
from both import agree
from scaler_kit import batches, network
from story_kit import said

import torchlike


def numbers(t, *shape):
    return ((t.arange(1.0, 1 + t.Size(shape).numel()) * 5 % 9 - 4) / 8).reshape(*shape)


def decorators(t, spelling):
    """The two of custom functions, by the name of today or by the earlier one, which is for GPUs."""
    if spelling == "torch.amp":
        return t.amp.custom_fwd(device_type="cpu"), t.amp.custom_bwd(device_type="cpu")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)
        return t.cuda.amp.custom_fwd, t.cuda.amp.custom_bwd


def product(t, spelling="torch.amp", seen=None):
    forward_in, backward_in = decorators(t, spelling)

    class MyMM(t.autograd.Function):
        @staticmethod
        @forward_in
        def forward(ctx, a, b):
            ctx.save_for_backward(a, b)
            return a.mm(b)

        @staticmethod
        @backward_in
        def backward(ctx, grad):
            a, b = ctx.saved_tensors
            if seen is not None:
                seen.append((t.is_autocast_enabled("cpu"), str(grad.dtype)))
            return grad.mm(b.t()), a.t().mm(grad)

    return MyMM.apply


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
@pytest.mark.parametrize("spelling", ["torch.amp", "torch.cuda.amp"])
@pytest.mark.parametrize("first", ["float32", "bfloat16"])
def test_functions_with_several_inputs(spelling, dtype, first):
    """Under that of the earlier name backward runs without autocast on CPUs."""

    def run(t):
        seen = []
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            mymm = product(t, spelling, seen)
            a = numbers(t, 3, 3).to(getattr(t, first)).requires_grad_()
            b = numbers(t, 3, 3).requires_grad_()
            with t.autocast("cpu", dtype=getattr(t, dtype)):
                output = mymm(a, b)
            told = said(lambda: output.sum().backward(), "^$").partition(":")[0] if spelling != "torch.amp" else None
            if spelling == "torch.amp":
                output.float().sum().backward()
        return output, seen, told, a.grad, b.grad

    agree(run)


def single(t, seen=None):
    class MyFloat32Func(t.autograd.Function):
        @staticmethod
        @t.amp.custom_fwd(device_type="cpu", cast_inputs=t.float32)
        def forward(ctx, input):
            ctx.save_for_backward(input)
            if seen is not None:
                seen.append((str(input.dtype), t.is_autocast_enabled("cpu")))
            return input @ input

        @staticmethod
        @t.amp.custom_bwd(device_type="cpu")
        def backward(ctx, grad):
            (input,) = ctx.saved_tensors
            if seen is not None:
                seen.append((str(grad.dtype), t.is_autocast_enabled("cpu")))
            return grad @ input.t() + input.t() @ grad

    return MyFloat32Func.apply


@pytest.mark.parametrize("enabled", [True, False])
@pytest.mark.parametrize("dtype", ["bfloat16", "float16", "float32", "float64"])
def test_functions_that_need_a_dtype(dtype, enabled):
    def run(t):
        seen, x = [], numbers(t, 3, 3).to(getattr(t, dtype)).requires_grad_()
        with t.autocast("cpu", enabled=enabled):
            output = single(t, seen)(x)
        output.sum().backward()
        return output, seen, x.grad

    agree(run)


@pytest.mark.parametrize("fullgraph", [True, False])
def test_custom_functions_in_a_program(fullgraph):
    t = torchlike
    mymm, func = product(t), single(t)
    a, b = numbers(t, 3, 3).requires_grad_(), numbers(t, 3, 3).requires_grad_()

    def step(a, b):
        with t.autocast("cpu"):
            return mymm(a, b).float().sum() + func(a).sum()

    expected = t.autograd.grad(step(a, b), (a, b))
    compiled = t.compile(step, fullgraph=fullgraph)
    for _ in range(2):
        found = t.autograd.grad(compiled(a, b), (a, b))
        assert all(t.equal(x, y) for x, y in zip(found, expected, strict=True))


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_an_imported_function_in_float32(dtype):
    """The fallback: autocast off, and inputs cast by hand."""

    def run(t):
        def imported(a, b):
            if a.dtype is not t.float32 or b.dtype is not t.float32:
                raise TypeError("single precision only")
            return a.mm(b)

        x, w = numbers(t, 3, 3), numbers(t, 3, 3).requires_grad_()
        with t.autocast("cpu", dtype=getattr(t, dtype)):
            h = x @ w
            wrong = said(lambda: imported(h, w))
            with t.autocast("cpu", dtype=getattr(t, dtype), enabled=False):
                output = imported(h.float(), w.float())
            last = output @ w
        last.float().sum().backward()
        return wrong, h, output, last, w.grad

    agree(run)


@pytest.mark.parametrize("compiled", [False, True])
def test_a_penalty_without_a_scaler(compiled):
    """The ordinary example, which the one with a scaler is made of."""

    def run(t):
        model = network(t)
        optimizer = t.optim.SGD(model.parameters(), lr=0.125)

        def step(x, y):
            optimizer.zero_grad()
            loss = t.nn.functional.mse_loss(model(x), y)
            grads = t.autograd.grad(outputs=loss, inputs=list(model.parameters()), create_graph=True)
            norm = 0
            for grad in grads:
                norm += grad.pow(2).sum()
            loss = loss + norm.sqrt()
            loss.backward()
            optimizer.step()
            return loss

        step = t.compile(step, fullgraph=True) if compiled and t is torchlike else step
        losses = [step(x, y).item() for x, y in batches(t, 4)]
        return [round(x, 4) for x in losses], [round(p.sum().item(), 3) for p in model.parameters()]

    agree(run)


class Spelled:
    """A model that is called under autocast, as the note has it for replica threads: around, or within forward."""

    def __init__(self, t, how, dtype):
        self.t, self.dtype, self.layers = t, getattr(t, dtype), network(t)
        own, low = self, self.dtype

        class Decorated(t.nn.Module):
            def __init__(self):
                super().__init__()
                self.layers = own.layers

            @t.autocast("cpu", dtype=low)
            def forward(self, x):
                return self.layers(x)

        class Within(Decorated):
            def forward(self, x):
                with t.autocast("cpu", dtype=low):
                    return self.layers(x)

        self.model = {"around": t.nn.Sequential(self.layers), "decorated": Decorated(), "within": Within()}[how]
        self.around = t.autocast("cpu", dtype=low) if how == "around" else contextlib.nullcontext()


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
@pytest.mark.parametrize("how", ["around", "decorated", "within"])
@pytest.mark.parametrize("wrapped", ["DataParallel", "DistributedDataParallel"])
def test_models_for_several_devices(wrapped, how, dtype):
    def run(t):
        spelled = Spelled(t, how, dtype)
        wrap = t.nn.DataParallel if wrapped == "DataParallel" else one_process(t)
        model, (x, y) = wrap(spelled.model), next(iter(batches(t)))
        with spelled.around:
            output = model(x)
            loss = t.nn.functional.mse_loss(output, y.to(output.dtype) if how != "around" else y)
        loss.backward()
        return output.dtype, [round(v, 1) for v in output.flatten().tolist()], loss.dtype, round(loss.item(), 1)

    agree(run)


def one_process(t):
    """The wrapper of one process; PyTorch's own, which changes nothing, is compared in ``tests/one_process.py``."""
    return t.nn.parallel.DistributedDataParallel if t is torchlike else lambda model: model
