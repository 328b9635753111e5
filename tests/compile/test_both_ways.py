"""Training steps, compiled and eager: schedulers, hooks, flips between calls, several models and optimizers."""

import copy

import pytest
from compile_kit import both, data, numbers, same, sequence, state_of, trainer

import torchlike as torch
from torchlike import nn

F = nn.functional
S = torch.optim.lr_scheduler


def mlp(dropout=0.0):
    return nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Tanh(), nn.Dropout(dropout), nn.Linear(4, 2))


# -- optimizers and schedulers ---------------------------------------------------------------------------------

SCHEDULERS = {
    "LambdaLR": lambda o: S.LambdaLR(o, lambda epoch: 0.9**epoch),
    "MultiplicativeLR": lambda o: S.MultiplicativeLR(o, lambda epoch: 0.9),
    "StepLR": lambda o: S.StepLR(o, 2, 0.5),
    "MultiStepLR": lambda o: S.MultiStepLR(o, [1, 3], 0.5),
    "ConstantLR": lambda o: S.ConstantLR(o, 0.5, 2),
    "LinearLR": lambda o: S.LinearLR(o, 0.1, total_iters=3),
    "ExponentialLR": lambda o: S.ExponentialLR(o, 0.8),
    "PolynomialLR": lambda o: S.PolynomialLR(o, 4),
    "CosineAnnealingLR": lambda o: S.CosineAnnealingLR(o, 4),
    "CosineAnnealingWarmRestarts": lambda o: S.CosineAnnealingWarmRestarts(o, 2),
    "CyclicLR": lambda o: S.CyclicLR(o, 0.01, 0.1, 2),  # momentum too
    "OneCycleLR": lambda o: S.OneCycleLR(o, 0.1, total_steps=9),
    "SequentialLR": lambda o: S.SequentialLR(o, [S.ConstantLR(o, 0.1, 2), S.ExponentialLR(o, 0.9)], [2]),
    "ChainedScheduler": lambda o: S.ChainedScheduler([S.ConstantLR(o, 0.1, 2), S.ExponentialLR(o, 0.9)]),
    "ReduceLROnPlateau": lambda o: S.ReduceLROnPlateau(o, patience=0),
}


@pytest.mark.parametrize("name", SCHEDULERS)
def test_schedulers_need_no_new_program(name):
    def make():
        model = nn.Linear(3, 2)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
        scheduler = SCHEDULERS[name](optimizer)

        def arguments(i):
            if i:
                scheduler.step(*[1.0] * (name == "ReduceLROnPlateau"))
            return (data(i, 4, 3),)

        return trainer(model, optimizer), arguments, state_of(model, optimizer)

    both(make, calls=5)


def test_betas_that_change():
    def make():
        model = nn.Linear(3, 2)
        optimizer = torch.optim.AdamW(model.parameters(), lr=0.1)

        def arguments(i):
            optimizer.param_groups[0].update(weight_decay=0.1 * i, betas=(0.9 - 0.1 * i, 0.99), eps=1e-8 * (i + 1))
            return (data(i, 4, 3),)

        return trainer(model, optimizer), arguments, state_of(model, optimizer)

    both(make, programs=None)


def test_clipping_by_norm_and_by_value():
    def make():
        model = mlp()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

        def step(x):
            optimizer.zero_grad()
            loss = model(x).pow(2).sum() * 100
            loss.backward()
            norm = nn.utils.clip_grad_norm_(model.parameters(), 2.0)
            nn.utils.clip_grad_value_(model.parameters(), 0.3)
            optimizer.step()
            return loss, norm

        return step, lambda i: (data(i, 4, 3),), state_of(model, optimizer)

    both(make)


def test_accumulation_over_calls():
    """A step updates in every third call; zero_grad of both kinds."""

    def make(wrap):
        model = nn.Linear(3, 2)
        optimizer = torch.optim.Adam(model.parameters(), lr=0.1)

        def step(x, update, to_none):
            loss = model(x).pow(2).mean() / 3
            loss.backward()
            if update:
                optimizer.step()
                optimizer.zero_grad(set_to_none=to_none)
            return loss

        run = wrap(step)
        seen = []
        for i in range(9):
            seen += [run(data(i, 4, 3), i % 3 == 2, i > 4), [p.grad for p in model.parameters()]]
        return seen, state_of(model, optimizer)()

    sequence(make)


def test_gradients_assigned_inside():
    def make():
        model = nn.Linear(3, 2)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

        def step(x):
            loss = model(x).pow(2).mean()
            for p, g in zip(model.parameters(), torch.autograd.grad(loss, list(model.parameters())), strict=True):
                p.grad = g.sign()
            optimizer.step()
            return loss

        return step, lambda i: (data(i, 4, 3),), state_of(model)

    both(make, programs=None)


def test_updates_by_hand():
    def make():
        model = nn.Linear(3, 2)

        def step(x):
            loss = model(x).pow(2).mean()
            loss.backward()
            with torch.no_grad():
                for p in model.parameters():
                    p -= 0.1 * p.grad
                    p.grad = None
            return loss

        return step, lambda i: (data(i, 4, 3),), state_of(model)

    both(make)


# -- several models ----------------------------------------------------------------------------------------------


def test_two_models_one_optimizer():
    def make():
        one, two = nn.Linear(3, 4), nn.Linear(4, 2)
        optimizer = torch.optim.Adam([*one.parameters(), *two.parameters()], lr=0.1)
        whole = nn.ModuleList([one, two])
        return trainer(lambda x: two(one(x).tanh()), optimizer), lambda i: (data(i, 4, 3),), state_of(whole, optimizer)

    both(make)


def test_two_models_two_optimizers():
    """As adversaries are trained."""

    def make():
        one, two = nn.Linear(3, 3), nn.Linear(3, 1)
        first = torch.optim.Adam(one.parameters(), lr=0.1)
        second = torch.optim.SGD(two.parameters(), lr=0.1, momentum=0.9)

        def step(x):
            fake = one(torch.randn(4, 3))
            second.zero_grad()
            loss = F.softplus(-two(x)).mean() + F.softplus(two(fake.detach())).mean()
            loss.backward()
            second.step()
            first.zero_grad()
            other = F.softplus(-two(fake)).mean()
            other.backward()
            first.step()
            return loss.detach(), other.detach()

        return step, lambda i: (data(i, 4, 3),), state_of(nn.ModuleList([one, two]))

    both(make)


def test_an_average_of_the_parameters():
    def make():
        model = mlp()
        average = copy.deepcopy(model)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        step = trainer(model, optimizer)

        def run(x):
            loss = step(x)
            with torch.no_grad():
                for mine, its in zip(average.parameters(), model.parameters(), strict=True):
                    mine.mul_(0.9).add_(its, alpha=0.1)
                for mine, its in zip(average.buffers(), model.buffers(), strict=True):
                    mine.copy_(its)
            return loss, average(x)

        return run, lambda i: (data(i, 4, 3),), state_of(nn.ModuleList([model, average]))

    both(make)


def test_tied_weights():
    def make():
        embedding, head = nn.Embedding(5, 3), nn.Linear(3, 5, bias=False)
        head.weight = embedding.weight
        optimizer = torch.optim.Adam(embedding.parameters(), lr=0.1)

        def step(ids):
            optimizer.zero_grad()
            loss = F.cross_entropy(head(embedding(ids)), ids)
            loss.backward()
            optimizer.step()
            return loss

        return step, lambda i: (torch.tensor([i % 5, 1, 2]),), state_of(embedding, optimizer)

    both(make)


def test_nested_compiled_functions_in_a_step():
    def make(wrap):
        model, loss_of = wrap(mlp()), wrap(lambda out: out.pow(2).mean())
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

        def step(x):
            optimizer.zero_grad()
            loss = loss_of(model(x))
            loss.backward()
            optimizer.step()
            return loss

        run = wrap(step)
        return [run(data(i, 4, 3)) for i in range(3)] + [step(data(9, 4, 3)), run(data(5, 4, 3))], list(
            model.parameters()
        )

    sequence(make)


# -- flips between calls -----------------------------------------------------------------------------------------


def test_train_and_eval():
    def make(wrap):
        model = mlp(0.5)
        run = wrap(lambda x: model(x))
        seen = []
        for i in range(6):
            model.train(i % 3 != 2)
            seen += [run(data(i, 4, 3)), model[1].running_mean.clone(), model[1].num_batches_tracked.clone()]
        return seen

    sequence(make)


def test_layers_frozen_and_thawed():
    def make(wrap):
        model = nn.Sequential(nn.Linear(3, 3), nn.Linear(3, 2))
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
        run = wrap(trainer(model, optimizer))
        seen = []
        for i in range(6):
            model[0].requires_grad_(i % 4 < 2)
            seen += [run(data(i, 4, 3)), state_of(model)()]
        return seen

    sequence(make)


def test_grad_modes_by_turns():
    def make(wrap):
        model = mlp()
        run = wrap(model)
        seen = []
        for i in range(6):
            with [torch.enable_grad(), torch.no_grad(), torch.inference_mode()][i % 3]:
                out = run(data(i, 4, 3))
            seen += [out, out.is_inference()]
            if out.requires_grad:
                out.sum().backward()
        return seen, state_of(model)()

    sequence(make)


def test_a_group_is_added():
    def make(wrap):
        model = nn.Sequential(nn.Linear(3, 3), nn.Linear(3, 2))
        optimizer = torch.optim.Adam(model[1].parameters(), lr=0.1)
        run = wrap(trainer(model, optimizer))
        seen = [run(data(i, 4, 3)) for i in range(2)]
        optimizer.add_param_group({"params": list(model[0].parameters()), "lr": 0.01})
        return seen + [run(data(i, 4, 3)) for i in range(3)], state_of(model, optimizer)()

    sequence(make)


# -- hooks -------------------------------------------------------------------------------------------------------


def hooks_on_parameters(model, seen):
    model[0].weight.register_hook(lambda g: g.clamp(-0.1, 0.1))
    model[2].bias.register_hook(lambda g: g * 2)


def hooks_on_modules(model, seen):
    model[0].register_forward_pre_hook(lambda m, args: (args[0] * 2,))
    model[1].register_forward_hook(lambda m, args, out: out + 1)
    model[2].register_full_backward_hook(lambda m, gi, go: tuple(g * 3 for g in gi))
    model[2].register_full_backward_pre_hook(lambda m, go: tuple(g * 2 for g in go))


def hooks_after_accumulation(model, seen):
    def scale(p):
        p.grad.mul_(0.5)

    model[0].weight.register_post_accumulate_grad_hook(scale)


@pytest.mark.parametrize("register", [hooks_on_parameters, hooks_on_modules, hooks_after_accumulation])
def test_hooks(register):
    def make():
        model = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2))
        register(model, [])
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        return trainer(model, optimizer), lambda i: (data(i, 4, 3),), state_of(model)

    both(make)


def test_an_update_in_a_hook():
    """Each parameter is updated as soon as its gradient is there."""

    def make():
        model = nn.Linear(3, 2)

        def update(p):
            with torch.no_grad():
                p.sub_(p.grad, alpha=0.1)
            p.grad = None

        for p in model.parameters():
            p.register_post_accumulate_grad_hook(update)

        def step(x):
            loss = model(x).pow(2).mean()
            loss.backward()
            return loss

        return step, lambda i: (data(i, 4, 3),), state_of(model)

    both(make)


def test_hooks_of_an_optimizer():
    def make():
        model = nn.Linear(3, 2)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

        def halve(optimizer, args, kwargs):
            for p in optimizer.param_groups[0]["params"]:
                p.grad.mul_(0.5)

        optimizer.register_step_pre_hook(halve)
        return trainer(model, optimizer), lambda i: (data(i, 4, 3),), state_of(model)

    both(make)


# -- random numbers ------------------------------------------------------------------------------------------------

DRAWS = {
    "rand": lambda x, g: torch.rand(3, generator=g) + torch.rand_like(x).sum(),
    "randn": lambda x, g: torch.randn(2, 2, generator=g) + torch.randn_like(x).sum(),
    "randint": lambda x, g: torch.randint(0, 9, (4,), generator=g),
    "randperm": lambda x, g: torch.randperm(7, generator=g),
    "bernoulli": lambda x, g: torch.bernoulli(torch.full((9,), 0.5), generator=g),
    "multinomial": lambda x, g: torch.multinomial(torch.ones(4), 3, generator=g),
    "in place": lambda x, g: x.clone().normal_(generator=g).uniform_(0, 1) + x.clone().exponential_(),
    "dropout": lambda x, g: F.dropout(x, 0.5) + F.dropout(x, 0.2, training=True),
    "init": lambda x, g: nn.init.xavier_uniform_(torch.empty(3, 3)),
}


@pytest.mark.parametrize("name", DRAWS)
def test_draws(name):
    def make():
        g = torch.Generator().manual_seed(3)
        return lambda x: DRAWS[name](x, g), lambda i: (data(i, 2, 4),), lambda: (g.get_state(), torch.get_rng_state())

    both(make)


def test_a_seed_set_between_calls():
    def make(wrap):
        run = wrap(lambda x: F.dropout(x, 0.5) + torch.rand(1))
        seen = [run(data(0, 4))]
        torch.manual_seed(5)
        seen += [run(data(0, 4)), run(data(0, 4))]
        state = torch.get_rng_state()
        seen += [run(data(0, 4))]
        torch.set_rng_state(state)
        return seen + [run(data(0, 4)), torch.rand(1)]

    sequence(make)


# -- failures --------------------------------------------------------------------------------------------------------


def test_an_exception_midway_leaves_what_eager_code_leaves():
    def make(wrap):
        model = nn.Linear(3, 2)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
        count = torch.zeros(())

        def step(x):
            optimizer.zero_grad()
            count.add_(1)
            loss = model(x).pow(2).mean()
            loss.backward()
            if x.shape[0] == 3:
                raise KeyError("three")
            optimizer.step()
            return loss + torch.rand(1)

        run = wrap(step)
        seen = []
        for i, n in enumerate([4, 3, 4, 3, 4]):
            try:
                seen += [run(data(i, n, 3))]
            except KeyError as error:
                seen += [str(error)]
            seen += [count.clone(), state_of(model, optimizer)()]
        return seen + [torch.rand(1)]

    seen = []
    for wrap in (lambda f: f, torch.compile):
        torch.manual_seed(0)
        seen.append(numbers(make(wrap)))
    same(*seen)


@pytest.mark.parametrize("message", ["mat1 and mat2", "inplace operation"])
def test_errors_of_operators_are_those_of_eager_code(message):
    w = torch.ones(3, requires_grad=True)

    def f(x):
        if message == "mat1 and mat2":
            return x @ torch.ones(5, 5)
        y = (w * x[0]).exp()
        y.add_(1)
        y.sum().backward()

    for run in (f, torch.compile(f)):
        with pytest.raises(RuntimeError, match=message):
            run(torch.ones(2, 3))
    assert w.grad is None
