"""torch.distributed.algorithms._checkpoint.checkpoint_wrapper against PyTorch."""

import importlib

import pytest
from both import agree, agree_error


def wrappers(t):
    return importlib.import_module(f"{t.__name__}.distributed.algorithms._checkpoint.checkpoint_wrapper")


def net(t):
    model = t.nn.Sequential(t.nn.Linear(2, 3), t.nn.Sequential(t.nn.Linear(3, 2), t.nn.Tanh()))
    for k, p in enumerate(model.parameters()):
        p.data = (t.arange(p.numel(), dtype=t.float64) / 8 - k).reshape(p.shape)
    return model.double()


class Scaled:
    @staticmethod
    def make(t):
        class Scale(t.nn.Module):
            def forward(self, x, *, by, negated=False):
                return -x * by if negated else x * by

        return Scale()


def everything(t):
    model = net(t)
    wrappers(t).apply_activation_checkpointing(model)
    return repr(model), list(model.state_dict())


def some(t):
    model = net(t)
    model.again = model[0]
    chosen = lambda m: isinstance(m, t.nn.Linear)  # noqa: E731
    wrappers(t).apply_activation_checkpointing(model, check_fn=chosen)
    names = [n for n, _ in model.named_parameters()], [n for n, _ in model[0].named_parameters()]
    inside = repr(model[0]._checkpoint_wrapped_module)
    return repr(model), list(model.state_dict()), *names, model[0].in_features, inside


def calls(t):
    """How often each module runs, and its gradients."""
    seen = []
    for kind in wrappers(t).CheckpointImpl:
        model = net(t)
        model[0].register_forward_hook(lambda *a, told=seen: told.append(1))
        wrapped = wrappers(t).checkpoint_wrapper(model, kind)
        x = t.ones(2, 2, dtype=t.float64, requires_grad=True)
        wrapped(x).sum().backward()
        seen += [x.grad, model[0].weight.grad, wrapped.checkpoint_impl.name, repr(wrapped[1])]
    return seen


def keywords(t):
    grads = []
    for kind in wrappers(t).CheckpointImpl:
        x, by = t.ones(2, requires_grad=True), t.full((2,), 3.0, requires_grad=True)
        wrappers(t).checkpoint_wrapper(Scaled.make(t), kind)(x, by=by, negated=True).sum().backward()
        grads += [x.grad, by.grad]
    return grads


def offloaded(t):
    model = wrappers(t).offload_wrapper(net(t))
    model(t.ones(2, 2, dtype=t.float64)).sum().backward()
    return repr(model), model[0].weight.grad, list(model.state_dict())


def files(t):
    wrapped, plain = t.nn.Sequential(wrappers(t).checkpoint_wrapper(net(t))), t.nn.Sequential(net(t))
    held = wrapped.state_dict()
    return repr(plain.load_state_dict(held)), repr(wrapped.load_state_dict(plain.state_dict())), list(held)


def own_function(t):
    told = []

    def run(module, x, mark):
        told.append(mark)
        return module(x)

    return wrappers(t).checkpoint_wrapper(net(t), checkpoint_fn=run, mark=3)(t.ones(1, 2, dtype=t.float64)), told


@pytest.mark.parametrize("script", [everything, some, calls, keywords, offloaded, files, own_function])
def test_as_pytorch(script):
    agree(script)


WRONG = {
    "an attribute": (lambda t: wrappers(t).checkpoint_wrapper(net(t)).missing, "has no attribute 'missing'"),
    "abstract": (lambda t: wrappers(t).ActivationWrapper(net(t)), "abstract class ActivationWrapper"),
    "an option": (lambda t: wrappers(t).checkpoint_wrapper(net(t), other=1)(t.ones(1, 2)), "unexpected keyword.*other"),
    "a state": (lambda t: wrappers(t).checkpoint_wrapper(net(t)).load_state_dict({}), "Missing key"),
}


@pytest.mark.parametrize("name", WRONG)
def test_errors_as_pytorch(name):
    agree_error(*WRONG[name])
