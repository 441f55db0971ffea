"""The generated methods of `Schedule`: current, complete, and typed for those who call them."""

import inspect
import subprocess
import sys
import typing

from mslang.ops.signature import Group
from mslang.ops.table import SAMPLERS
from mslang.schedule.generate import METHODS, methods
from mslang.schedule.schedule import Schedule
from mslang.transform.registry import OPERATIONS

TYPED = '''
from typing import assert_type

import mslang as ms
from mslang.schedule.handles import Handle
from mslang.schedule.values import Size, Tile

program = ms.parse_program("""program p(A: f32[64, 64], out B: f32[64, 64]) {
    block b[i: 64, j: 64] { B[i, j] = A[i, j] } }""")
s = ms.Schedule(program, seed=1)
b = s.get("b")
tile = s.perfect_tile(s.axis(b, "i"), 2, max_inner=8, name="ti")
assert_type(tile, Tile)
split = s.split(s.axis(b, "i"), tile, tail="guard", names=["i0", "i1"])
assert_type(split, tuple[Handle, ...])
fused = s.fuse(split[0], split[1], names=["f"])
assert_type(fused, Handle)
assert_type(s.loops(b), tuple[Handle, ...])
assert_type(s.extent(fused), int | Size)
assert_type(s.is_output(b), bool)
copy = s.cache_read(b, s.get("A"), "local")
assert_type(copy, Handle)
s.compute_at(copy, fused)
s.vectorize(s.axis(b, "j"))
s.annotate(fused, "key", 1)
'''


def test_the_generated_methods_are_current():
    assert METHODS.read_text() == methods(), "run `python -m mslang.schedule.generate`"


def test_every_operation_is_a_documented_method():
    for name, signature in OPERATIONS.items():
        method = getattr(Schedule, name)
        assert inspect.getdoc(method), name
        assert typing.get_type_hints(method, vars(sys.modules[method.__module__])), name
        given = [p for p in inspect.signature(method).parameters if p not in ("self", "names", "address", "decision")]
        expected = [p.name for p in signature.params]
        if signature.group is Group.SAMPLER:
            expected.append("name")
        assert given == expected, name


def test_samplers_have_the_defaults_of_the_table():
    for s in SAMPLERS:
        shown = inspect.signature(getattr(Schedule, s.name)).parameters
        for p in s.params:
            assert shown[p.name].default in (p.default, inspect.Parameter.empty), (s.name, p.name)


def test_user_code_is_checked_by_mypy_and_runs(tmp_path):
    (tmp_path / "typed.py").write_text(TYPED)
    (tmp_path / "wrong.py").write_text(TYPED + 's.split(fused, [1], tail="sideways")\ns.fuse(1)\ns.reorder(b)[0]\n')
    command = [sys.executable, "-m", "mypy", "--strict", "--no-incremental", "--cache-dir", str(tmp_path / "cache")]
    right = subprocess.run([*command, "typed.py"], cwd=tmp_path, capture_output=True, text=True)
    assert right.returncode == 0, right.stdout
    wrong = subprocess.run([*command, "wrong.py"], cwd=tmp_path, capture_output=True, text=True)
    found = [line for line in wrong.stdout.splitlines() if "error:" in line]
    last = len(TYPED.splitlines())
    assert {line.split(":")[1] for line in found} == {str(last + k) for k in (1, 2, 3)}, wrong.stdout
    exec(compile(TYPED, "typed.py", "exec"), {})
