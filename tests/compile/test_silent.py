"""What a program could get wrong without a word: each case runs in eager code and compiled, and must agree."""

import functools
import gc

import numpy as np
import pytest
from compile_kit import both, data, numbers, same, sequence, state_of, trainer

import torchlike as torch
from torchlike import nn

F = nn.functional


# -- guards ------------------------------------------------------------------------------------------------


def test_a_flag_deep_inside():
    """Freezing the statistics of one layer far below the root is noticed."""

    def make(wrap):
        inner = nn.BatchNorm1d(3)
        model = inner
        for _ in range(6):
            model = nn.Sequential(model)
        run = wrap(lambda x: model(x))
        outs = [run(data(0, 4, 3))]
        inner.eval()
        outs.append(run(data(1, 4, 3)))
        return outs, inner.running_mean

    sequence(make)


class Settings:
    scale = 1.0

    def shifted(self):
        return self.scale + SHIFT


SHIFT = 0.0


def test_class_attributes_and_globals_of_methods(monkeypatch):
    def make(wrap):
        settings = Settings()
        run = wrap(lambda x: x * settings.shifted())
        x, outs = torch.ones(1), []
        outs.append(run(x))
        with monkeypatch.context() as patch:
            patch.setattr(Settings, "scale", 5.0)
            outs.append(run(x))
        with monkeypatch.context() as patch:
            patch.setitem(globals(), "SHIFT", 3.0)
            outs.append(run(x))
        settings.scale = 7.0
        outs.append(run(x))
        with monkeypatch.context() as patch:
            patch.setattr(Settings, "shifted", lambda self: 11.0)
            outs.append(run(x))
        return outs

    sequence(make)


def double_grad(p):
    p.grad.mul_(2)


@pytest.mark.filterwarnings("ignore:Full backward hook is firing")
@pytest.mark.parametrize("change", ["register_hook", "post_accumulate", "forward_hook", "backward_hook", "removed"])
def test_hooks_added_after_the_first_call(change):
    def make(wrap):
        model = nn.Linear(3, 2)
        run = wrap(trainer(model, torch.optim.SGD(model.parameters(), lr=0.1)))
        handle = model.weight.register_hook(lambda g: g * 3) if change == "removed" else None
        outs = [run(data(0, 4, 3))]
        if change == "register_hook":
            model.weight.register_hook(lambda g: g * 2)
        elif change == "post_accumulate":
            model.weight.register_post_accumulate_grad_hook(double_grad)
        elif change == "forward_hook":
            model.register_forward_hook(lambda m, a, out: out * 2)
        elif change == "backward_hook":
            model.register_full_backward_pre_hook(lambda m, g: (g[0] * 2,))
        else:
            handle.remove()
        return [*outs, run(data(1, 4, 3)), run(data(2, 4, 3))], model.state_dict()

    sequence(make)


def test_requires_grad_is_toggled_between_calls():
    def make(wrap):
        model = nn.Sequential(nn.Linear(3, 4), nn.Linear(4, 2))
        run = wrap(trainer(model, torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)))
        outs = [run(data(0, 4, 3))]
        model[0].requires_grad_(False)
        outs.append(run(data(1, 4, 3)))
        model[0].requires_grad_(True)
        outs.append(run(data(2, 4, 3)))
        return outs, model.state_dict()

    sequence(make)


def test_partial_objects_and_defaults():
    def make(wrap):
        config = {"n": 2.0}

        def f(x, c, *, k=[1.0]):  # noqa: B006
            return x * c["n"] + k[0]

        run = wrap(functools.partial(f, c=config))
        outs = [run(torch.ones(1))]
        config["n"] = 3.0
        outs.append(run(torch.ones(1)))
        f.__kwdefaults__["k"][0] = 5.0
        return outs, run(torch.ones(1))

    sequence(make)


def test_a_counter_that_the_function_does_not_read():
    """An attribute that no code of the function names may change without a new program."""

    class Trainer:
        def __init__(self):
            self.w, self.steps = torch.ones(2), 0

        def step(self, x):
            return self.w * x

    trainer_ = Trainer()
    run = torch.compile(trainer_.step, fullgraph=True)
    for _ in range(4):
        run(torch.ones(2))
        trainer_.steps += 1
    assert run.count == 1


def test_renamed_keys():
    def make(wrap):
        options = {"double": True}
        run = wrap(lambda x: x * 2 if "double" in options else x * 3)
        outs = [run(torch.ones(1))]
        options.clear()
        options["triple"] = True
        return outs, run(torch.ones(1))

    sequence(make)


# -- values held by others ---------------------------------------------------------------------------------


def test_donated_buffers_held_by_others():
    def make(wrap):
        model = nn.Linear(64, 64)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
        run = wrap(trainer(model, optimizer))
        kept = []
        for i in range(3):
            run(data(i, 4, 64))
            kept += [model.weight.detach().clone(), model.weight.detach(), model.weight.detach()[0], model.weight.grad]
            kept.append(optimizer.state[model.weight]["momentum_buffer"])
        array = model.weight.detach().numpy().copy()
        held = model.weight._storage.value
        run(data(5, 4, 64))
        return kept, array, np.asarray(held)

    sequence(make)


def test_views_of_written_storages():
    def make(wrap):
        base = data(0, 80, 80)
        row, column = base[1], base.t()[2:4]
        row.sum(), column.sum()  # both have read their values

        def f(x):
            base.mul_(x)
            row.add_(1)
            return row * 1

        run = wrap(f)
        outs = [run(torch.full((1,), 2.0)) for _ in range(3)]
        return outs, row, column, base, base._version, row._version

    sequence(make)


def test_a_shared_parameter():
    def make(wrap):
        embedding, head = nn.Embedding(7, 4), nn.Linear(4, 7, bias=False)
        head.weight = embedding.weight
        optimizer = torch.optim.Adam([embedding.weight], lr=0.1)

        def step(i):
            optimizer.zero_grad()
            loss = F.cross_entropy(head(embedding(i)), i)
            loss.backward()
            optimizer.step()
            return loss

        run = wrap(step)
        return [run(torch.tensor([1, 2, 2])) for _ in range(3)], embedding.weight, head.weight.grad

    sequence(make)


def test_a_tensor_replaced_between_calls():
    def make(wrap):
        held = [torch.ones(2)]
        run = wrap(lambda x: held[0] * x)
        outs = [run(torch.ones(2))]
        held[0] = torch.full((2,), 4.0)
        outs.append(run(torch.ones(2)))
        held[0].data = torch.full((2,), 9.0)
        outs.append(run(torch.ones(2)))
        return outs

    sequence(make)


def test_a_non_leaf_from_outside():
    def make(wrap):
        w = torch.ones(2, requires_grad=True)
        h = w * 3
        run = wrap(lambda x: h * x)
        outs = []
        for i in range(3):
            w.grad = None
            out = run(torch.ones(2))
            out.sum().backward(retain_graph=True)
            outs += [out, w.grad.clone()]
            if i == 0:
                h.mul_(5)
        return outs

    sequence(make)


# -- things inside a step ----------------------------------------------------------------------------------


class Cube(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x**3

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return g * 3 * x * x * 2  # twice the truth, to be seen


def _checkpointed(model, x):
    layers = nn.Sequential(model[0], model[2], model[3])
    return torch.utils.checkpoint.checkpoint(layers, x, use_reentrant=False, preserve_rng_state=False)


def _packed(model, x):
    double = lambda t: t * 2 if t.is_floating_point() else t  # noqa: E731
    half = lambda t: t / 2 if t.is_floating_point() else t  # noqa: E731
    with torch.autograd.graph.saved_tensors_hooks(double, half):
        return model(x).tanh()


def _no_grad(model, x):
    with torch.no_grad():
        scale = model(x).abs().max()
    return model(x) / scale


def _penalty(model, x):
    x = x.detach().requires_grad_()
    (g,) = torch.autograd.grad(model(x).sum(), x, create_graph=True)
    return g.pow(2).sum() + model(x)


def _hooked(model, x):
    h = model(x)
    h.register_hook(lambda g: g * 2)
    h.retain_grad()
    return h * 1


INSIDE = {
    "function": lambda model, x: Cube.apply(model(x)),
    "checkpoint": _checkpointed,
    "saved tensor hooks": _packed,
    "no_grad": _no_grad,
    "autograd.grad": _penalty,
    "hooks": _hooked,
    "cond": lambda model, x: torch.where(model(x) > 0, model(x), 0.1 * model(x)),
}


@pytest.mark.parametrize("name", INSIDE)
def test_inside_a_step(name):
    def make():
        model = nn.Sequential(nn.Linear(3, 4), nn.Dropout(0.2), nn.Tanh(), nn.Linear(4, 2))
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        step = trainer(lambda x: INSIDE[name](model, x), optimizer)
        return step, lambda i: (data(i, 4, 3),), state_of(model, optimizer)

    both(make)


def test_accumulation_over_micro_batches_inside():
    def make():
        model = nn.Linear(3, 2)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

        def step(x):
            optimizer.zero_grad()
            for part in x.chunk(2):
                model(part).pow(2).sum().backward()
            nn.utils.clip_grad_value_(model.parameters(), 0.5)
            optimizer.step()

        return step, lambda i: (data(i, 4, 3),), state_of(model)

    both(make)


def test_accumulation_over_calls_with_two_functions():
    def make(wrap):
        model = nn.Linear(3, 2)
        optimizer = torch.optim.Adam(model.parameters(), lr=0.1)
        forward = wrap(lambda x: model(x).pow(2).sum().backward())

        def update():
            optimizer.step()
            optimizer.zero_grad()

        update = wrap(update)
        for i in range(6):
            forward(data(i, 4, 3))
            if i % 2:
                update()
        return model.state_dict(), [p.grad for p in model.parameters()]

    sequence(make)


def test_gradients_set_to_zero():
    def make():
        model = nn.Linear(3, 2)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

        def step(x):
            optimizer.zero_grad(set_to_none=False)
            model(x).sum().backward()
            optimizer.step()

        return step, lambda i: (data(i, 4, 3),), state_of(model)

    both(make, programs=2)


def test_a_learning_rate_that_is_a_tensor():
    def make(wrap):
        model = nn.Linear(3, 2)
        optimizer = torch.optim.SGD(model.parameters(), lr=torch.tensor(0.1))
        run = wrap(trainer(model, optimizer))
        for i in range(3):
            run(data(i, 4, 3))
            optimizer.param_groups[0]["lr"].mul_(0.5)
        optimizer.param_groups[0]["lr"] = torch.tensor(0.9)
        run(data(3, 4, 3))
        return model.state_dict()

    sequence(make)


@pytest.mark.parametrize("key", ["lr", "momentum", "weight_decay", "maximize", "nesterov"])
def test_options_of_the_optimizer_change(key):
    def make(wrap):
        model = nn.Linear(3, 2)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
        run = wrap(trainer(model, optimizer))
        for i in range(4):
            if i == 2:
                optimizer.param_groups[0][key] = {"maximize": True, "nesterov": True}.get(key, 0.5)
            run(data(i, 4, 3))
        return model.state_dict(), optimizer.state_dict()["state"]

    sequence(make)


def test_loading_a_state_between_calls():
    def make(wrap):
        model = nn.Linear(3, 2)
        optimizer = torch.optim.Adam(model.parameters(), lr=0.1)
        run = wrap(trainer(model, optimizer))
        run(data(0, 4, 3))
        saved = {k: v.clone() for k, v in model.state_dict().items()}
        state = optimizer.state_dict()
        state = {**state, "state": {i: {k: v.clone() for k, v in s.items()} for i, s in state["state"].items()}}
        run(data(1, 4, 3))
        model.load_state_dict(saved)
        optimizer.load_state_dict(state)
        return [run(data(i, 4, 3)) for i in range(3)], model.state_dict(), optimizer.state_dict()["state"]

    sequence(make)


def test_state_cleared_and_groups_added():
    def make(wrap):
        model = nn.Sequential(nn.Linear(3, 3), nn.Linear(3, 2))
        optimizer = torch.optim.Adam(model[1].parameters(), lr=0.1)
        run = wrap(trainer(model, optimizer))
        run(data(0, 4, 3))
        optimizer.add_param_group({"params": list(model[0].parameters()), "lr": 0.5})
        run(data(1, 4, 3))
        optimizer.state.clear()
        run(data(2, 4, 3))
        return model.state_dict(), optimizer.state_dict()["state"]

    sequence(make)


def test_lbfgs_falls_back_to_eager():
    """Its line of decisions needs values: the function runs in eager code, with the same numbers."""
    seen = []
    for wrap in (lambda f: f, torch.compile):
        w = torch.tensor([3.0, -2.0], requires_grad=True)
        optimizer = torch.optim.LBFGS([w], lr=0.5, max_iter=3)

        def closure(w=w, optimizer=optimizer):
            optimizer.zero_grad()
            loss = (w**2).sum()
            loss.backward()
            return loss.detach()

        run = wrap(lambda optimizer=optimizer, closure=closure: optimizer.step(closure))
        seen.append(numbers([run(), run(), w]))
    same(*seen)


def test_random_numbers_after_a_failed_trace():
    """The eager call that follows draws what it would have drawn without the trace."""
    seen = []
    for wrap in (lambda f: f, torch.compile):
        torch.manual_seed(3)
        run = wrap(lambda: torch.rand(2).sum().item())
        seen.append([run(), run(), torch.rand(1).item()])
    same(*seen)


def test_a_seed_set_inside():
    def f():
        torch.manual_seed(3)
        return torch.rand(2)

    run = torch.compile(f)
    assert all(torch.equal(run(), f()) for _ in range(3))
    with pytest.raises(RuntimeError, match="sets the seed or state of a random generator"):
        torch.compile(f, fullgraph=True)()
    g = torch.Generator()
    with pytest.raises(RuntimeError, match="sets the seed or state of a random generator"):
        torch.compile(lambda: (torch.rand(1, generator=g), g.manual_seed(4))[0], fullgraph=True)()


def test_a_view_that_was_read_before():
    """What a view of the outside has read is read anew by every call of the program."""
    base = torch.zeros(4)
    view = base[1:3]
    assert view.sum().item() == 0
    run = torch.compile(lambda x: x + view, fullgraph=True)
    run(torch.ones(2))
    base[1] = 5.0
    assert run(torch.ones(2)).tolist() == [6.0, 1.0]


def test_tensors_that_the_collector_was_told_to_forget():
    """``gc.freeze()`` hides parameters and state from a trace, which finds them all the same."""

    def make(often):
        model = nn.Linear(3, 2)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
        gc.freeze()

        def step(x):
            optimizer.zero_grad()
            loss = model(x).square().sum()
            loss.backward()
            optimizer.step()
            return loss

        def arguments(i):
            if often:
                gc.freeze()
            return (data(i, 4 + i, 3),)  # each length is traced

        return step, arguments, state_of(model, optimizer)

    both(lambda: make(False), programs=4)
    assert gc.get_freeze_count()
    both(lambda: make(True), programs=4)


def test_a_gradient_that_something_hidden_refers_to():
    w, kept = torch.nn.Parameter(torch.ones(3)), {}

    @torch.compile
    def f(x):
        w.grad = x * 2
        return kept["grad"] + 0

    gc.collect()
    gc.freeze()
    kept["grad"] = w.grad = torch.ones(3) * 5
    for i in range(4):
        kept["grad"] += 1
        assert f(torch.ones(3) * i).tolist() == [6.0 + i] * 3
        assert w.grad.tolist() == [2.0 * i] * 3


BACKWARDS = {
    "a loss": lambda x: x.sum().backward(),
    "a product": lambda x: (x * x).sum().backward(),
    "of two": lambda x: torch.autograd.backward([x.sum(), (x * x).sum()]),
    "inputs": lambda x: (x * x).sum().backward(inputs=[x]),
    "kept": lambda x: (x * x).sum().backward(retain_graph=True),
}


@pytest.mark.parametrize("made_outside", [False, True])
@pytest.mark.parametrize("name", BACKWARDS)
def test_backward_into_an_argument(name, made_outside):
    """A gradient that flows into an argument flows on to what that was made of."""

    def make(wrap):
        run, outs = wrap(BACKWARDS[name]), []
        for step in range(4):
            w = data(step, 3).requires_grad_()
            x = w * 2 if made_outside or step % 2 else w
            if x is not w:
                x.retain_grad()
            run(x)
            outs += [None if t.grad is None else t.grad.tolist() for t in (w, x)]
        return outs

    assert make(torch.compile) == make(lambda f: f)


@pytest.mark.parametrize("name", BACKWARDS)
def test_backward_through_an_argument_is_no_single_program(name):
    with pytest.raises(RuntimeError, match="is not one program: it runs backward into an argument that has a history"):
        torch.compile(BACKWARDS[name], fullgraph=True)(torch.ones(3, requires_grad=True) * 2)
