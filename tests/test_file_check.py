"""torch.testing.FileCheck finds what PyTorch's finds."""

import pytest
from both import agree, agree_error

TEXT = "a b\nc d\na e\nf\n"
FOUND = {
    "in order": lambda f: f.check("a").check("d"),
    "none": lambda f: f.check_not("z"),
    "none between": lambda f: f.check("a").check_not("e").check("d"),
    "same line": lambda f: f.check("a").check_same("b"),
    "next line": lambda f: f.check("b").check_next("c"),
    "count": lambda f: f.check_count("a", 2).check("e"),
    "exact count": lambda f: f.check_count("a", 2, exactly=True).check("f"),
    "none at all": lambda f: f.check_count("z", 0, True),
    "any order": lambda f: f.check_dag("e").check_dag("b").check("f"),
    "regex": lambda f: f.check_regex("[cd] d").check("e"),
}
REFUSED = {
    "order": (lambda f: f.check("d").check("b"), 'find "b" but did not find it.*From CHECK: b'),
    "found": (lambda f: f.check("a").check_not("c").check("e"), 'not find "c" but found it.*CHECK-NOT: c'),
    "found behind": (lambda f: f.check("a").check_not("c"), 'not find "c" but found it'),
    "found before": (lambda f: f.check_not("b").check("c"), 'not find "b" but found it'),
    "another line": (lambda f: f.check("a").check_same("c"), r'not find "\\n" but found it.*CHECK-SAME: c'),
    "a later line": (lambda f: f.check("b").check_next("e"), r'not find "\\n" but found it.*CHECK-NEXT: e'),
    "too few": (lambda f: f.check_count("a", 3), 'find "a" but did not find it.*CHECK-COUNT-3: a'),
    "too many": (lambda f: f.check_count("a", 1, exactly=True), 'not find "a" but found it.*CHECK-NOT: a'),
    "behind a group": (lambda f: f.check_dag("f").check_dag("a").check("d"), 'find "d" but did not find it'),
    "between groups": (lambda f: f.check_dag("b").check_not("c").check_dag("e"), 'not find "c" but found it'),
    "regex": (lambda f: f.check_regex("q+"), r'find regex "q\+" but did not find it.*CHECK-REGEX: q'),
    "nothing": (lambda f: f, "No checks have been added"),
    "count of 0": (lambda f: f.check_count("a", 0), "exactly"),
}
WRITTEN = "# CHECK: a\n# CHECK-NEXT: c\n# CHECK-NOT: q\n# CHECK-DAG: e\n"


@pytest.mark.parametrize("name", FOUND)
def test_what_is_found(name):
    agree(lambda t: FOUND[name](t.testing.FileCheck()).run(TEXT))


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_refused(name):
    make, match = REFUSED[name]
    agree_error(lambda t: make(t.testing.FileCheck()).run(TEXT), match)


def test_checks_of_a_file_and_marks():
    agree(lambda t: t.testing.FileCheck().run(WRITTEN, TEXT))
    agree(lambda t: t.testing.FileCheck().check_source_highlighted("c").run("x c\n  ~ <--- HERE\n"))
    agree_error(lambda t: t.testing.FileCheck().check_source_highlighted("c").run("x c\n ~\n"), "c")
    agree_error(lambda t: t.testing.FileCheck().run(WRITTEN + "# CHECK-COUNT-2: a", TEXT), "CHECK-COUNT-2: a")
    agree_error(lambda t: t.testing.FileCheck().check("a").run(3), r"run\(\)")
