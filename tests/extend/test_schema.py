"""Schemas, compared with PyTorch's parser: the text they print, what they say of each argument, what is refused."""

import pytest
import torch
from both import attempt

import torchlike
from torchlike._decl.function_schema import parse_name
from torchlike._decl.op import REGISTRY
from torchlike._decl.schema import Schema, SchemaError

PARSED = [
    "foo(Tensor x) -> Tensor",
    "ns::foo.bar(Tensor(a!) x, Tensor[] y, *, int[2] z=1, float? s=None) -> (Tensor a, Tensor(a!) b)",
    "foo(Tensor x, int[] y=[1,2], str s='hi', bool b=True, Scalar q=1, ScalarType? d=None, Device d2='cpu') -> ()",
    "foo(Layout? l=None, MemoryFormat m=contiguous_format, Generator? g=None, SymInt n=3, SymInt[] k=[]) -> ()",
    "foo(SymInt[2]? k2=None, SymInt[2] k=1, int[2] l=[1,1], int[] m=[1,1], int[1] n=3) -> Tensor[]",
    "foo(Tensor?[] x, Tensor(a)[] y, Tensor(a!)[] z, Tensor(b)? w) -> Tensor?",
    "foo(float x=1e-5, float y=3, float z=0.1, float w=1.0) -> (Tensor, Tensor)",
    "foo(float a=-1e-5, float b=-3, float c=1e10, float d=1e16, float e=1e18, float f=1e19, float g=1e300) -> float",
    "foo(float x=.5, float y=5., float z=123456789.123, float w=-0., float? v=1, float? u=0.5) -> int",
    "foo(Scalar a=1e-5, Scalar b=-2, Scalar c=True, Scalar d=1j, Scalar? e=1, complex f=1.5j) -> Scalar",
    "foo(str x='a', int dim=-1, bool? t=False, int reduction=Mean, float[] f=[1.0,2], bool[3] b=True) -> str",
    "foo(ScalarType a=float32, ScalarType b=long, ScalarType c=bfloat16, Layout l=strided, int i=long) -> bool",
    "foo(Tensor(a! -> a|b) x) -> Tensor(a)",
    "foo(Tensor(*) x, Tensor(a->*) y) -> Tensor(*)",
    "foo(Tensor(a|b!) x, int(a) y, Tensor(a)[](b) z) -> (Tensor(a!)[] x)",
    "foo(Tensor x, ...) -> ...",
    "foo(Tensor x) -> (Tensor)",
    "foo.out(Tensor self, *, Tensor(a!) out)->Tensor(a!)",
    "  foo ( Tensor   x , int y = 3 ) -> Tensor # comment",
    "foo(Tensor\n x) -> Tensor",
    "foo(Tensor x) -> Tensor junk",
    "foo(Tensor x, *) -> Tensor",
    "foo(*, *, Tensor x) -> Tensor",
    "foo(Tensor x, *, Tensor y, *, Tensor z) -> ()",
    "foo(Tensor x=None, Generator g=None, Tensor? y=None, str[]? z=None) -> Tensor",
    "foo(Dict(str, int) d, (int, Tensor) t, Storage s, Stream st, t a, QScheme q, Any b, Future(int) c) -> ((int, t))",
    "foo(Device d='cuda:1', Device? e='cpu', Device? f=None) -> t[]",
    "foo(int[][] x, int[]?[] y, int?[]? z, int[][2] w) -> Tensor?[]",
    r"""foo(str a="a\"b", str b='a\'b', str c='a\nb', str d='a"b', str? e="x", str f="", bool g="a") -> ()""",
    "foo(Tensor int, Tensor lambda, Tensor from, Tensor self) -> (Tensor x, Tensor x)",
    "foo(int x=1.5, int y=True, bool z=1, float w=True, str v=1, Tensor? u=3) -> ()",
    "foo(DeviceIndex a, SymInt b, number c, NoneType d, Capsule e, AnyEnumType f) -> ()",
    "foo(__torch__.torch.classes.quantized.Conv2dPackedParamsBase q) -> ()",
    "foo() -> None",
    "foo(Tensor x, None y) -> (None, Tensor)",
    "foo(Tensor! x, Tensor(a!) y, Tensor !? z, *, Tensor! out) -> (Tensor!, Tensor(a!))",
    "foo(Tensor![] x, Tensor[]! y, int! z) -> Tensor![]",
    "foo(Dict(str, Tensor!) x, (Tensor(a), Tensor[](b!)) y, Tensor! z) -> ()",
]

REFUSED = [
    "", "foo", "ns::foo", "foo(Tensor x)", "foo(Tensor x) -> ", "foo(Tensor x -> Tensor", "foo(Tensr x) -> Tensor",
    "foo(Tensor) -> Tensor", "foo(Tensor x, int y=a) -> Tensor", "foo(Tensor x=1) -> Tensor",
    "foo(Tensor x,) -> Tensor",
    "foo(str b=x)->int", "foo(int[] x=1) -> ()", "foo(Tensor? x=None, Tensor y) -> Tensor",
    "foo-bar(Tensor x) -> Tensor",
    "foo(Tensor(a x) -> Tensor", "foo(int[ x) -> Tensor", "1foo(Tensor x) -> Tensor", "foo.1a(Tensor x) -> Tensor",
    "foo.default(Tensor x) -> Tensor", "foo.__x(Tensor x)->()", "a::b::foo(Tensor x) -> Tensor", "foo(Dimname d) -> ()",
    "foo(SymFloat d) -> ()", "foo(float i=inf)->()", "foo(int i=9223372036854775808)->()",
    "foo(MemoryFormat l=channels_last)->()", "foo(Device d=cpu)->()", "foo(Device d=None)->()", "foo(int l=Sum)->()",
    "foo(str[] s=['a'])->()", "foo(int?[] s=[])->()", "foo(Tensor[] s=[])->()", "foo(int x) -> (int, )",
    "foo(Tensor(a!|b) x)->()", "foo(Tensor(!) x)->()", "foo(Tensor!! x)->()", "foo(Tensor?! x)->()",
    "foo(Tensor(a)! x)->()", "foo(Tensor($0!) x)->()", "foo(Tensor() x)->()", "foo(Tensor x) - > Tensor",
    "foo(Tensor x;)->()", "foo(Tensor x @)->()", "foo.a.b(Tensor x)->()", "foo:bar(Tensor x)->()",
    "ns::.x(Tensor x)->()",
    "foo.(Tensor x)->()", "foo(Tensor if)->()", "foo(Tensor None)->()", "foo.in(Tensor x)->()", "and(Tensor x) -> ()",
    "foo(Tensor x, ..., int y)->()", "foo(Tensor x=...) ->()", "foo(int x=[1])->()", "foo(int[] x=[1,2)->()",
    "foo(int x=)->()", "foo(int x=-)->()", 'foo(str x="abc)->()', "foo(bool x=true)->()", "foo(int x=1_000)->()",
    "foo(int[-1] s)->()", "foo(int[x] s)->()", "foo(int[2][] z)->()", "foo(int[] x=None)->()", "foo(Any x=1)->()",
    "foo(int x=+3)->()", "foo(float x=--3)->()", "foo(bool[] x=[1])->()", "foo(int x=1, int y)->()",
]  # fmt: skip


def said(schema):
    """What a schema says, as plain values."""
    values = [
        (
            a.name, str(a.type), str(a.real_type), repr(a.default_value), a.has_default_value(), a.kwarg_only, a.N,
            a.is_out, a.is_write, a.type.kind(),
            a.alias_info and (sorted(a.alias_info.before_set), sorted(a.alias_info.after_set), a.alias_info.is_write),
        )
        for a in (*schema.arguments, *schema.returns)
    ]  # fmt: skip
    return str(schema), schema.name, schema.overload_name, schema.is_mutable, schema._is_view_op(), values


@pytest.mark.parametrize("text", PARSED)
def test_a_schema_says_and_prints_what_pytorch_makes_of_it(text):
    ours, theirs = torchlike._C.parse_schema(text), torch._C.parse_schema(text)
    assert _known(said(ours)) == _known(said(theirs))
    if attempt(lambda: torch._C.parse_schema(str(theirs)) == theirs) is True:
        assert torchlike._C.parse_schema(str(ours)) == ours


def _known(found):
    """PyTorch gives ``number`` and ``SymBool`` types of their own when they are spelt that way."""
    return repr(found).replace("'VarType'", "'NumberType'")


@pytest.mark.parametrize("text", REFUSED)
def test_what_pytorch_refuses_is_refused_in_the_same_way(text):
    ours, theirs = attempt(lambda: torchlike._C.parse_schema(text)), attempt(lambda: torch._C.parse_schema(text))
    assert isinstance(theirs, Exception), theirs
    assert type(ours) is type(theirs), f"{ours!r}\nPyTorch: {theirs!r}"


def test_every_operator_of_pytorch_has_a_schema_that_round_trips():
    for theirs in torch._C._jit_get_all_schemas():
        again = attempt(lambda text=str(theirs): torch._C.parse_schema(text))
        if not isinstance(again, Exception):  # a few are of types that PyTorch's own parser does not know
            assert said(torchlike._C.parse_schema(str(theirs)))[:4] == said(again)[:4]


def test_every_declared_schema_parses():
    for op in REGISTRY.values():
        found = torchlike._C.parse_schema(op.schema.text)
        assert [a.name for a in found.arguments] == [a.name for a in op.schema.args]
        assert [a.has_default_value() for a in found.arguments] == [a.has_default for a in op.schema.args]


@pytest.mark.parametrize(
    "text, match",
    [
        ("foo(Tensor x -> Tensor", r"expected \) but found 'arrow' here:\nfoo\(Tensor x -> Tensor\n {13}~~ <--- HERE"),
        ("foo(Tensor x, Tensr y) -> Tensor", r"unknown type specifier 'Tensr'.*SymInt.*\n.*\n {14}~~~~~ <--- HERE"),
        ("foo(int y=a) -> Tensor", r"invalid numeric default value 'a'; give a number(.|\n)*\n {10}~ <--- HERE"),
        ("foo(str[] s=['a']) -> ()", r"lists are only supported for int, float, bool, complex types as defaults"),
        ("foo(Tensor x)", r"expected arrow but found 'eof' here:\nfoo\(Tensor x\)$"),
        ("foo", r"only the operator name was given: 'foo'; append"),
        ("foo(int x=1, int y) -> ()", r"Non-default positional argument follows default argument. Parameter y"),
        ("foo(..., int y) -> ()", r"\.\.\. must be the last element of the argument list"),
        ("foo.default(int y) -> ()", r"default is not a legal overload name"),
    ],
)
def test_errors_point_at_the_place(text, match):
    with pytest.raises(RuntimeError, match=match):
        torchlike._C.parse_schema(text)


@pytest.mark.parametrize(
    "a, b",
    [
        ("foo(Tensor x) -> ()", "foo(Tensor y) -> ()"),
        ("foo(int x=1) -> ()", "foo(int x=2) -> ()"),
        ("foo(int x) -> ()", "foo(SymInt x) -> ()"),
        ("foo(Tensor(a) x) -> ()", "foo(Tensor(b) x) -> ()"),
        ("foo(Tensor x) -> ()", "foo(Tensor  x)->()"),
    ],
)
def test_equality(a, b):
    ours = torchlike._C.parse_schema(a) == torchlike._C.parse_schema(b)
    assert ours == (torch._C.parse_schema(a) == torch._C.parse_schema(b))


OLD = "foo(Tensor x, int y=1) -> Tensor"


@pytest.mark.parametrize(
    "new",
    [
        OLD, "foo(Tensor x) -> Tensor", "foo(Tensor x, int y=1, int z=2) -> Tensor", "foo(Tensor x, int y=2) -> Tensor",
        "foo(Tensor x, int y=1, *, int z) -> Tensor", "foo(Tensor x, int y=1) -> int",
        "bar(Tensor x, int y=1) -> Tensor",
    ],
)  # fmt: skip
def test_backward_compatibility(new):
    ours = torchlike._C.parse_schema(new).is_backward_compatible_with(torchlike._C.parse_schema(OLD))
    assert ours == torch._C.parse_schema(new).is_backward_compatible_with(torch._C.parse_schema(OLD))


def test_types_can_be_taken_apart():
    kind = torchlike._C.parse_schema("foo(int[]? x) -> ()").arguments[0].type
    assert (str(kind), kind.kind(), str(kind.getElementType())) == ("Optional[List[int]]", "OptionalType", "List[int]")
    assert kind.annotation_str == "Optional[List[int]]" and kind.containedTypes() == [kind.getElementType()]
    with pytest.raises(AttributeError, match="int has no attribute 'getElementType'"):
        kind.getElementType().getElementType().getElementType()


def test_names_alone():
    assert parse_name("ns::foo.bar") == ("ns::foo", "bar")
    with pytest.raises(RuntimeError, match="expected eof"):
        parse_name("ns::foo(")


@pytest.mark.parametrize("text", ["foo(Tensr x) -> Tensor", "foo(Tensor x", "foo(Tensor) -> Tensor", "foo"])
def test_a_declaration_with_a_malformed_schema_is_refused(text):
    with pytest.raises(SchemaError, match="not a schema: 'foo.*: "):
        Schema(text)
