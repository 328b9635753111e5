"""Bodies of control flow that do more than compute: each is refused, or does what it does, as in PyTorch.

A story makes a body, and what shows the world that it can reach. The body runs in each kind of control flow, in eager
code and in compiled functions; where PyTorch refuses it, so is it here, and the world is as it was before.

What PyTorch says is kept in bodies.json, since its own compiler runs for each: ``make test-compilers`` asks it again;
``PYTHONPATH=.:tests python tests/compile/test_bodies.py`` writes it anew.
"""

import functools
import json
import types
import weakref
from pathlib import Path

import pytest
import torch as pytorch
from bodies_kit import CAPTURED, KINDS
from both import attempt, plain

import torchlike

pytestmark = pytest.mark.filterwarnings("ignore:.*lru_cache")
STORIES = {}


def story(f):
    STORIES[f.__name__] = f
    return f


def told(t, name, kind, compiled):
    """What the control flow gives, "refused" where it raises, and the world afterwards."""
    body, world = STORIES[name](t)
    run = functools.partial(KINDS[kind], t, body)
    if compiled:
        backend = {"backend": "eager"} if t is pytorch else {}
        run = t.compile(run, **backend)
    got = attempt(lambda: run(t.tensor([1.0, 2.0, 3.0])))
    if isinstance(got, Exception):
        assert isinstance(got, RuntimeError | NotImplementedError | AttributeError), repr(got)
        got = "refused"
    return plain([got, world()])


# -- Python objects ------------------------------------------------------------------------------------------
@story
def a_list_is_appended(t):
    seen = []

    def body(a):
        seen.append(1)
        return a * 2

    return body, lambda: len(seen)


@story
def a_variable_is_counted(t):
    n = 0

    def body(a):
        nonlocal n
        n += 1
        return a * 2

    return body, lambda: n


@story
def an_attribute_is_set(t):
    box = types.SimpleNamespace(n=0)

    def body(a):
        box.n += 1
        return a * 2

    return body, lambda: box.n


@story
def a_dict_is_filled(t):
    found = {}

    def body(a):
        found["k"] = 3
        return a * 2

    return body, lambda: found


@story
def a_dict_that_has_the_key(t):
    found = {"k": 3}
    return lambda a: a * found.get("k", 4), lambda: found


@story
def a_tensor_is_kept(t):
    seen = []

    def body(a):
        seen.append(a * 2)
        return a * 2

    return body, lambda: len(seen)


@story
def a_list_of_its_own(t):
    def body(a):
        found = [a]
        found.append(a * 2)
        return found[0] + found[1]

    return body, lambda: None


@story
def a_module_that_counts(t):
    class Counts(t.nn.Module):
        def __init__(self):
            super().__init__()
            self.n = 0

        def forward(self, a):
            self.n += 1
            return a * 2

    module = Counts()
    return module, lambda: module.n


@story
def an_iterator_is_advanced(t):
    numbers = iter([1.0, 2.0, 3.0])
    return lambda a: a * next(numbers), lambda: list(numbers)


@story
def a_cached_function(t):
    @functools.lru_cache
    def double(n):
        return n * 2

    return lambda a: a * double(2), lambda: double.cache_info().misses


@story
def a_weak_reference(t):
    module = t.nn.Linear(1, 1)
    reference = weakref.ref(module)
    return lambda a: a * len(list(reference().parameters())), lambda: module.bias.shape[0]


@story
def doubled(t):
    return lambda a: a * 2, lambda: None


@story
def a_class_inside(t):
    def body(a):
        class Two:
            n = 2

        return a * Two.n

    return body, lambda: None


@story
def it_raises(t):
    def body(a):
        raise RuntimeError("no")

    return body, lambda: None


@story
def it_catches(t):
    def body(a):
        try:
            raise ValueError
        except ValueError:
            return a * 2

    return body, lambda: None


@story
def the_seed_is_set(t):
    def body(a):
        t.manual_seed(3)
        return a * 2

    t.manual_seed(1)
    return body, lambda: t.initial_seed()


@story
def the_grad_mode_within(t):
    def body(a):
        with t.no_grad():
            return a * 2

    return body, lambda: t.is_grad_enabled()


# -- tensors ---------------------------------------------------------------------------------------------------
@story
def a_tensor_is_changed(t):
    w = t.zeros(())

    def body(a):
        w.add_(1)
        return a * 2

    return body, lambda: [w, w._version]


@story
def a_view_is_changed(t):
    w = t.zeros(3)

    def body(a):
        w[1].fill_(2)
        return a * 2

    return body, lambda: [w, w._version]


@story
def the_operand_is_changed(t):
    return lambda a: a.mul_(2), lambda: None


@story
def a_buffer_is_assigned(t):
    class Counts(t.nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("n", t.zeros(()))

        def forward(self, a):
            self.n = self.n + 1
            return a * 2

    module = Counts()
    return module, lambda: module.n


@story
def a_gradient_is_set(t):
    w = t.ones((), requires_grad=True)

    def body(a):
        w.grad = t.ones(())
        return a * 2

    return body, lambda: w.grad


@story
def a_gradient_is_read(t):
    w = t.ones((), requires_grad=True)
    (w * 3).backward()
    return lambda a: a * w.grad, lambda: w.grad


@story
def backward_runs(t):
    w = t.ones((), requires_grad=True)

    def body(a):
        (w * 3).backward()
        return a * 2

    return body, lambda: w.grad


@story
def it_requires_grad_from_now_on(t):
    w = t.tensor(2.0)

    def body(a):
        w.requires_grad_()
        return a * w

    return body, lambda: w.requires_grad


@story
def an_attribute_of_a_tensor(t):
    w = t.tensor(2.0)

    def body(a):
        w.note = 3
        return a * w

    return body, lambda: getattr(w, "note", None)


@story
def a_choice_by_numbers(t):
    w = t.tensor(2.0)
    return lambda a: a * 2 if w > 0 else a * 3, lambda: w


@story
def made_inside(t):
    def body(a):
        b = a.clone()
        b.add_(t.arange(3.0).sum())
        return b * t.tensor(2.0)

    return body, lambda: None


@story
def indices_in_a_list(t):
    w = t.arange(3.0)
    return lambda a: a * w[[2, 1]].sum(), lambda: w


@story
def what_is_outside_is_returned(t):
    w = t.tensor(1.0)
    return lambda a: w, lambda: w


LIKE = {"a_class_inside": "doubled"}  # PyTorch refuses the first, and does the second, which is the same
SAID = Path(__file__).with_name("bodies.json")
ASKED = [(name, kind) for name in STORIES for kind in KINDS if (name, kind) != ("a_cached_function", "associative")]


def theirs(name, kind):
    return as_json(told(pytorch, LIKE.get(name, name), kind, False))


def as_json(answer):
    return json.loads(json.dumps(answer))


@pytest.fixture(scope="module")
def said():
    """{story: {kind: PyTorch's answer}}."""
    return json.loads(SAID.read_text())


@pytest.mark.compilers
@pytest.mark.parametrize(("name", "kind"), ASKED)
def test_what_is_kept_is_what_pytorch_says(name, kind, said):
    try:
        assert theirs(name, kind) == said[name][kind], f"python {__file__} writes it anew"
    finally:
        pytorch._dynamo.reset()


@pytest.mark.parametrize("compiled", [False, True], ids=["eager", "compiled"])
@pytest.mark.parametrize("kind", CAPTURED)
@pytest.mark.parametrize("name", STORIES)
def test_as_pytorch(name, kind, compiled, said):
    assert as_json(told(torchlike, name, kind, compiled)) == said[name][kind]


@pytest.mark.parametrize("name", [n for n in STORIES if n != "a_cached_function"])
def test_associative_scan(name, said):
    """PyTorch runs its function as Python code, as often as it needs it; here it is a program: else it is refused."""
    got = as_json(told(torchlike, name, "associative", False))
    untouched = as_json(plain(STORIES[name](torchlike)[1]()))
    assert got == said[name]["associative"] or got == ["refused", untouched]


def write():
    kept = {name: {} for name in STORIES}
    for name, kind in ASKED:
        kept[name][kind] = theirs(name, kind)
        pytorch._dynamo.reset()
    lines = [f"  {json.dumps(name)}: {json.dumps(answers)}" for name, answers in kept.items()]
    SAID.write_text("{\n" + ",\n".join(lines) + "\n}\n")


if __name__ == "__main__":
    write()
