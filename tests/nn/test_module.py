"""torch.nn.Module as a tree of members: every case runs with torch and with torchlike."""

import pytest
from agreement import agree
from module_kit import KINDS, kit, members, value
from story_kit import said, story


# -- registration ----------------------------------------------------------------------------------
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", ["w", "b", "l", "new", "plain", "training"])
def test_setattr(name, kind):
    def code(T):
        m = kit(T).Tiny()
        m.plain = 3
        try:
            setattr(m, name, value(T, kind))
        finally:
            seen.append(members(m))
        got = m.__dict__.get(name, "absent")
        return seen.pop(), got

    seen = []
    agree(code)


@pytest.mark.parametrize("kind", KINDS)
def test_setattr_before_init(kind):
    agree(lambda T: kit(T).Bare(lambda self: setattr(self, "x", value(T, kind))).x)


@pytest.mark.parametrize("name", ["w", "b", "l", "nope", "training"])
def test_delattr(name):
    def code(T):
        m = kit(T).Tiny()
        delattr(m, name)
        return members(m), hasattr(m, name)

    agree(code)


REGISTER = {
    "register_parameter": ["none", "int", "tensor", "parameter", "computed", "module"],
    "register_buffer": ["none", "int", "tensor", "parameter", "module"],
    "add_module": ["none", "int", "tensor", "parameter", "module"],
    "register_module": ["module"],
}


@pytest.mark.parametrize("name", [3, "a.b", "", "training", "forward", "w", "b", "l", "new"])
@pytest.mark.parametrize("method,kind", [(m, k) for m, kinds in REGISTER.items() for k in kinds])
def test_register(method, kind, name):
    def code(T):
        m = kit(T).Tiny()
        getattr(m, method)(name, value(T, kind))
        return members(m)

    good = kind in ("parameter", "module") or (kind, method) == ("tensor", "register_buffer")
    agree(code, message=good or name == "new")


@pytest.mark.parametrize("method", ["register_parameter", "register_buffer"])
def test_register_before_init(method):
    agree(lambda T: kit(T).Bare(lambda self: getattr(self, method)("x", None)))


def test_use_before_init():
    got = agree(lambda T: kit(T).Bare()(1), message=False)
    assert "call super().__init__() first" in got.error[1]
    agree(lambda T: list(kit(T).Bare().parameters()), message=False)
    agree(lambda T: kit(T).Bare().add_module("a", None), message=False)
    agree(lambda T: kit(T).Bare().foo)


def test_init_arguments():
    class Mixin:
        def __init__(self, *args, **kwargs):
            self.got = args, kwargs

    agree(lambda T: T.nn.Module(3))
    agree(lambda T: T.nn.Module(a=3))
    agree(lambda T: type("C", (T.nn.Module, Mixin), {"call_super_init": True})(1, b=2).got)
    agree(lambda T: hasattr(type("C", (T.nn.Module, Mixin), {})(), "got"))


def test_persistence_follows_the_buffer():
    def code(T):
        m = T.nn.Module()
        m.q = T.nn.Buffer(T.zeros(1), persistent=False)
        first = members(m)
        m.q = T.ones(1)
        second = members(m)
        m.q = T.nn.Buffer(T.ones(1))
        return first, second, members(m)

    agree(code)


def test_registration_hooks():
    def log(T):
        seen = []
        mm = T.nn.modules.module
        hooks = [
            mm.register_module_parameter_registration_hook(lambda m, n, p: seen.append(("parameter", n, p))),
            mm.register_module_buffer_registration_hook(lambda m, n, b: seen.append(("buffer", n, b))),
            mm.register_module_module_registration_hook(lambda m, n, c: seen.append(("module", n, c))),
        ]
        try:
            m = kit(T).Tiny()
            m.b = T.zeros(1)
            m.b = m.w = m.l = None
            m.register_buffer("d", None)
            m.add_module("k", kit(T).Empty())
        finally:
            [h.remove() for h in hooks]
        kit(T).Tiny()
        return seen

    def replace(T):
        mm = T.nn.modules.module
        with mm.register_module_parameter_registration_hook(lambda m, n, p: T.nn.Parameter(p + 1)):
            with mm.register_module_module_registration_hook(lambda m, n, c: kit(T).Leaf()):
                with mm.register_module_buffer_registration_hook(lambda m, n, b: b * 5):
                    return members(kit(T).Tiny()), kit(T).Tiny().l

    agree(log)
    agree(replace)


# -- attributes and the tree -------------------------------------------------------------------------
TREE = {
    "parameters": lambda m: list(m.parameters()),
    "parameters norecurse": lambda m: list(m.parameters(False)),
    "named_parameters": lambda m: list(m.named_parameters()),
    "named_parameters all": lambda m: [n for n, _ in m.named_parameters(remove_duplicate=False)],
    "named_parameters prefix": lambda m: [n for n, _ in m.named_parameters("p")],
    "named_parameters own": lambda m: [n for n, _ in m.named_parameters("p", False)],
    "buffers": lambda m: list(m.buffers()),
    "named_buffers": lambda m: [n for n, _ in m.named_buffers("x", recurse=True)],
    "modules": lambda m: list(m.modules()),
    "modules all": lambda m: list(m.modules(remove_duplicate=False)),
    "named_modules": lambda m: [n for n, _ in m.named_modules()],
    "named_modules all": lambda m: [n for n, _ in m.named_modules(prefix="q", remove_duplicate=False)],
    "named_modules memo": lambda m: [n for n, _ in m.named_modules(memo={m.s})],
    "named_modules self in memo": lambda m: [n for n, _ in m.named_modules(memo={m})],
    "children": lambda m: list(m.children()),
    "named_children": lambda m: [n for n, _ in m.named_children()],
    "_named_members": lambda m: [n for n, _ in m._named_members(lambda k: k._parameters.items(), prefix="z")],
    "none children": lambda m: (m.add_module("none", None), list(m.named_modules()), list(m.children()), m),
    "generators": lambda m: [type(i()) for i in (m.parameters, m.buffers, m.modules, m.children)],
    "dir": lambda m: [n for n in dir(m) if n in ("w", "b", "l", "s", "training", "0", "forward")],
    "dir digits": lambda m: [n for n in dir(m.s) if n.isdigit()],
    "nope": lambda m: m.nope,
    "repr": repr,
    "repr multiline": lambda m: (setattr(m.s[1], "extra_repr", lambda: "a=1\nb=2"), repr(m)),
    "_get_name": lambda m: m._get_name(),
    "hash and eq": lambda m: (m == m, hash(m) == hash(m), m == m.l),
    "constants": lambda m: (m._version, m.dump_patches, m.call_super_init, m.training),
    "internals": lambda m: {"_parameters", "_forward_hooks", "_is_full_backward_hook"} <= set(vars(m)),
    "train": lambda m: (m.train(False) is m, m.l.training, m.train().s[0].training, m.eval().training),
    "train 3": lambda m: m.train(3),
    "train str": lambda m: m.train("yes"),
    "requires_grad_": lambda m: (m.requires_grad_(False) is m, list(m.parameters())),
    "forward": lambda m: type(m).__mro__[1]().forward(1),
    "call without forward": lambda m: type(m).__mro__[1]()(1),
    "not iterable": lambda m: iter(m),
    "share_memory": lambda m: (m.share_memory() is m, [p.is_shared() for p in m.parameters()]),
}


@pytest.mark.parametrize("name", TREE)
def test_tree(name):
    agree(lambda T: TREE[name](kit(T).Net()))


TARGETS = ["", "l", "s.0", "s.7", "w", "l.weight", "zz", "s.zz.q", "nop", "b", "l.weight.data", "training", "."]


@pytest.mark.parametrize("target", TARGETS)
def test_get(target):
    agree(lambda T: kit(T).Net().get_submodule(target))
    agree(lambda T: kit(T).Net().get_parameter(target))
    agree(lambda T: kit(T).Net().get_buffer(target))


@pytest.mark.parametrize("strict", [False, True])
@pytest.mark.parametrize("target", ["", "l", "s.0", "new", "s.new", "w", "s.zz.k", "training", "a.b", "l.weight"])
def test_set_submodule(target, strict):
    def code(T):
        m = kit(T).Net()
        m.set_submodule(target, T.nn.Sequential(), strict=strict)
        return m

    agree(code)


def test_set_submodule_of_what_is_no_module():
    agree(lambda T: kit(T).Net().set_submodule("l", 3))
    agree(lambda T: kit(T).Net().set_submodule("l", None))


def test_apply_goes_children_first():
    def code(T):
        seen = []
        m = kit(T).Net()
        assert m.apply(lambda k: seen.append(type(k).__name__)) is m
        return seen

    agree(code)


def test_property_that_shadows():
    class Shadow:
        @property
        def p(self):
            return self.missing

        @p.setter
        def p(self, v):
            object.__setattr__(self, "kept", v)

    def put(T, kind):
        m = type("S", (Shadow, T.nn.Module), {})()
        m.p = value(T, kind)
        return m.__dict__.get("kept"), members(m)

    agree(lambda T: type("S", (Shadow, T.nn.Module), {})().p)
    for kind in ("int", "parameter", "module", "tensor"):
        agree(lambda T, kind=kind: put(T, kind))


# -- gradients ---------------------------------------------------------------------------------------
@pytest.mark.parametrize("set_to_none", [True, False])
def test_zero_grad(set_to_none):
    def code(T):
        m = kit(T).Net()
        (m.w.sum() * 2 + m.l.weight.sum()).backward(create_graph=not set_to_none)
        kept = m.w.grad
        m.zero_grad(set_to_none)
        return kept, m.w.grad is kept, [p.grad for p in m.parameters()]

    agree(code, warned=False)


@story
def test_gradients_stay_the_objects_that_they_are(t):
    m = t.nn.Linear(2, 2)
    m.weight.grad, m.bias.grad = t.ones(2, 2), t.ones(2).requires_grad_()
    held = m.weight.grad, m.bias.grad
    m.double()
    found = [m.weight.grad is held[0], m.bias.grad is held[1], held[1].requires_grad, held[0].dtype, held[0]]
    m.to("meta")
    return found, m.weight.grad is held[0], m.weight.grad.device.type, m.bias.grad.requires_grad, held[0]


@story
def test_other_layouts_take_other_parameters(t):
    m = t.nn.Linear(2, 2)
    m.weight.grad, weight = t.ones(2, 2), m.weight
    grad = weight.grad
    m._apply(lambda x: x.to_sparse())
    return m.weight is weight, m.weight.layout, weight.layout, m.weight.grad is grad, m.weight.grad.layout


@story
def test_overwriting_parameters_on_conversion(t):
    switches, nn = t.__future__, t.nn
    found = [switches.get_overwrite_module_params_on_conversion()]
    switches.set_overwrite_module_params_on_conversion(True)
    try:
        found.append(switches.get_overwrite_module_params_on_conversion())
        m = nn.Linear(2, 2)
        m.weight.grad, m.bias.requires_grad = t.ones(2, 2), False
        weight, grad, part = m.weight, m.weight.grad, m.weight[:]
        m.double()
        found += [m.weight is weight, weight.dtype, m.weight.dtype, type(m.weight).__name__, m.bias.requires_grad]
        found += [m.weight.grad is grad, grad.dtype, m.weight.grad, part._base is weight, part.dtype]
        m = nn.Linear(2, 2)
        weight, product = m.weight, m.weight * m.weight
        m._apply(lambda x: x.add_(1.0))
        found += [m.weight is weight, weight._version, m.weight._version, (m.weight == weight).all()]
        found.append(said(lambda: product.sum().backward(), "modified by an inplace operation"))
        m = nn.Linear(2, 2)
        weight, model = m.weight, nn.Sequential(m, nn.Linear(2, 2))
        model[1].weight = weight
        model.float()
        found += [m.weight is weight, model[0].weight is model[1].weight]
    finally:
        switches.set_overwrite_module_params_on_conversion(False)
    return found


def test_names_of_classes_and_methods():
    def code(T):
        nn = T.nn
        classes = [[c.__name__ for c in k.__mro__] for k in (nn.Module, nn.Linear, nn.ReLU, nn.CrossEntropyLoss)]
        methods = ("state_dict", "register_forward_hook", "to", "half", "_apply")
        return classes, [getattr(nn.Module, name).__qualname__ for name in methods]

    agree(code)
