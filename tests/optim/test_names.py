"""What programs take from torch.optim besides the optimizers: functions of lists, hooks by name, swapped state."""

import importlib
import inspect

import pytest
import torch
from both import agree
from story_kit import said, story

import torchlike


def module(t, name):
    return importlib.import_module(f"{t.__name__}.optim.{name}")


def tensors(t, n, *, least=0.0):
    g = t.linspace(least, 1, 6, dtype=t.float64).reshape(2, 3)
    return [g * (i + 1) + 0.1 * i for i in range(n)]


BETAS = {"beta1": 0.9, "beta2": 0.99, "lr": 0.1, "weight_decay": 0.1, "eps": 1e-8}
FORMS = {
    "adadelta": ("kk", {"lr": 0.1, "rho": 0.9, "eps": 1e-6, "weight_decay": 0.1, "maximize": False}),
    "adagrad": ("k", {"lr": 0.1, "lr_decay": 0.1, "eps": 1e-6, "weight_decay": 0.1, "maximize": True}),
    "adam": ("kkk", BETAS | {"amsgrad": True, "maximize": False}),
    "adam plain": ("kk0", BETAS | {"amsgrad": False, "maximize": True, "decoupled_weight_decay": True}),
    "adamw": ("kkk", BETAS | {"amsgrad": True, "maximize": False}),
    "adamax": ("kk", BETAS),
    "asgd": ("k11", {"lr": 0.1, "lambd": 1e-4, "t0": 1e6, "alpha": 0.75, "weight_decay": 0.1}),
    "nadam": ("kk1", BETAS | {"momentum_decay": 0.004}),
    "radam": ("kk", BETAS),
    "rmsprop": ("kkk", {"lr": 0.1, "alpha": 0.9, "eps": 1e-8, "weight_decay": 0, "momentum": 0.9, "centered": True}),
    "rmsprop plain": ("k00", {"lr": 0.1, "alpha": 0.9, "eps": 1e-8, "weight_decay": 0, "momentum": 0, "centered": 0}),
    "rprop": ("kk", {"step_size_min": 1e-6, "step_size_max": 50, "etaminus": 0.5, "etaplus": 1.2}),
    "sgd": ("n", {"lr": 0.1, "weight_decay": 0.1, "momentum": 0.9, "dampening": 0, "nesterov": True, "maximize": 0}),
    "_adafactor": ("rcn", {"lr": 0.1, "beta2_decay": -0.8, "eps1": None, "eps2": 1e-3, "d": 1.0, "weight_decay": 0.0,
                           "maximize": False}),
}  # fmt: skip


def run_form(t, name, steps=3):
    """Parameters and lists of state after some calls of the function."""
    kinds, options = FORMS[name]
    of = {"k": lambda: tensors(t, 2, least=0.5), "1": lambda: [t.tensor(0.5) for _ in range(2)],
          "0": list, "n": lambda: [None, None], "r": lambda: [t.ones(2, 1, dtype=t.float64) for _ in range(2)],
          "c": lambda: [t.ones(1, 3, dtype=t.float64) for _ in range(2)]}  # fmt: skip
    name = name.split()[0]
    update = getattr(module(t, name), name.strip("_"))
    params, lists = tensors(t, 2), [of[kind]() for kind in kinds]
    counts = [] if name == "sgd" else [[t.tensor(1.0) for _ in params]]
    for i in range(steps):
        grads = [p.cos() * (i + 1) for p in params]
        update(params, grads, *lists, *counts, **options)
    return params, lists, counts


@pytest.mark.parametrize("name", FORMS)
def test_functions_of_lists(name):
    agree(lambda t: run_form(t, name))
    assert_same_signature(name.split()[0])


def assert_same_signature(name):
    ours, theirs = (inspect.signature(getattr(module(t, name), name.strip("_"))) for t in (torchlike, torch))
    kinds = [[(p.name, p.kind, p.default) for p in s.parameters.values()] for s in (ours, theirs)]
    assert kinds[0] == kinds[1]


@story
def test_functions_of_lists_scale_and_skip(t):
    params, grads = tensors(t, 2), tensors(t, 2)
    state = [[t.zeros_like(p) for p in params] for _ in range(2)]
    numbers = BETAS | {"amsgrad": False, "maximize": False, "fused": True}
    steps = [t.tensor(1.0) for _ in params]
    adam = module(t, "adam").adam
    adam(params, grads, *state, [], steps, **numbers, grad_scale=t.tensor(4.0), found_inf=t.tensor(0.0))
    adam(params, grads, *state, [], steps, **numbers, found_inf=t.tensor(1.0))
    return params, state, said(lambda: adam(params, grads, *state, [], [1.0, 1.0], **numbers), "API has changed")


@story
def test_sparse_adam_refuses_dense_gradients(t):
    p = t.nn.Parameter(t.ones(2))
    make = t.optim.SparseAdam
    optimizer = make([p], betas=(0.5, 0.9), maximize=True)
    idle = optimizer.step(lambda: 3.0)
    p.grad = t.ones(2)
    wrong = [lambda: make([p], lr=0), lambda: make([p], lr=t.ones(2)), lambda: make([p], eps=0.0), lambda: make(p),
             lambda: make([p], betas=(1.0, 0)), lambda: make([p * (1 + 1j)]), lambda: make([]),
             lambda: make([p.detach() * (1 + 1j)])]  # fmt: skip
    words = "Invalid .*|Tensor lr must be 1-element|non-leaf|empty|an iterable of|complex"
    return repr(optimizer), idle, said(optimizer.step), [said(f, words) for f in wrong]


NAN, INF = float("nan"), float("inf")
NUMBERS = [
    ("SGD", {"lr": NAN}), ("SGD", {"momentum": NAN}), ("SGD", {"weight_decay": NAN}), ("SGD", {"momentum": [0.5]}),
    ("Adam", {"weight_decay": [0.5]}), ("RMSprop", {"momentum": [0.5]}), ("Muon", {"lr": NAN}),
    ("Muon", {"momentum": NAN}), ("Muon", {"weight_decay": NAN}), ("Adafactor", {"d": NAN}), ("Adafactor", {"lr": NAN}),
    ("Adafactor", {"beta2_decay": NAN}), ("Adafactor", {"eps": (None, NAN)}), ("Adafactor", {"weight_decay": NAN}),
    *[("LBFGS", {"max_iter": n}) for n in (NAN, INF, 2.5, 0)],
]  # fmt: skip


def numbered(t, name, given):
    """Two steps; a list stands for a tensor."""
    p = t.nn.Parameter(t.ones(2, 2) * 3)
    options = {k: t.tensor(v[0]) if isinstance(v, list) else v for k, v in given.items()}

    def stepped():
        optimizer = getattr(t.optim, name)([p], **options)
        for _ in range(2):
            optimizer.step(lambda: (optimizer.zero_grad(), ((p**2).sum() - 1).backward(), (p**2).sum().detach())[2])
        return p.detach()

    try:
        return stepped()
    except ValueError as error:
        return str(error)


@pytest.mark.parametrize(("name", "given"), NUMBERS, ids=str)
def test_numbers_that_are_no_number(name, given):
    agree(lambda t: numbered(t, name, given))


@story
def test_steps_of_other_peoples_optimizers(t):
    kit = module(t, "optimizer")

    class Mine(t.optim.Optimizer):
        def __init__(self, params, differentiable=False):
            super().__init__(params, {"differentiable": differentiable, "lr": 1.0})

        @kit._use_grad_for_differentiable
        def step(self, closure=None):
            self._cuda_graph_capture_health_check()
            self._accelerator_graph_capture_health_check()
            seen.append(t.is_grad_enabled())

    seen = []
    p = t.nn.Parameter(t.ones(2, dtype=t.complex64))
    for flag in (False, True):
        Mine([p], flag).step()
    params, state = [p.detach(), t.ones(1)], [t.ones(2, dtype=t.complex64), t.ones(1)]
    kit._view_as_real(params, state)
    numbers = [kit._get_value(x) for x in (3, t.tensor(3.0))] + [kit._to_scalar(x) for x in (3, t.ones(1, 1))]
    choices = [kit._default_to_fused_or_foreach([q], d, f) for q in (t.ones(1), t.ones(1).int())
               for d in (True, False) for f in (True, False)]  # fmt: skip
    checks = [said(lambda q=q: kit._device_dtype_check_for_fused(q), "floating point.*") for q in (t.ones(1), p)]
    lists = Mine([p])._group_tensors_by_device_and_dtype(
        [[t.ones(1), t.ones(2).double(), t.zeros(1)], [None] * 3], True
    )
    grouped = [(str(k), v) for k, v in sorted(lists.items(), key=str)]
    return seen, params, state, numbers, choices, checks, grouped, kit._get_scalar_dtype(), kit._stack_if_compiling(1)


@story
def test_names_of_hooks_and_profiles(t):
    p = t.nn.Parameter(t.ones(2))
    optimizer = t.optim.SGD([p])
    log = []
    handle = module(t, "optimizer").register_optimizer_step_pre_hook(lambda *a: log.append(len(a)))
    held = len(module(t, "optimizer")._global_optimizer_pre_hooks)
    optimizer.step()
    handle.remove()
    optimizer.register_step_post_hook(lambda *a: None)
    optimizer._optimizer_step_code = lambda: log.append("debugger")
    optimizer.step()
    options = [{"params": [0], "capturable": False, "fused": fused} for fused in (False, True)]
    policy = optimizer._process_value_according_to_param_policy
    placed = [policy(p, t.ones(1).double(), 0, [o], key).dtype for o in options for key in ("step", "other")]
    return log, held, optimizer._zero_grad_profile_name, t.optim.SGD.step.hooked, placed


@story
def test_state_whose_counts_are_numbers(t):
    p = t.nn.Parameter(t.ones(2))
    out = []
    for name in ("Adam", "NAdam", "ASGD"):
        optimizer = getattr(t.optim, name)([p])
        p.grad = t.ones(2)
        optimizer.step()
        saved = optimizer.state_dict()
        numbers = {k: float(v) if v.ndim == 0 else v for k, v in saved["state"][0].items()}
        optimizer.load_state_dict(saved | {"state": {0: numbers}})
        optimizer.step()
        out.append(optimizer.state_dict()["state"])
    return p, out


@story
def test_the_first_momentum_is_cut_from_the_graph(t):
    out = []
    for nesterov in (False, True):
        p = t.tensor([1.0, 2.0], dtype=t.float64, requires_grad=True)
        q = p.clone()
        optimizer = t.optim.SGD([q], lr=0.1, momentum=0.9, nesterov=nesterov, differentiable=True)
        for _ in range(3):
            q.grad = p * p
            optimizer.step()
        q.sum().backward()
        out.append(p.grad)
    return out


@story
def test_other_parameters_for_a_while(t):
    own = [t.nn.Parameter(t.ones(2)), t.nn.Parameter(t.ones(3))]
    optimizer = t.optim.Adam([{"params": own[:1], "lr": 0.1}, {"params": own[1:]}])
    swap = t.optim.swap_in_optimizer_params_and_state
    other = {"a": t.zeros(2), "b": t.zeros(3)}

    def step(tensors, saved, optimizer=optimizer):
        with swap(optimizer, tensors, saved):
            for x in tensors.values():
                x.grad = t.ones_like(x)
            optimizer.step()
            if "stop" in tensors:
                raise KeyError("stop")

    early = said(lambda: step(other, optimizer.state_dict()), "initialized")
    for p in own:
        p.grad = t.ones_like(p)
    optimizer.step()
    saved = optimizer.state_dict()
    step(other, saved)
    few, groups = {"a": other["a"]}, saved["param_groups"]
    uneven = [groups[0] | {"params": [0, 1]}, groups[1]]
    wrong = [said(lambda: step(few, saved), "ordering"),
             said(lambda: step(other, saved | {"param_groups": groups[:1]}), "number of parameter groups"),
             said(lambda: step(other, saved | {"param_groups": uneven}), "number of params"),
             said(lambda: step(other, saved | {"state": None}), "got NoneType"),
             said(lambda: step(other, saved | {"state": {0: 3}}), "dictionaries"),
             said(lambda: step(other | {"stop": t.ones(1)}, saved))]  # fmt: skip
    return early, own, other, saved, wrong, optimizer.param_groups[0]["params"][0] is own[0], len(optimizer.state)


@story
def test_names_of_schedulers(t):
    names = module(t, "lr_scheduler")
    optimizer = t.optim.SGD([{"params": [t.ones(1)]}, {"params": [t.ones(2)]}], lr=0.5)
    one, two = names.StepLR(optimizer, 1), names.ExponentialLR(optimizer, 0.5)
    both = names.SequentialLR(optimizer, [one, two], [2])
    both.recursive_undo()
    with names._enable_get_lr_call(one), names._initial_mode(one):
        inside = one._get_lr_called_within_step, one._is_initial, one.get_lr()
    group = {"lr": t.tensor(0.5)}
    names._update_param_group_val(group, "lr", 0.25)
    plateau = names.ReduceLROnPlateau(optimizer)
    plateau._init_is_better("max", 0.1, "abs")
    listed = names._format_param("x", optimizer, 3), names._param_groups_val_list(optimizer, "lr")
    words = said(lambda: plateau._init_is_better("up", 0.1, "abs")), "deprecated" in names.EPOCH_DEPRECATION_WARNING
    return inside, one._is_initial, one.last_epoch, two.last_epoch, group, listed, plateau.mode_worse, words


def test_former_paths():
    def script(t):
        functional, multi = module(t, "_functional"), module(t, "_multi_tensor")
        names = [n for n in "adadelta adagrad adam adamax adamw asgd nadam radam rmsprop rprop sgd".split()
                 if getattr(functional, n) is getattr(module(t, n), n)]  # fmt: skip
        made = [multi.Adam([t.ones(1)], lr=0.5).defaults, multi.SGD([t.ones(1)]).defaults]
        p = t.ones(1)
        arguments = {"eps": 1e-8, "beta1": 0.9, "beta2": 0.9, "lr": 0.1, "maximize": False}
        return names, made, functional.sparse_adam([], [], [], [], [], **arguments), p

    agree(script)
    with pytest.raises(RuntimeError, match="expected sparse coordinate tensor layout"):
        x = [torchlike.ones(1)]
        module(torchlike, "_functional").sparse_adam(x, x, x, x, [1], eps=1, beta1=0, beta2=0, lr=1, maximize=False)


@story
def test_gradients_end_at_counts(t):
    """The counts of a differentiable step do not require grad, whatever the gradients do."""
    out = []
    for name, options in (("Adam", {"eps": 0.1}), ("NAdam", {"eps": 0.1}), ("ASGD", {})):
        p, g = (t.tensor([1.0, 2.0], requires_grad=True) for _ in range(2))
        q = p.clone()
        optimizer = getattr(t.optim, name)([q], differentiable=True, **options)
        for _ in range(2):
            q.grad = g * g
            optimizer.step()
        kept = {k: v.requires_grad for k, v in optimizer.state[q].items()}
        grads = t.autograd.grad((q * q).sum(), [p, g])
        out.append((kept, [f"{x:.3g}" for grad in grads for x in grad.tolist()]))
    return out


@story
def test_fused_steps_want_real_parameters_that_exist(t):
    out = []
    for p in (t.ones(2, device="meta"), t.ones(2, dtype=t.complex64)):
        p.requires_grad_().grad = t.ones_like(p)
        for name in ("Adam", "Adagrad"):
            out.append(said(lambda p=p, name=name: getattr(t.optim, name)([p], fused=True).step(), "`fused=True`.*"))
    return out[0], out[2], [o for o in out[1::2] if isinstance(o, str)]


@story
def test_groups_that_a_scheduler_does_not_know(t):
    names, out = module(t, "lr_scheduler"), []
    made = {"StepLR": lambda o: names.StepLR(o, 2), "LambdaLR": lambda o: names.LambdaLR(o, lambda e: 0.5**e),
            "warm": lambda o: names.CosineAnnealingWarmRestarts(o, 3)}  # fmt: skip
    for name, make in made.items():
        optimizer = t.optim.SGD([t.ones(1)], lr=0.5)
        scheduler = make(optimizer)
        optimizer.add_param_group({"params": [t.ones(2)], "lr": 0.25})
        optimizer.step()
        out.append((name, said(scheduler.step, ""), optimizer.param_groups[1]["lr"]))
    return out


@story
def test_averaging_schedules_count_steps(t):
    out = []
    for last in (-1, 0, 2):
        optimizer = t.optim.SGD([{"params": [t.ones(1)], "initial_lr": 1.0}], lr=0.5)
        schedule = module(t, "swa_utils").SWALR(optimizer, 0.05, 3, last_epoch=last)
        optimizer.step()
        schedule.step(epoch=7)
        out.append((schedule.get_last_lr(), schedule.last_epoch))
        schedule.step()
        out.append(schedule.get_last_lr())
    return out


CAPTURABLE = "ASGD Adadelta Adam AdamW Adamax NAdam RAdam RMSprop Rprop".split()


@pytest.mark.parametrize("name", CAPTURABLE)
@pytest.mark.parametrize("options", [{}, {"foreach": True}, {"differentiable": True}])
def test_capturable_is_for_accelerators(name, options):
    def run(t):
        p = t.nn.Parameter(t.ones(3))
        optimizer = getattr(t.optim, name)([p], lr=0.1, capturable=True, **options)
        optimizer.step()  # without gradients there is nothing to do
        p.grad = t.ones(3)
        answer = said(optimizer.step, "If capturable=True, params.* must be on supported devices: ").replace(
            ", and", " and"
        )
        return answer, p.detach().clone()

    agree(run)


@story
def test_capturable_in_other_ways(t):
    def adam(p, **options):
        p.grad = t.ones_like(p)
        return t.optim.Adam([p], lr=0.1, capturable=True, **options)

    where = [t.nn.Parameter(t.ones(2)), t.nn.Parameter(t.ones(2, device="meta"))]
    lists = [t.zeros(2)], [t.zeros(2)], [], [t.zeros(())]
    numbers = {"beta1": 0.9, "beta2": 0.9, "lr": 0.1, "weight_decay": 0.0, "eps": 1e-8}
    with t.no_grad():
        function = said(
            lambda: module(t, "adam").adam(
                [t.ones(2)], [t.ones(2)], *lists, capturable=True, amsgrad=False, maximize=False, **numbers
            ),
            "If capturable=True",
        )
    adam(where[0], fused=True).step()
    return where[0], said(adam(where[1]).step, "If capturable=True"), function


def test_capturable_in_a_compiled_step():
    """What compiles the step may hold its parameters anywhere."""
    p = torchlike.nn.Parameter(torchlike.ones(2))
    p.grad = torchlike.ones(2)
    optimizer = torchlike.optim.Adam([p], lr=0.1, capturable=True)
    torchlike.compile(optimizer.step)()
    assert p.tolist() == pytest.approx([0.9, 0.9])


@pytest.mark.filterwarnings("ignore")
def test_profiles_show_the_ranges():
    def run(t):
        p = t.nn.Parameter(t.ones(2))
        p.grad = t.ones(2)
        optimizer = t.optim.SGD([p], lr=0.1)
        with t.profiler.profile() as prof:
            optimizer.step()
            optimizer.zero_grad()
        return sorted(e.key for e in prof.key_averages() if e.key.startswith("Optimizer."))

    agree(run)
