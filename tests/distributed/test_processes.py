"""torch.distributed of two processes, next to PyTorch's gloo: collectives, DistributedDataParallel, DTensor, FSDP."""

import functools

import pytest
import pytorchs
from process_kit import HERE, SIZE, results

PARTS = (  # each ends within the time that a test may take, beside other tests too
    ("collectives_script.py", "ddp_script.py", "accumulate_script.py", "averaging_script.py", "local_script.py"),
    ("mesh_script.py", "spread_script.py", "states_script.py", "uneven_script.py"),
    ("works_script.py", "group_script.py", "breaks_script.py"),
    ("begun_script.py",),
)
# PyTorch refuses these on CPUs, or counts them in other ways; ours are checked by themselves
OURS = {"bf16_compress_hook", "cut_beyond_gloo", "tensors_over_several_processes"}


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """What a script gave under a library."""
    part_of = {script: part for part in PARTS for script in part}
    found = functools.cache(lambda part, library: results(part, library, tmp_path_factory.mktemp("processes")))
    return lambda script, library: found(part_of[script], library)[script]


def compared(found):
    return [{name: None if name in OURS else result for name, result in rank.items()} for rank in found]


def differing(run, script):
    """{(case, rank): (PyTorch's result, ours)} where they are not the same."""
    ours = compared(run(script, "torchlike"))
    files = [HERE / name for name in (script, "ranks.py", "in_turn.py")]
    theirs = pytorchs.same(script, files, ours, lambda: compared(run(script, "torch")))
    assert len(theirs[0]) > 6 and [list(found) for found in ours] == [list(found) for found in theirs], script
    return {
        (name, rank): (theirs[rank][name], ours[rank][name])
        for rank in range(SIZE) for name in theirs[rank]
        if theirs[rank][name] != ours[rank][name]
    }  # fmt: skip


@pytest.mark.parametrize("part", PARTS, ids=lambda part: part[0])  # one test for what runs anyway
def test_the_same_as_pytorch(run, part):
    found = {script: differing(run, script) for script in part}
    assert not any(found.values()), found


def test_lists_of_different_shapes(run):
    found = run("collectives_script.py", "torchlike")
    first, second = ([row[3] for row in ours["cut_beyond_gloo"]] for ours in found)
    assert first == [[1], [1, 1], [0], [10, 11, 12], 1]
    assert second == [[1], [1, 1], [0, 1], [10, 11, 12, 13], 3]


def test_no_mesh_of_processes_that_began_alone(run):
    for ours in run("begun_script.py", "torchlike"):
        said = ours["tensors_over_several_processes"]
        assert "a DeviceMesh over several processes: init_process_group came after" in said
