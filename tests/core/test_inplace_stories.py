"""Stories of in-place changes, views, hooks, retained gradients and storages, told on both libraries."""

from both import attempt
from history_kit import double, graph, leaf, message, tell
from story_kit import story


@story
def test_requires_grad_in_place(t):
    a, b = double(t, 2), leaf(t, 2)
    a += b
    c, d = double(t, 2) + 0, leaf(t, 2)
    c += d
    return a.requires_grad, a.is_leaf, c.requires_grad, tell(a, c)


@story
def test_a_constant_changed_before_it_requires_grad(t):
    a = double(t, 2)
    a.add_(5)
    a.requires_grad = True
    a.sum().backward()
    b = double(t, 2)
    view = b[:]
    view.add_(5)
    b.requires_grad = True
    b.sum().backward()
    return a.grad, b.grad, view.requires_grad, view.is_leaf, message(lambda: b.add_(5)), message(lambda: view.add_(5))


@story
def test_a_base_detached_keeps_its_views(t):
    x = leaf(t, 4, 4)
    view = x.narrow(0, 1, 2)
    x.detach_()
    facts = x.requires_grad, view.requires_grad, view.grad_fn is None, view._base is x, view.is_leaf
    return facts, message(lambda: view.detach_())


@story
def test_a_computed_base_detached(t):
    x = leaf(t, 4)
    y = x * 2
    view = y[:2]
    y.detach_()
    return [message(g) for g in (
        lambda: (y.requires_grad, view.requires_grad, graph(view.grad_fn)),
        lambda: view.mul_(2),
        lambda: (y, view, graph(view.grad_fn), y.requires_grad),
        lambda: view.sum().backward(),
        lambda: x.grad,
    )]  # fmt: skip


@story
def test_a_view_given_other_memory(t):
    x = leaf(t, 2, 3)
    v, w = x[1:], (x * 2)[1:]
    with t.no_grad():
        v.set_(x.clone())
        w.set_(x[:1].clone())
    return v.is_leaf, v.requires_grad, w.is_leaf, attempt(lambda: v.grad_fn is None)


@story
def test_no_grad_assignment(t):
    x, y = leaf(t, 3, 3), double(t, 3)
    with t.no_grad():
        x[0] = y
    return x.requires_grad, x.grad_fn, x, x._version


@story
def test_a_view_made_and_changed_in_no_grad(t):
    x = leaf(t, 3, 3)
    with t.no_grad():
        v = x[0]
        v.add_(1)
        w = x.view(-1)
        w.mul_(2)
    return v.requires_grad, message(lambda: v.is_leaf), w.requires_grad, x, message(lambda: w.grad_fn), v._version


@story
def test_a_base_changed_with_history_then_views_made_before_in_no_grad(t):
    base = double(t, 2, 3)
    with t.no_grad():
        v = base[0]
    base.mul_(leaf(t, 2, 3))
    return base.requires_grad, [message(g) for g in (lambda: v.requires_grad, lambda: v.grad_fn, lambda: v * 2)]


@story
def test_the_old_grad_fn_stays_where_it_was(t):
    x = leaf(t, 3)
    y = x * 2
    before = y.grad_fn
    y.add_(1)
    return before is y.grad_fn, y.grad_fn.next_functions[0][0] is before, graph(y.grad_fn)


@story
def test_a_node_of_a_view_is_made_again(t):
    x = leaf(t, 2, 3)
    y = x * 2
    v = y[0]
    first = v.grad_fn
    y.mul_(2)
    second = v.grad_fn
    return first is second, second is v.grad_fn, graph(first), graph(second), v.output_nr


@story
def test_a_view_keeps_no_history_beyond_its_life(t):
    x = leaf(t, 2, 3)
    y = x * 2
    y[0].mul_(2)
    y[0].mul_(3)
    return graph(y.grad_fn), (y.sum().backward(), x.grad)[1]


@story
def test_retained_gradients_follow_in_place(t):
    x = leaf(t, 3)
    y = x * 2
    y.retain_grad()
    y.mul_(3)
    first = y.retains_grad
    y.retain_grad()
    (y * y).sum().backward()
    return first, y.retains_grad, y.grad, x.grad


@story
def test_retained_gradient_of_a_view_when_its_base_changes(t):
    x = leaf(t, 2, 3)
    y = x * 2
    v = y[0]
    v.retain_grad()
    y.retain_grad()
    y.mul_(3)
    facts = v.retains_grad, y.retains_grad
    (y.sum() + (v * v).sum()).backward()
    return facts, y.grad, v.grad, x.grad, v.retains_grad


@story
def test_retained_gradient_of_a_base_when_its_view_changes(t):
    x = leaf(t, 2, 3)
    y = x * 2
    y.retain_grad()
    v = y[0]
    v.mul_(3)
    v.retain_grad()
    (y * y).sum().backward()
    return y.retains_grad, v.retains_grad, y.grad, v.grad, x.grad


@story
def test_retained_gradient_then_hooks(t):
    x, seen = leaf(t, 2), []
    y = x * 2
    y.register_hook(lambda g: seen.append(("a", g.tolist())))
    y.retain_grad()
    y.register_hook(lambda g: g * 10)
    y.mul_(3)
    y.register_hook(lambda g: seen.append(("b", g.tolist())))
    y.sum().backward()
    return seen, y.grad, x.grad


@story
def test_hooks_of_a_tensor_before_in_place(t):
    x, seen = leaf(t, 2), []
    y = x * 2
    y.register_hook(lambda g: seen.append(("before", g.tolist())))
    y.add_(1).mul_(5)
    y.register_hook(lambda g: seen.append(("after", g.tolist())))
    y.sum().backward()
    return seen, x.grad


@story
def test_hooks_of_a_view_before_its_base_changes(t):
    x, seen = leaf(t, 2, 2), []
    y = x * 2
    v = y[0]
    v.register_hook(lambda g: seen.append(("view", g.tolist())))
    y.register_hook(lambda g: seen.append(("base", g.tolist())))
    y.mul_(3)
    (v.sum() + y.sum()).backward()
    return seen, x.grad


@story
def test_hooks_of_a_base_before_its_view_changes(t):
    x, seen = leaf(t, 2, 2), []
    y = x * 2
    y.register_hook(lambda g: seen.append(("base", g.tolist())))
    v = y[0]
    v.mul_(3)
    y.register_hook(lambda g: seen.append(("base after", g.tolist())))
    v.register_hook(lambda g: seen.append(("view after", g.tolist())))
    (y * y).sum().backward()
    return seen, x.grad


@story
def test_hooks_on_a_leaf_that_becomes_computed(t):
    x, seen = leaf(t, 2), []
    buffer = double(t, 2).requires_grad_()
    buffer.register_hook(lambda g: seen.append(g.tolist()))
    got = message(lambda: buffer.mul_(x))
    buffer.sum().backward()
    return got, seen


@story
def test_post_hooks_of_a_node_after_in_place(t):
    x, seen = leaf(t, 2), []
    y = x * 2
    y.grad_fn.register_hook(lambda gi, go: seen.append(("mul", go[0].tolist())))
    y.exp_()
    y.grad_fn.register_prehook(lambda go: seen.append(("exp", go[0].tolist())))
    y.sum().backward()
    return len(seen), [s[0] for s in seen]


@story
def test_gradient_of_a_part_that_was_overwritten(t):
    x = leaf(t, 3)
    y = x * 2
    y[0] = 0
    y[1] = y[2].clone() * 3
    return t.autograd.grad(y.sum(), x)


@story
def test_gradient_with_respect_to_an_old_version(t):
    x = leaf(t, 3)
    y = x * 2
    z = y.sum()
    y.mul_(3)
    return message(lambda: t.autograd.grad(z, y, allow_unused=True)), t.autograd.grad(y.sum(), x)


@story
def test_unused_part_of_a_base(t):
    x, buffer = leaf(t, 2), double(t, 4)
    buffer[1:3] = x
    part = buffer[3:]
    facts = part.requires_grad, graph(part.grad_fn)
    part.sum().backward()
    return facts, x.grad


@story
def test_copy_slices_edges(t):
    x, w = leaf(t, 3), leaf(t, 3)
    base = x * 1
    view = base[1:]
    view.mul_(w[1:])
    (view * 2).sum().backward()
    return tell(base, view), x.grad, w.grad


@story
def test_as_strided_of_gradient_needs_no_contiguity(t):
    x = leaf(t, 2, 3)
    y = (x * 1).t()
    base = y.clone()
    base[0].mul_(2)
    (base.t() * double(t, 2, 3)).sum().backward()
    return x.grad, base.stride()


@story
def test_views_of_a_constant_made_to_require_grad_by_a_view(t):
    base = double(t, 3, 3)
    row, column = base[0], base[:, 0]
    other = leaf(t, 3)
    row.mul_(other)
    facts = tell(base, row, column)
    (column * column).sum().backward()
    return facts, other.grad


@story
def test_view_of_a_view_writes_to_the_base_s_history(t):
    root = leaf(t, 2, 2)
    x = root.clone()
    v1 = x.narrow(0, 0, 1)
    v2 = v1.narrow(1, 1, 1)
    v2.mul_(2)
    x.sum().backward()
    return root.grad, graph(x.grad_fn)


@story
def test_backward_through_a_view_of_a_view(t):
    a, b = double(t, 2, 2), leaf(t, 2)
    v1 = a.narrow(0, 0, 1)
    v2 = v1.narrow(1, 0, 1)
    v2.mul_(b[:1].view(1, 1))
    v1.sum().backward()
    return a.requires_grad, b.grad


@story
def test_backward_of_a_view_without_gradient_to_itself(t):
    a, b = double(t, 2, 2), leaf(t, 2, 2)
    x = a.clone()
    x[0].copy_(b[1])
    x[1].sum().backward()
    return b.grad


@story
def test_in_place_on_a_view_with_no_gradient_for_the_view(t):
    a = leaf(t, 1)
    c = a.clone()
    v = c[:]
    b = t.tensor(1.0, requires_grad=True, dtype=t.float64)
    v.mul_(b)
    c.sum().backward()
    return b.grad, a.grad


@story
def test_in_place_then_no_grad(t):
    a = leaf(t, 3, 3)
    b = a.clone()
    v = b[0]
    with t.no_grad():
        v.zero_()
    return message(lambda: graph(v.grad_fn)), graph(b.grad_fn), (b.sum().backward(), a.grad)[1]


@story
def test_in_place_cross_dtype(t):
    a = double(t, 3).to(t.complex128).requires_grad_()
    base = a.clone()
    b = t.view_as_real(base).transpose(0, 1)
    b += 1
    b.backward(t.arange(0, 6, dtype=t.float64).view(2, 3))
    again = a.detach().clone().requires_grad_()
    c = again.clone()
    c.add_(0.5 + 1j)
    return b.grad_fn, base.grad_fn, a.grad, again.grad_fn


@story
def test_undefined_gradient_of_an_output(t):
    a = leaf(t, 2)
    c = a.clone()
    v = c[:]
    v.add_(1)
    d = t.autograd.grad(v.sum(), a, retain_graph=True)
    return d, graph(v.grad_fn), graph(c.grad_fn)


@story
def test_other_dtype_views(t):
    x = leaf(t, 2)
    y = x * 2
    v = y.view(t.int64)
    facts = v.requires_grad, v._is_view(), v._base is y, v.is_leaf, v._version
    v.bitwise_and_(-1)
    return facts, y._version, attempt(lambda: v.requires_grad_()), graph(y.grad_fn), y


@story
def test_other_dtype_view_of_a_constant(t):
    x = double(t, 2)
    v = x.view(t.int64)
    v.zero_()
    w = x.view(t.float32)
    w.add_(1)
    return x, v, w, x._version, v._is_view(), w._is_view(), w.shape, v._base is x, w.requires_grad


@story
def test_detached_aliases_and_history(t):
    x = leaf(t, 3)
    y = x + 1
    d = y.detach()
    d.mul_(10)
    d.requires_grad_()
    e = y.data
    e.add_(1)
    (y * 2).sum().backward()
    return x.grad, y, d._version, e._version, y._version, d.is_leaf, d._is_view(), d._base


@story
def test_detach_is_a_view_of_nothing(t):
    x = leaf(t, 2, 3)
    d = x.detach()
    v = x[0].detach()
    w = x[0].data
    return [(z._is_view(), z._base is None, z.requires_grad, z.is_leaf) for z in (d, v, w, d[0], x[0])]


@story
def test_base_of_views(t):
    x = double(t, 2, 3)
    a, b = x[0], x.t()[0]
    return [v._base is x for v in (a, b, a[1:], x.detach()[0], x.data[0])], x._base, x.clone()._base


@story
def test_is_set_to(t):
    x = double(t, 2, 3)
    others = x, x.detach(), x.data, x[:], x.view(2, 3), x.view(3, 2), x.t(), x.clone(), x[0]
    return [x.is_set_to(o) for o in others], message(lambda: x.is_set_to(3))


@story
def test_set_and_resize(t):
    x, y = double(t, 2, 3), double(t, 4)
    view = x[0]
    x.set_(y)
    y.mul_(2)
    facts = x, view, x.data_ptr() == y.data_ptr(), x._version, y._version, x.is_set_to(y)
    z = double(t, 6)
    z.resize_(2, 2)
    z.mul_(10)
    z.resize_(6)
    return facts, z, z._version


@story
def test_set_data_keeps_history(t):
    x = leaf(t, 3)
    y = x * 2
    y.data = double(t, 2)
    return y.shape, graph(y.grad_fn), y.requires_grad, y.is_leaf


@story
def test_storage_facts(t):
    x = double(t, 2, 3)
    y = x.clone()
    s, v = x.untyped_storage(), x[1].untyped_storage()
    facts = s.data_ptr() == v.data_ptr(), s.data_ptr() == y.untyped_storage().data_ptr(), s.nbytes(), s.size(), len(s)
    offsets = x[1].data_ptr() - s.data_ptr(), x[1].storage_offset(), x.t()[1].storage_offset()
    typed = x.storage()
    shown = typed.size(), typed.data_ptr() == s.data_ptr(), str(typed.dtype), s.device.type, type(s).__name__
    return facts, offsets, shown


@story
def test_storage_of_nothing(t):
    x = double(t, 2, 3)
    x.untyped_storage().resize_(0)
    return x.untyped_storage().size(), x.shape, x.data_ptr(), x.untyped_storage().nbytes()


@story
def test_names_of_in_place_nodes(t):
    x = leaf(t, 2, 3)
    made = []
    for change in (
        lambda y: y.add_(1), lambda y: y.mul_(2), lambda y: y.zero_(), lambda y: y.fill_(3), lambda y: y.copy_(x),
        lambda y: y.neg_(), lambda y: y.exp_(), lambda y: y.masked_fill_(y > 3, 0), lambda y: y.clamp_(0, 1),
        lambda y: y.index_put_((t.tensor([0]),), t.tensor(1.0, dtype=t.float64)), lambda y: y.t_(),
        lambda y: y.unsqueeze_(0), lambda y: y.squeeze_(), lambda y: y.transpose_(0, 1), lambda y: y.normal_(),
        lambda y: y.uniform_(), lambda y: y.bernoulli_(0.5), lambda y: y.pow_(2), lambda y: y.sub_(x),
        lambda y: y.div_(x), lambda y: y.relu_(), lambda y: y.sigmoid_(), lambda y: y.tanh_(), lambda y: y.sqrt_(),
        lambda y: y.round_(), lambda y: y.sign_(), lambda y: y.floor_(), lambda y: y.remainder_(2),
        lambda y: y.scatter_(0, t.tensor([[0]]), 1.0), lambda y: y.index_fill_(0, t.tensor([0]), 1.0),
        lambda y: y.as_strided_((2,), (1,)), lambda y: y.swapaxes_(0, 1), lambda y: y.__setitem__(0, 1),
        lambda y: y[0].zero_(), lambda y: y.random_(), lambda y: y.exponential_(), lambda y: y.gt_(2),
        lambda y: y.eq_(2), lambda y: y.logical_not_(), lambda y: y.squeeze_(0), lambda y: y.squeeze_((0,)),
    ):  # fmt: skip
        y = x * 2
        made.append(message(lambda: (change(y), graph(y.grad_fn), y.requires_grad)[1:]))  # noqa: B023
    return made


@story
def test_sequence_numbers_grow(t):
    x = leaf(t, 2)
    y = x * 2
    a = y.grad_fn._sequence_nr()
    y.add_(1)
    b = y.grad_fn._sequence_nr()
    y[0].mul_(2)
    return a < b < y.grad_fn._sequence_nr()


@story
def test_in_place_between_backwards(t):
    x = leaf(t, 3)
    y = x * 2
    (y + 1).sum().backward(retain_graph=True)
    y.mul_(5)
    (y + 1).sum().backward()
    return x.grad


@story
def test_parameters_updated_by_hand(t):
    w = leaf(t, 3)
    for _ in range(3):
        loss = ((w * 2 - 1) ** 2).sum()
        loss.backward()
        with t.no_grad():
            w -= 0.1 * w.grad
            w.grad.zero_()
    return w, w._version, w.grad, w.is_leaf, w.grad._version


@story
def test_parameters_updated_through_data(t):
    w = leaf(t, 3)
    for _ in range(3):
        loss = ((w * 2 - 1) ** 2).sum()
        loss.backward()
        w.data.sub_(w.grad * 0.1)
        w.grad.data.zero_()
    return w, w._version, w.grad, w.is_leaf, w.grad._version


@story
def test_requires_grad_of_a_view_of_a_constant(t):
    base = double(t, 2, 3)
    v = base[0].requires_grad_()
    facts = base.requires_grad, v.requires_grad, v.is_leaf, v.grad_fn
    errors = [message(lambda: v.mul_(2)), message(lambda: base.mul_(2))]
    after = message(lambda: (base.requires_grad, v.requires_grad, v.is_leaf, v.grad_fn))
    return facts, errors, after, message(lambda: (v.sum().backward(), v.grad)[1])
