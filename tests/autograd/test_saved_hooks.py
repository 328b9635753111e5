"""Hooks on saved tensors: default hooks of a context, hooks of one slot, and the contexts built on them."""

import gc
import os
import tempfile
import threading
import weakref

import pytest
from both import agree, attempt
from story_kit import grid, leaf, said, story

WRITES = "A saved tensor pack hook is modifying its input in place"
TWICE = "Calling register_hooks on a saved tensor whose hooks have already been set"
FREED = "Calling register_hooks on a saved tensor after it has been freed"


def hooks(t, pack, unpack=lambda kept: kept):
    return t.autograd.graph.saved_tensors_hooks(pack, unpack)


def same(x):
    return x


def logging(log, name=""):
    """A pair of hooks that log their calls."""
    return lambda x: log.append("pack" + name) or x, lambda x: log.append("unpack" + name) or x


# -- default hooks -------------------------------------------------------------------------------------


@story
def test_every_saved_tensor_is_packed_once(t):
    log = []

    def pack(x):
        log.append(("pack", x.sum().item(), x.requires_grad, x.is_leaf, x._version, t.is_grad_enabled()))
        return x

    def unpack(x):
        log.append(("unpack", x.sum().item(), x.requires_grad, t.is_grad_enabled()))
        return x

    a, b = leaf(t), leaf(t, 4, 5, 6)
    with hooks(t, pack, unpack) as entered:
        y = a * b
        z = y.exp()
        total = (z * z).sum()
    packed = len(log)
    total.backward()
    return entered, packed, sorted(log), a.grad, b.grad


PACKED = {
    "mul": lambda t, x: x * x,
    "mul by a constant": lambda t, x: x * t.ones(3),
    "mul by a number": lambda t, x: x * 2,
    "add": lambda t, x: x + x,
    "div": lambda t, x: x / x,
    "exp": lambda t, x: x.exp(),
    "pow": lambda t, x: x**3,
    "sin": lambda t, x: x.sin(),
    "sigmoid": lambda t, x: x.sigmoid(),
    "sum": lambda t, x: x.sum(),
    "matmul": lambda t, x: x.unsqueeze(0) @ x.unsqueeze(1),
    "max": lambda t, x: x.max(0)[0],
    "sort": lambda t, x: x.sort()[0],
    "index": lambda t, x: x[t.tensor([0, 1])],
    "relu": lambda t, x: x.relu(),
    "log_softmax": lambda t, x: x.log_softmax(0),
    "norm": lambda t, x: x.norm(),
    "where": lambda t, x: t.where(x > 1, x, 0.0),
    "in place": lambda t, x: (x + 0).mul_(x),
    "in place, result saved": lambda t, x: (x + 0).exp_(),
    "view in place": lambda t, x: (x + 0)[:2].mul_(2),
    "view": lambda t, x: x.view(3, 1),
    "cat": lambda t, x: t.cat([x, x]),
}


@pytest.mark.parametrize("name", PACKED)
def test_what_is_packed(name):
    def f(t):
        x, shapes = leaf(t), []
        with hooks(t, lambda v: shapes.append(tuple(v.shape)) or v):
            PACKED[name](t, x).sum().backward()
        return sorted(shapes), x.grad

    agree(f)


@pytest.mark.parametrize("name", PACKED)
def test_any_object_may_be_kept(name):
    def f(t):
        x = leaf(t)
        with hooks(t, lambda v: {"kept": v.numpy(force=True).tolist(), "dtype": v.dtype},
                   lambda kept: t.tensor(kept["kept"], dtype=kept["dtype"])):  # fmt: skip
            y = PACKED[name](t, x).sum()
        y.backward()
        return x.grad

    agree(f)


@story
def test_unpacked_as_often_as_it_is_asked_for(t):
    x, log = leaf(t), []
    with hooks(t, *logging(log)):
        y = x * x
    first, second = y.grad_fn._saved_self, y.grad_fn._saved_self
    log.append("backward")
    y.sum().backward(retain_graph=True)
    log.append("backward")
    y.sum().backward()
    return log, first, first is second, first is x, first.is_leaf, first.requires_grad, x.grad


@story
def test_an_unpacked_tensor_has_the_history_of_the_packed_one(t):
    x = leaf(t)
    with hooks(t, lambda v: v.numpy(force=True), lambda kept: t.tensor(kept)):
        a = x * 3
        y = a * a
        z = a.exp()
    saved, result = y.grad_fn._saved_self, z.grad_fn._saved_result
    return (saved is a, saved.grad_fn is a.grad_fn, saved.requires_grad, saved.is_leaf, result.grad_fn is z.grad_fn,
            a.grad_fn._saved_self if hasattr(a.grad_fn, "_saved_self") else None)  # fmt: skip


@story
def test_without_hooks_leaves_are_saved_as_they_are(t):
    x = leaf(t)
    y, z = x * x, x.exp()
    saved, result = y.grad_fn._saved_self, z.grad_fn._saved_result
    return saved is x, y.grad_fn._saved_other is x, result is z, result.grad_fn is z.grad_fn, result.requires_grad


@story
def test_hooks_that_change_the_value(t):
    x = leaf(t)
    with hooks(t, lambda v: v * 2, lambda v: v / 2):
        y = x * x
    (g,) = t.autograd.grad(y.sum(), x, create_graph=True)
    return g, t.autograd.grad(g.sum(), x)


@story
def test_double_backward_through_hooks(t):
    x, log = leaf(t), []
    with hooks(t, lambda v: log.append(1) or v.numpy(force=True), lambda kept: t.tensor(kept)):
        y = x.exp() * x
        (g,) = t.autograd.grad(y.sum(), x, create_graph=True)
        (h,) = t.autograd.grad(g.sum(), x, create_graph=True)
    return g, h, t.autograd.grad(h.sum(), x), len(log) > 3


@story
def test_of_nested_contexts_the_innermost_acts(t):
    x, log = leaf(t), []
    with hooks(t, *logging(log, " outer")):
        a = x.exp()
        with hooks(t, *logging(log, " inner")):
            b = x.exp()
        c = x.exp()
    d = x.exp()
    (a + b + c + d).sum().backward()
    return log, x.grad


@story
def test_one_context_entered_twice(t):
    x, log = leaf(t), []
    context = hooks(t, *logging(log))
    with context, context:
        x.exp()
    x.exp()
    with context:
        x.exp()
    return log


@story
def test_hooks_belong_to_a_thread(t):
    x, log = leaf(t), []
    with hooks(t, *logging(log)):
        thread = threading.Thread(target=lambda: x.exp())
        thread.start()
        thread.join()
        log.append("here")
        x.exp()
    return log


@story
def test_a_backward_that_records_nothing_packs_nothing(t):
    x, log = leaf(t), []
    y = (x * x).exp().sum()
    with hooks(t, *logging(log)):
        y.backward()
    return log


@story
def test_operators_in_a_pack_hook_are_not_recorded(t):
    x, log = leaf(t), []

    def pack(v):
        log.append((t.is_grad_enabled(), (v * v).requires_grad))
        return v

    with hooks(t, pack):
        (x * x).sum().backward()
    return log


@story
def test_a_pack_hook_that_records_packs_again(t):
    x, depth = leaf(t), []

    def pack(v):
        depth.append(1)
        if len(depth) < 5:
            with t.enable_grad():
                v.exp()
        return v

    with hooks(t, pack):
        x.exp()
    return len(depth)


@story
def test_nothing_is_kept_of_the_tensor(t):
    class Thing:
        pass

    x = leaf(t)
    y = x * 2
    y.thing = thing = Thing()
    ref = weakref.ref(thing)
    with hooks(t, lambda v: v.numpy(force=True), t.from_numpy):
        z = y.exp().sum() + (y * 3).sin().sum()
    del y, thing
    gc.collect()
    gone = ref() is None
    z.backward()
    return gone, x.grad


@story
def test_saved_to_disk(t):
    with tempfile.TemporaryDirectory() as folder:

        def pack(v):
            path = os.path.join(folder, str(len(os.listdir(folder))))
            t.save(v, path)
            return path

        x = leaf(t)
        with hooks(t, pack, t.load):
            y = (x * x).exp().sum()
        files = len(os.listdir(folder))
        y.backward()
    return files, x.grad


@story
def test_in_place_after_packing(t):
    out = []
    for pack in (same, lambda v: v.clone()):
        x = leaf(t)
        a = x * 1
        with hooks(t, pack):
            y = a * a
        a.mul_(3)
        out.append((said(lambda y=y: y.sum().backward(), "modified by an inplace operation"), x.grad))
    return out


@story
def test_a_leaf_changed_after_packing_a_copy(t):
    x = leaf(t)
    with hooks(t, lambda v: v.clone()):
        y = (x * x).sum()
    with t.no_grad():
        x.mul_(3)
    y.backward()
    return x.grad


@story
def test_an_unpack_hook_may_change_what_it_gives(t):
    x = leaf(t)
    with hooks(t, lambda v: v.clone(), lambda v: v.mul_(2)):
        y = x * x
    y.sum().backward()
    return x.grad


@story
def test_the_history_of_what_an_unpack_hook_gives_is_not_followed(t):
    x, other = leaf(t), leaf(t, 7, 8, 9)
    with hooks(t, same, lambda v: other * 2):
        y = x * x
    (g,) = t.autograd.grad(y.sum(), x, create_graph=True)
    return g, t.autograd.grad(g.sum(), (x, other), allow_unused=True)


# -- errors --------------------------------------------------------------------------------------------


@story
def test_pack_hooks_may_not_change_their_input(t):
    out = []
    for change in (lambda v: v.add_(1), lambda v: v.detach().zero_(), lambda v: v[0].fill_(3.0)):

        def pack(v, change=change):
            change(v)
            return v

        x = leaf(t) + 0
        with hooks(t, pack):
            out.append(said(x.exp, WRITES))
        out.append(x.exp().requires_grad)
    return out


@story
def test_pack_may_give_none(t):
    x = leaf(t)
    with hooks(t, lambda v: None, lambda kept: t.ones(3, dtype=t.float64)):
        y = x * x
    y.sum().backward()
    return x.grad


@pytest.mark.parametrize("given", [3, None, "a", [1.0], (2,)])
def test_unpack_gives_a_tensor(given):
    def f(t):
        x, why = leaf(t), "Output of saved tensor unpack_hook expected to be a Tensor but got result of type"
        with hooks(t, same, lambda v: given):
            y = x.exp()
        return said(lambda: y.sum().backward(), why), said(lambda: y.grad_fn._saved_result, why), x.grad

    agree(f)


ODD = [(lambda: 1, same), (same, lambda: 1), (lambda a, b: a, same), (same, lambda a, b: a),
       (None, None), (same, None), (1, same)]  # fmt: skip


@pytest.mark.parametrize("pair", ODD, ids=range(len(ODD)))
def test_hooks_that_cannot_be_called(pair):
    def f(t):
        x = leaf(t)

        def use():
            with hooks(t, *pair):
                y = x.exp()
            y.sum().backward()

        def register():
            y = x.exp()
            y.grad_fn._raw_saved_result.register_hooks(*pair)
            y.sum().backward()

        out = [attempt(use), attempt(register)]
        y = x.exp()
        y.sum().backward()
        return out, x.grad

    agree(f)


@story
def test_an_error_in_a_pack_hook_leaves_all_as_it_was(t):
    def pack(v):
        raise ValueError("pack")

    def use():
        with hooks(t, pack):
            return x.exp()

    x = leaf(t)
    error = said(use)
    x.exp().sum().backward()
    return error, x.grad, t.is_grad_enabled()


@story
def test_an_error_in_an_unpack_hook_can_be_repeated(t):
    x, wrong = leaf(t), [True]

    def unpack(v):
        if wrong:
            raise ValueError("unpack")
        return v

    with hooks(t, same, unpack):
        y = x.exp()
    error = said(lambda: y.sum().backward())
    wrong.clear()
    y.sum().backward()
    return error, x.grad, t.is_grad_enabled()


@story
def test_leaving_what_was_not_entered(t):
    return attempt(lambda: hooks(t, same).__exit__(None, None, None))


# -- hooks of one slot ---------------------------------------------------------------------------------


@story
def test_register_hooks(t):
    x, log = leaf(t), []
    y = x * x
    slot = y.grad_fn._raw_saved_self
    slot.register_hooks(lambda v: log.append("pack") or v * 2, lambda v: log.append("unpack") or v / 2)
    seen = [type(slot).__name__, log[:], y.grad_fn._saved_self, y.grad_fn._saved_self.is_leaf]
    y.sum().backward()
    return seen, log, x.grad


@story
def test_register_hooks_twice(t):
    y = leaf(t).exp()
    slot = y.grad_fn._raw_saved_result
    slot.register_hooks(same, same)
    with hooks(t, same):
        z = leaf(t).exp()
    return [said(lambda s=s: s.register_hooks(same, same), TWICE)
            for s in (slot, y.grad_fn._raw_saved_result, z.grad_fn._raw_saved_result)]  # fmt: skip


@story
def test_register_hooks_after_the_tensor_was_freed(t):
    y = leaf(t).exp()
    slot = y.grad_fn._raw_saved_result
    y.sum().backward()
    return said(lambda: slot.register_hooks(same, same), FREED), attempt(lambda: y.grad_fn._saved_result)


@story
def test_a_slot_gives_the_value_without_its_history(t):
    log = []
    x = leaf(t)
    y = x * 2
    z, e = y * y, y.exp()
    for slot in (z.grad_fn._raw_saved_self, e.grad_fn._raw_saved_result, (x * x).grad_fn._raw_saved_self):
        slot.register_hooks(lambda v: log.append((v, v.is_leaf, v._version)) or v * 1, same)
    (z + e).sum().backward()
    return log, z.grad_fn is None, x.grad


@story
def test_the_hook_of_a_slot_may_not_change_its_input(t):
    y, z = (leaf(t) + 0).exp(), leaf(t) * 2
    w = z * z
    return (said(lambda: y.grad_fn._raw_saved_result.register_hooks(lambda v: v.add_(1), same), WRITES),
            said(lambda: w.grad_fn._raw_saved_self.register_hooks(lambda v: v.zero_(), same), WRITES))  # fmt: skip


@story
def test_what_register_hooks_wants(t):
    slot = leaf(t).exp().grad_fn._raw_saved_result
    wrong = [(), (same,), (same, same, same), (1, 2), (same, None)]
    return [attempt(lambda a=a: slot.register_hooks(*a)) for a in wrong]


@story
def test_nobody_makes_a_slot(t):
    return said(lambda: type(leaf(t).exp().grad_fn._raw_saved_result)(), "Trying to create a SavedTensor object")


@story
def test_hooks_of_a_slot_and_double_backward(t):
    x = leaf(t)
    y = x.exp()
    y.grad_fn._raw_saved_result.register_hooks(lambda v: v.numpy(force=True), lambda kept: t.tensor(kept))
    (g,) = t.autograd.grad((y * y).sum(), x, create_graph=True)
    return g, t.autograd.grad(g.sum(), x)


@story
def test_what_a_slot_holds(t):
    x = leaf(t)
    y = x * x
    slot = y.grad_fn._raw_saved_self
    seen = [slot.data is x, slot.unpack_hook, slot.unpack() is x]
    slot.register_hooks(lambda v: [v.tolist()], lambda kept: t.tensor(kept[0], dtype=t.float64))
    return seen, slot.data, callable(slot.unpack_hook), slot.unpack()


# -- save_on_cpu, disable_saved_tensors_hooks ----------------------------------------------------------


@pytest.mark.parametrize("arguments", [{}, {"pin_memory": False}, {"device_type": "cpu"}])
def test_save_on_cpu(arguments):
    def f(t):
        x = grid(t)
        with t.autograd.graph.save_on_cpu(**arguments) as entered:
            y = ((x * x).exp() * x).t()[1:].sum()
        y.backward()
        kinds = t.autograd.graph
        return entered, x.grad, issubclass(kinds.save_on_cpu, kinds.saved_tensors_hooks)

    agree(f)


@story
def test_hooks_disabled(t):
    def use(pack=same):
        with hooks(t, pack):
            x.exp()
        return "used"

    def disable(message):
        return t.autograd.graph.disable_saved_tensors_hooks(message)

    x, seen = leaf(t), []
    with disable("not here") as entered:
        seen += [entered, said(use), said(lambda: t.autograd.graph.save_on_cpu().__enter__())]
        with disable("nor here"):
            seen.append(said(use))
        seen.append(said(use))
        y = x.exp()  # kept: PyTorch crashes later if hooks are registered for a result that is gone
        y.grad_fn._raw_saved_result.register_hooks(same, same)
    seen.append(use())
    with hooks(t, same):
        seen.append(said(lambda: disable("too late").__enter__()))
        seen.append(use())
    seen += [disable("decorated")(lambda: said(use))(), use()]

    def failing():
        with disable("x"):
            raise KeyError("y")

    return seen, said(failing), use()
