"""Sequential, ModuleList, ModuleDict, ParameterList, ParameterDict: every case runs with torch and torchlike."""

import copy
import pickle
from collections import OrderedDict
from functools import cache
from types import SimpleNamespace

import pytest
from agreement import agree

import torchlike


@cache
def kit(T):
    """Three modules without parameters, and one that counts."""
    names = SimpleNamespace()
    for name, step in (("A", 1), ("B", 10), ("C", 100), ("D", 1000)):
        body = {"forward": lambda self, x, step=step: x + step}
        setattr(names, name, type(name, (T.nn.Module,), body))
    return names


def named(c):
    """What a container holds, as text."""
    return [(name, type(m).__name__) for name, m in c._modules.items()]


def run(make, code):
    """Whether ``code`` returned the container, what else it returned, and what the container holds now."""

    def call(T):
        k = kit(T)
        c = make(T, k)
        got = code(c, T, k)
        is_container = isinstance(got, T.nn.Module) and not isinstance(got, (k.A, k.B, k.C, k.D))
        return got is c, named(got) if is_container else got, type(got), named(c)

    return call


ORDERED = {
    "sequential": lambda T, k: T.nn.Sequential(k.A(), k.B(), k.C()),
    "named": lambda T, k: T.nn.Sequential(OrderedDict(a=k.A(), b=k.B(), c=k.C())),
    "list": lambda T, k: T.nn.ModuleList([k.A(), k.B(), k.C()]),
    "empty": lambda T, k: T.nn.Sequential(),
    "empty list": lambda T, k: T.nn.ModuleList(),
}
ORDERED_CASES = {
    "[0]": lambda c, T, k: c[0],
    "[-1]": lambda c, T, k: c[-1],
    "[3]": lambda c, T, k: c[3],
    "[-4]": lambda c, T, k: c[-4],
    "[True]": lambda c, T, k: c[True],
    "[1:]": lambda c, T, k: c[1:],
    "[::2]": lambda c, T, k: c[::2],
    "[::-1]": lambda c, T, k: c[::-1],
    "['a']": lambda c, T, k: c["a"],
    "[1.0]": lambda c, T, k: c[1.0],
    "pop(0)": lambda c, T, k: c.pop(0),
    "pop(-1)": lambda c, T, k: c.pop(-1),
    "pop(5)": lambda c, T, k: c.pop(5),
    "pop(slice)": lambda c, T, k: c.pop(slice(0, 2)),
    "append": lambda c, T, k: c.append(k.D()),
    "append 3": lambda c, T, k: c.append(3),
    "append None": lambda c, T, k: c.append(None),
    "extend list": lambda c, T, k: c.extend([k.D(), k.A()]),
    "extend generator": lambda c, T, k: c.extend(k.D() for _ in range(2)),
    "extend Sequential": lambda c, T, k: c.extend(T.nn.Sequential(k.D())),
    "extend 3": lambda c, T, k: c.extend(3),
    "extend [3]": lambda c, T, k: c.extend([3]),
    "+ Sequential": lambda c, T, k: c + T.nn.Sequential(k.D()),
    "+ list": lambda c, T, k: c + [k.D()],
    "+ ModuleList": lambda c, T, k: c + T.nn.ModuleList([k.D()]),
    "+= Sequential": lambda c, T, k: c.__iadd__(T.nn.Sequential(k.D())),
    "+= list": lambda c, T, k: c.__iadd__([k.D()]),
    "* 2": lambda c, T, k: c * 2,
    "2 *": lambda c, T, k: 2 * c,
    "* 0": lambda c, T, k: c * 0,
    "* -1": lambda c, T, k: c * -1,
    "* 1.5": lambda c, T, k: c * 1.5,
    "len": lambda c, T, k: len(c),
    "bool": lambda c, T, k: bool(c),
    "iter": lambda c, T, k: list(c),
    "reversed": lambda c, T, k: list(reversed(c)) if len(c) else None,
    "in": lambda c, T, k: (k.A in c, c[0] in c),
    "del 0": lambda c, T, k: c.__delitem__(0),
    "del -1": lambda c, T, k: c.__delitem__(-1),
    "del 7": lambda c, T, k: c.__delitem__(7),
    "del slice": lambda c, T, k: c.__delitem__(slice(0, 2)),
    "del 'a'": lambda c, T, k: c.__delitem__("a"),
    "set 0": lambda c, T, k: c.__setitem__(0, k.D()),
    "set -1": lambda c, T, k: c.__setitem__(-1, k.D()),
    "set 5": lambda c, T, k: c.__setitem__(5, k.D()),
    "set 3": lambda c, T, k: c.__setitem__(0, 3),
    "set slice": lambda c, T, k: c.__setitem__(slice(0, 1), k.D()),
    "insert 0": lambda c, T, k: len(c) and c.insert(0, k.D()),
    "insert 1": lambda c, T, k: len(c) and c.insert(1, k.D()),
    "insert 3": lambda c, T, k: len(c) and c.insert(3, k.D()),
    "insert none": lambda c, T, k: c.insert("a", k.D()),
    "forward": lambda c, T, k: c(T.zeros(1)) if len(c) else c(3),
    "two inputs": lambda c, T, k: c(1, 2) if len(c) else None,
    "dir": lambda c, T, k: [n for n in dir(c) if n.isdigit()],
    "state": lambda c, T, k: (c.append(T.nn.ParameterList([T.ones(1)])), list(c.state_dict()))[1],
    "deepcopy": lambda c, T, k: copy.deepcopy(c),
}
# Where torch raises a bare KeyError for want of numbered names.
DIFFERS = {("named", "insert 0"), ("named", "insert 1")}


@pytest.mark.parametrize("case", ORDERED_CASES)
@pytest.mark.parametrize("kind", ORDERED)
def test_ordered(kind, case):
    if (kind, case) not in DIFFERS:
        agree(run(ORDERED[kind], ORDERED_CASES[case]))


@pytest.mark.parametrize("index", [-4, -1, 0, 2, 3, 4])
def test_sequential_insert(index):
    agree(run(ORDERED["sequential"], lambda c, T, k: c.insert(index, k.D())))


@pytest.mark.parametrize("case", ["int", "float", "str", "zero", "negative", "two", "self"])
def test_sequential_imul(case):
    factor = {"int": 3, "float": 1.5, "str": "a", "zero": 0, "negative": -2, "two": 2, "self": True}[case]
    agree(run(ORDERED["sequential"], lambda c, T, k: c.__imul__(factor)))


def test_where_torch_breaks_the_container():
    T, k = torchlike, kit(torchlike)
    assert named(ORDERED["named"](T, k).insert(1, k.D())) == [("0", "A"), ("1", "D"), ("2", "B"), ("3", "C")]
    c = ORDERED["list"](T, k)
    c.insert(9, k.D())
    assert named(c)[-1] == ("3", "D")
    for index, module, error in ((-1, k.D(), KeyError), (0, 3, TypeError)):
        with pytest.raises(error, match="from the front|not a Module subclass"):
            c.insert(index, module)
    with pytest.raises(AssertionError, match="module should be of type"):
        ORDERED["sequential"](T, k).insert(0, 3)
    assert len(c) == 4


CONSTRUCT = {
    "sequential of None": lambda T, k: T.nn.Sequential(None),
    "sequential of int": lambda T, k: T.nn.Sequential(3),
    "sequential of dict": lambda T, k: T.nn.Sequential({"a": k.A()}),
    "sequential of list": lambda T, k: T.nn.Sequential([k.A()]),
    "sequential of OrderedDict and more": lambda T, k: T.nn.Sequential(OrderedDict(a=k.A()), k.B()),
    "list of int": lambda T, k: T.nn.ModuleList(3),
    "list of ints": lambda T, k: T.nn.ModuleList([3]),
    "list of None": lambda T, k: T.nn.ModuleList([None]),
    "list of generator": lambda T, k: T.nn.ModuleList(k.A() for _ in range(2)),
    "list of list": lambda T, k: T.nn.ModuleList([T.nn.ModuleList([k.A(), k.A()])]),
    "list of Sequentials": lambda T, k: T.nn.ModuleList([T.nn.Sequential(k.A(), k.B()) for _ in range(2)] + [k.A()]),
    "list with runs": lambda T, k: T.nn.ModuleList([k.A(), k.A(), k.B(), k.A()]),
    "list with None run": lambda T, k: T.nn.ModuleList([k.A(), None, None]),
    "dict of pairs": lambda T, k: T.nn.ModuleDict([("a", k.A()), ["b", k.B()]]),
    "dict of int": lambda T, k: T.nn.ModuleDict(3),
    "dict by keyword": lambda T, k: T.nn.ModuleDict(a=k.A()),
    "dict with a dot": lambda T, k: T.nn.ModuleDict({"a.b": k.A()}),
    "dict": lambda T, k: T.nn.ModuleDict({"a": k.A(), "b": T.nn.ModuleList([k.A(), k.A()])}),
    "nested": lambda T, k: T.nn.Sequential(T.nn.Sequential(), T.nn.ModuleDict(), T.nn.ParameterList([T.ones(2)])),
}


@pytest.mark.parametrize("name", CONSTRUCT)
def test_construct(name):
    agree(lambda T: (lambda m: (named(m), m))(CONSTRUCT[name](T, kit(T))))


def module_dict(T, k):
    return T.nn.ModuleDict({"a": k.A(), "b": k.B()})


DICT_CASES = {
    "['a']": lambda c, T, k: c["a"],
    "['z']": lambda c, T, k: c["z"],
    ".a": lambda c, T, k: c.a,
    "pop": lambda c, T, k: c.pop("a"),
    "pop z": lambda c, T, k: c.pop("z"),
    "clear": lambda c, T, k: c.clear(),
    "iter": lambda c, T, k: (list(c), list(c.keys()), list(c.items()), list(c.values())),
    "in": lambda c, T, k: ("a" in c, "z" in c, len(c), bool(c)),
    "update dict": lambda c, T, k: c.update({"z": k.C(), "b": k.C()}),
    "update order": lambda c, T, k: c.update({"b": k.D(), "a": k.C(), "0": k.A()}),
    "update OrderedDict": lambda c, T, k: c.update(OrderedDict(z=k.C(), y=k.D())),
    "update pairs": lambda c, T, k: c.update([("z", k.C()), ["b", k.D()]]),
    "update ModuleDict": lambda c, T, k: c.update(T.nn.ModuleDict({"q": k.C()})),
    "update module": lambda c, T, k: c.update({"z": 3}),
    "update number": lambda c, T, k: c.update(3),
    "update string": lambda c, T, k: c.update("ab"),
    "update short": lambda c, T, k: c.update([("z",)]),
    "update long": lambda c, T, k: c.update([("z", k.C(), 1)]),
    "update key": lambda c, T, k: c.update({1: k.C()}),
    "set": lambda c, T, k: c.__setitem__("k", k.C()),
    "set None": lambda c, T, k: c.__setitem__("k", None),
    "set 3": lambda c, T, k: c.__setitem__("k", 3),
    "set taken": lambda c, T, k: c.__setitem__("keys", k.C()),
    "set dot": lambda c, T, k: c.__setitem__("a.b", k.C()),
    "set number": lambda c, T, k: c.__setitem__(3, k.C()),
    "del": lambda c, T, k: c.__delitem__("a"),
    "del z": lambda c, T, k: c.__delitem__("z"),
    "call": lambda c, T, k: c(3),
    "get": lambda c, T, k: c.get("a"),
    "repr": lambda c, T, k: repr(c),
}


@pytest.mark.parametrize("case", DICT_CASES)
def test_module_dict(case):
    agree(run(module_dict, DICT_CASES[case]))


@pytest.mark.parametrize("kind", ["ModuleDict", "ParameterDict"])
def test_update_names_the_bad_element(kind):
    c = getattr(torchlike.nn, kind)()
    with pytest.raises(TypeError, match=f"{kind} update sequence element #0 should be Iterable; is int"):
        c.update([3])
    with pytest.raises(
        TypeError, match=f"{kind}.update should be called with an iterable of key/value pairs, but got int"
    ):
        c.update(3)


# -- parameters -----------------------------------------------------------------------------------------
def held(c):
    """What a container of parameters holds: parameters, modules, and plain attributes."""
    own = {k: v for k, v in vars(c).items() if k in ("_size", "_keys") or k[:1].isdigit() or k in ("a", "b", "c")}
    return own, dict(c._parameters), named(c)


def hold(make, code):
    def call(T):
        c = make(T)
        try:
            got = code(c, T)
        finally:
            kept.append(held(c))
        return got is c, (type(got), held(got)) if isinstance(got, type(c)) else got, kept.pop()

    kept = []
    return call


def p(T, value=1.0):
    return T.nn.Parameter(T.full((2,), float(value)))


PARAMETER_LIST = {
    "[0]": lambda c, T: (c[0], c[1], c[2], c[-1]),
    "[3]": lambda c, T: c[3],
    "[-4]": lambda c, T: c[-4],
    "[0:2]": lambda c, T: c[0:2],
    "[::-1]": lambda c, T: c[::-1],
    "['a']": lambda c, T: c["a"],
    "append": lambda c, T: c.append(p(T)),
    "append tensor": lambda c, T: c.append(T.ones(3)),
    "append str": lambda c, T: c.append("x"),
    "append None": lambda c, T: c.append(None),
    "append module": lambda c, T: c.append(kit(T).A()),
    "append int tensor": lambda c, T: c.append(T.tensor([1])),
    "extend": lambda c, T: c.extend([p(T), 1]),
    "extend self": lambda c, T: c.extend(c),
    "extend list": lambda c, T: c.extend(T.nn.ParameterList([p(T)])),
    "extend str": lambda c, T: c.extend("ab"),
    "extend dict": lambda c, T: c.extend({"a": 1}),
    "extend 3": lambda c, T: c.extend(3),
    "extend tensor": lambda c, T: c.extend(p(T)),
    "+=": lambda c, T: c.__iadd__([p(T)]),
    "set": lambda c, T: c.__setitem__(0, p(T, 9)),
    "set tensor": lambda c, T: c.__setitem__(-2, T.zeros(1)),
    "set int over parameter": lambda c, T: c.__setitem__(1, 5),
    "set int": lambda c, T: c.__setitem__(2, 5),
    "set 5": lambda c, T: c.__setitem__(5, p(T)),
    "set 'a'": lambda c, T: c.__setitem__("a", p(T)),
    "len": lambda c, T: (len(c), list(c), bool(c)),
    "reversed": lambda c, T: list(reversed(c)),
    "dir": lambda c, T: [n for n in dir(c) if n.isdigit()],
    "call": lambda c, T: c(1),
    "parameters": lambda c, T: (list(c.parameters()), c.state_dict()),
    "repr": lambda c, T: (repr(c), repr(c.append(kit(T).A()))),
    "deepcopy": lambda c, T: copy.deepcopy(c),
    "pickle": lambda c, T: pickle.loads(pickle.dumps(c)),
}


@pytest.mark.parametrize("case", PARAMETER_LIST)
def test_parameter_list(case):
    make = lambda T: T.nn.ParameterList([p(T, 0), T.ones(2), 3])  # noqa: E731
    agree(hold(make, PARAMETER_LIST[case]), message=case != "append int tensor")


def parameter_dict(T):
    return T.nn.ParameterDict({"a": p(T, 0), "b": T.ones(2), "c": 3})


PARAMETER_DICT = {
    "['a']": lambda c, T: (c["a"], c["c"], c.a),
    "['z']": lambda c, T: c["z"],
    "[3]": lambda c, T: c["3"],
    "pop": lambda c, T: c.pop("a"),
    "pop z": lambda c, T: c.pop("z"),
    "popitem": lambda c, T: c.popitem(),
    "popitem of empty": lambda c, T: (c.clear(), c.popitem()),
    "clear": lambda c, T: c.clear(),
    "iter": lambda c, T: (list(c), list(c.keys()), list(c.items()), list(c.values()), list(reversed(c))),
    "in": lambda c, T: ("a" in c, "z" in c, len(c)),
    "update dict sorts": lambda c, T: c.update({"z": p(T), "y": p(T)}),
    "update OrderedDict": lambda c, T: c.update(OrderedDict(z=p(T), y=p(T))),
    "update pairs": lambda c, T: c.update([("z", p(T)), ["y", 1]]),
    "update ParameterDict": lambda c, T: c.update(T.nn.ParameterDict({"q": p(T)})),
    "update short": lambda c, T: c.update([("z",)]),
    "set": lambda c, T: c.__setitem__("k", p(T)),
    "set tensor": lambda c, T: c.__setitem__("k", T.zeros(1)),
    "set None": lambda c, T: c.__setitem__("a", None),
    "set dot": lambda c, T: c.__setitem__("a.b", p(T)),
    "del": lambda c, T: c.__delitem__("a"),
    "del z": lambda c, T: c.__delitem__("zz"),
    "call": lambda c, T: c(3),
    "get": lambda c, T: (c.get("a"), c.get("z"), c.get("z", 4)),
    "setdefault": lambda c, T: (c.setdefault("a", 1), c.setdefault("z"), c.setdefault("y", p(T))),
    "copy": lambda c, T: c.copy(),
    "fromkeys": lambda c, T: (list(c.fromkeys(["x", "y"]).items()), list(c.fromkeys(["x"], p(T)).items())),
    "|": lambda c, T: c | T.nn.ParameterDict({"q": p(T)}),
    "| dict": lambda c, T: c | {"q": p(T)},
    "dict |": lambda c, T: {"q": p(T)} | c,
    "|=": lambda c, T: c.__ior__({"q": p(T)}),
    "parameters": lambda c, T: (list(c.parameters()), c.state_dict()),
    "repr": lambda c, T: (
        repr(c),
        c.__setitem__("m", kit(T).A()),
        repr(c),
        repr(T.nn.ParameterDict({"x": T.ones(2, 3)})),
    ),
    "setattr": lambda c, T: (setattr(c, "new", p(T)), list(c)),
    "deepcopy": lambda c, T: copy.deepcopy(c),
    "pickle": lambda c, T: pickle.loads(pickle.dumps(c)),
}


@pytest.mark.parametrize("case", PARAMETER_DICT)
def test_parameter_dict(case):
    agree(hold(parameter_dict, PARAMETER_DICT[case]))


def test_parameter_dict_keys():
    agree(lambda T: parameter_dict(T)[3], message=False)
    agree(lambda T: list(T.nn.ParameterDict({"b": p(T), "a": p(T)})))
    agree(lambda T: list(T.nn.ParameterDict([("b", p(T)), ("a", p(T))])))
    with pytest.raises(TypeError, match=r"not a string \(type is 'int'\): use str\(key\)"):
        parameter_dict(torchlike)[3] = p(torchlike)
    c = parameter_dict(torchlike)
    with pytest.raises(KeyError, match="attribute 'keys' already exists"):
        c["keys"] = p(torchlike)
    assert list(c) == ["a", "b", "c"]
