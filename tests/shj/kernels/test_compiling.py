"""The disk cache of compiled kernels: keyed by content, and skipped where it cannot be used."""

from __future__ import annotations

import ctypes
import hashlib
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import llvmlite.binding
import numba
import numpy as np
import pytest

from ivjoin.shj.kernels import building, compiling, everything, objects
from ivjoin.shj.kernels.compiling import I8, IN2, IO1, VOID, inner
from ivjoin.shj.kernels.output import released_blocks

ROOM = Path(compiling.__file__).parent.parent

pytestmark = pytest.mark.skipif(not compiling.COMPILES, reason="without numba's compiler nothing is cached")


def twice(x: int) -> int:
    return 2 * x


def total(rows: Any, out: Any) -> int:
    n = 0
    for i in range(rows.shape[0]):
        for j in range(rows.shape[1]):
            n += rows[i, j]
            out[i] += rows[i, j]
    return n


def fresh(n: int) -> int:
    return int(np.empty(n, dtype=np.int64).shape[0])


@inner
def _half(x):  # type: ignore[no-untyped-def]
    return x // 2


def quarter(x: int) -> int:
    return int(_half(_half(x)))


@pytest.fixture
def folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path))  # numba reads it again when some variable of its own changes
    monkeypatch.setattr(numba.core.config, "CACHE_DIR", str(tmp_path))
    return tmp_path


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The functions that an object file is made from."""
    made: list[Any] = []
    make = building.object_of
    monkeypatch.setattr(building, "object_of", lambda *about: made.append(about[0]) or make(*about))
    return made


@pytest.mark.usefixtures("folder")
def test_an_object_file_is_made_once_for_each_state_of_the_files(
    made: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    for _ in range(2):
        assert compiling._build(twice, I8(I8))(21) == 42
        assert len(made) == 1
    monkeypatch.setattr(compiling, "_STAMP", "an edited file")
    for _ in range(2):
        assert compiling._build(twice, I8(I8))(21) == 42
        assert len(made) == 2


def of_environment(patch: pytest.MonkeyPatch) -> None:
    patch.setenv("NUMBA_CPU_NAME", "generic")


def of_compiler(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(objects, "_compiler", lambda: "0.1")


def of_processor(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(objects, "_processor", lambda: "another")


@pytest.mark.parametrize("change", [of_environment, of_compiler, of_processor])
def test_an_object_file_is_for_one_compiler_with_its_settings_and_processor(
    change: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    before = objects.key("stamp")
    assert before == objects.key("stamp") != objects.key("other stamp")
    change(monkeypatch)
    assert objects.key("stamp") != before


@pytest.mark.skipif(not objects._fitting(), reason="no wheel has code for this processor")
def test_code_of_a_wheel_is_found_whatever_numba_is_installed(
    made: list[Any], folder: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    name, code = compiling._name(twice), building.object_of(twice, I8(I8).in_numba())
    with monkeypatch.context() as patch:
        patch.setenv("NUMBA_CPU_NAME", objects._fitting()[0])
        assert objects.keep(name, objects.key(compiling._STAMP), code)
    (file,) = folder.rglob("*.o")
    wheel = tmp_path / "wheel"
    wheel.mkdir()
    shutil.move(file, wheel)
    monkeypatch.setattr(objects, "_INSTALLED", wheel)
    monkeypatch.setattr(objects, "_compiler", lambda: "another")
    made.clear()
    assert compiling._build(twice, I8(I8))(21) == 42
    assert not made
    assert objects.find(name, objects.key("edited"), "edited") is None
    monkeypatch.setenv("NUMBA_ENABLE_AVX", "0")
    assert objects.find(name, objects.key(compiling._STAMP), compiling._STAMP) is None


def test_processors_run_the_code_of_wheels_that_they_have_the_features_for(monkeypatch: pytest.MonkeyPatch) -> None:
    def fitting(*features: str) -> list[str]:
        monkeypatch.setattr(objects.llvm, "get_host_cpu_features", lambda: dict.fromkeys(features, True))
        return objects._fitting.__wrapped__()

    third, second = objects.BASELINES["x86-64-v3"], objects.BASELINES["x86-64-v2"]
    assert fitting(*third, *second) == ["x86-64-v3", "x86-64-v2"]
    assert fitting(*third[1:], *second) == ["x86-64-v2"]
    assert fitting(*second[1:]) == []
    assert fitting("neon") == ["generic"]


@pytest.mark.parametrize("damage", [lambda code: code[:-1], lambda code: code[:100] + b"?" + code[101:], lambda _: b""])
def test_damaged_object_file_is_written_again(damage: Callable[[bytes], bytes], made: list[Any], folder: Path) -> None:
    assert compiling._build(twice, I8(I8))(21) == 42
    (file,) = folder.rglob("*.o")
    whole = file.read_bytes()
    file.write_bytes(damage(whole))
    assert compiling._build(twice, I8(I8))(21) == 42
    assert len(made) == 2
    assert file.read_bytes()[:32] == hashlib.sha256(file.read_bytes()[32:]).digest()


def test_only_recent_object_files_of_a_kernel_are_retained(folder: Path) -> None:
    for age in range(13, 0, -1):
        assert objects.keep("a.kernel", f"{age:032x}", b"code %d" % age)
        (file,) = folder.rglob(f"a.kernel.{age:032x}.o")
        os.utime(file, (1e9 - age, 1e9 - age))
    room = file.parent
    old, new, other = room / "a.kernel.x1.tmp", room / "a.kernel.x2.tmp", room / "b.kernel.x1.tmp"
    for left in (old, new, other):
        left.write_bytes(b"half")
    os.utime(old, (1e9, 1e9))
    assert objects.keep("a.kernel.more", f"{0:032x}", b"another kernel")
    assert objects.find("a.kernel", f"{8:032x}") == b"code 8"  # and so it is used now
    assert objects.keep("a.kernel", f"{0:032x}", b"code 0")
    assert {age for age in range(20) if objects.find("a.kernel", f"{age:032x}")} == {*range(7), 8}
    assert objects.find("a.kernel.more", f"{0:032x}") == b"another kernel"
    assert [left.exists() for left in (old, new, other)] == [False, True, True]


def test_the_callback_of_output_blocks_is_in_such_a_file(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    given = []
    build = released_blocks.callback
    monkeypatch.setattr(released_blocks, "callback", lambda *about: given.append(build(*about)) or given[-1])
    assert released_blocks.release_block.__wrapped__() == given[0].address
    found = [file.name.rpartition(".")[0].rpartition(".")[0] for file in folder.rglob("*.o")]
    assert "released_blocks._release" in found


@pytest.mark.usefixtures("folder")
def test_kernels_of_one_another_and_of_arrays_are_such_files_too() -> None:
    assert compiling._build(quarter, I8(I8))(-9) == -3
    sum_up = compiling._build(total, I8(IN2, IO1))
    rows, out = np.arange(12).reshape(3, 4), np.zeros(3, np.int64)
    assert sum_up(rows, out) == 66
    assert out.tolist() == [6, 22, 38]
    for wrong in (rows.T, rows.astype(np.int32), rows[:, :2], rows[0]):
        with pytest.raises(TypeError):
            sum_up(wrong, out)
    assert not {compiling._name(f) for f in (quarter, total)} & set(compiling.refused)


@pytest.mark.parametrize("settings", [{"CPU_NAME": "x86-64"}, {"CPU_FEATURES": "-avx"}, {"ENABLE_AVX": 0}], ids=str)
@pytest.mark.skipif(llvmlite.binding.get_process_triple().split("-")[0] != "x86_64", reason="another processor")
def test_numbas_settings_choose_the_processor(settings: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    vectors = re.compile(r"%[yz]mm")
    own = building._machine().emit_assembly(_of_doubles())
    for name, value in settings.items():
        monkeypatch.setattr(numba.config, name, value)
    assert not vectors.search(building._machine().emit_assembly(_of_doubles()))
    assert vectors.search(own) or not llvmlite.binding.get_host_cpu_features()["avx"]


def _of_doubles() -> Any:
    """A module that adds vectors of four doubles."""
    return llvmlite.binding.parse_assembly(
        "define <4 x double> @f(<4 x double> %a, <4 x double> %b) {\n"
        "%c = fadd <4 x double> %a, %b\nret <4 x double> %c\n}"
    )


@pytest.mark.usefixtures("folder")
def test_words_are_checked_before_they_reach_a_kernel() -> None:
    made = compiling._build(twice, I8(I8))
    for arguments in ((), ("1",), (1.5,)):
        with pytest.raises((TypeError, ctypes.ArgumentError)):
            made(*arguments)
    assert made(-1) == -2


def positive(x: int) -> int:
    if x < 0:
        raise ValueError("below 0")
    return x


@pytest.mark.parametrize("function", [fresh, positive])
@pytest.mark.usefixtures("folder")
def test_kernels_that_allocate_or_raise_are_left_to_numba(function: Any) -> None:
    kernel = compiling._build(function, I8(I8))
    assert kernel(3) == 3
    assert "a kernel cannot" in compiling.refused.pop(f"test_compiling.{function.__name__}")
    if function is positive:
        with pytest.raises(ValueError, match="below 0"):
            kernel(-3)


@pytest.mark.usefixtures("folder")
def test_so_is_everything_where_object_files_cannot_be_made(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_about: Any) -> bytes:
        raise AttributeError("another numba")

    monkeypatch.setattr(building, "object_of", fails)
    monkeypatch.setenv("IVJOIN_COMPILES_HERE", "1")
    assert compiling._build(quarter, I8(I8))(-9) == -3
    assert compiling.callback(VOID(I8), released_blocks._release).address
    assert {compiling.refused.pop(f) for f in ("test_compiling.quarter", "released_blocks._release")} == {
        "AttributeError: another numba"
    }


@pytest.mark.slow
def test_edit_of_any_file_of_the_package_changes_the_stamp(tmp_path: Path) -> None:
    room = tmp_path / "shj"
    shutil.copytree(ROOM, room, ignore=shutil.ignore_patterns("__pycache__"))
    before = compiling._digest(room)
    assert before == compiling._digest(ROOM) == compiling._STAMP
    seen = {before}
    paths = sorted(room.rglob("*.py"))
    assert {"pointers.py", "push_kernels.py", "registers.py", "compiling.py"} <= {p.name for p in paths}
    for path in paths:
        old = path.read_bytes()
        path.write_bytes(old.replace(b"e", b"f", 1) or b"x = 1")
        seen.add(compiling._digest(room))
        path.write_bytes(old)
    assert len(seen) == 1 + len(paths)
    (room / "new").mkdir()
    (room / "new" / "kernels.py").write_text("")
    assert compiling._digest(room) not in seen


@pytest.mark.parametrize("owner", [llvmlite, np])
def test_so_does_another_version(owner: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(owner, "__version__", "0")
    assert objects._compiler.__wrapped__() != objects._compiler()


@pytest.mark.usefixtures("folder")
def test_bounds_are_checked_by_numba(monkeypatch: pytest.MonkeyPatch) -> None:
    """A kernel of words has no checks; one of arrays is compiled in this process, with them."""
    monkeypatch.setattr(numba.config, "BOUNDSCHECK", 1)
    assert compiling._words(total, I8(IN2, IO1)) is None
    assert compiling._words(quarter, I8(I8)) is not None


@pytest.mark.usefixtures("folder")
def test_a_module_is_on_disk_when_all_its_kernels_are(monkeypatch: pytest.MonkeyPatch) -> None:
    name = "ivjoin.shj.kernels.push.ring_kernels"
    assert not compiling.is_on_disk(name)
    assert name in everything.missing()
    compiling.compile_all(name)
    assert compiling.is_on_disk(name)
    assert name not in everything.missing()
    monkeypatch.setattr(compiling, "COMPILES", False)
    assert everything.missing() == []


@pytest.mark.slow
def test_a_join_with_kernels_on_disk_imports_neither_numba_nor_pandas_nor_the_list_of_arrows_functions() -> None:
    code = """
import pyarrow as pa, ivjoin, sys
words = pa.py_buffer(b"".join((i * 7 % 3000).to_bytes(8, "little") for i in range(3000)))
moved = pa.Array.from_buffers(pa.int64(), 3000, [None, words])
moved = pa.Table.from_arrays([moved, moved], ["k", "t"])
assert ivjoin.band_join(moved, moved, on="k", condition="l.t - r.t BETWEEN -1 AND 1").read_all().num_rows == 3000
words = pa.py_buffer(b"".join(i.to_bytes(8, "little") for i in range(3000)))
rows = pa.Array.from_buffers(pa.int64(), 3000, [None, words])
s = pa.Table.from_arrays([rows, rows], ["k", "t"])
for how in ("inner", "full"):
    about = {"on": "k", "condition": "l.t - r.t BETWEEN -1 AND 1", "left_order": "t", "right_order": "t"}
    assert ivjoin.band_join(s, s, how=how, **about).read_all().num_rows == 3000
    print(*{"numba", "pandas", "pyarrow.compute"} & set(sys.modules))
"""
    for expected in (None, "\n\n"):
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=120)
        assert expected is None or done.stdout == expected


@pytest.mark.slow
def test_text_is_picked_by_aggregated_and_compared_without_pandas() -> None:
    code = """
import pyarrow as pa, ivjoin, sys
from ivjoin.shj.arrow import whole_numbers
import numpy as np
at = np.arange(600)
words = b"".join(b"%03d" % (i * 7 % 50) for i in range(600))
ends = pa.py_buffer(np.arange(0, 1803, 3, dtype=np.int32))
text = pa.Array.from_buffers(pa.string(), 600, [None, ends, pa.py_buffer(words)])
s = pa.Table.from_arrays([text, whole_numbers(at)], ["k", "t"])
band = {"condition": "l.t - r.t BETWEEN -1 AND 1 AND l.k >= r.k", "left_order": "t", "right_order": "t"}
one = ivjoin.band_join(s, s, **band, pick=ivjoin.Pick(["k", "t"], "last")).read_all()
asked = {"n": ("*", "count"), "most": ("k", "max")}
all = ivjoin.window_join(s, s, on="k", condition="l.t = r.t", aggregate=asked).read_all()
assert one.num_rows == 600 == all.num_rows
print(*{"pandas"} & set(sys.modules))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=120)
    assert done.stdout == "\n"


def test_object_files_are_also_made_without_a_folder(made: list[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(objects, "_folders", lambda: [Path("/dev/null/nowhere")])
    assert compiling._build(twice, I8(I8))(21) == 42
    assert len(made) == 1


def test_every_module_with_kernels_is_known_and_is_on_disk() -> None:
    """As after an installation; a kernel that is not would be compiled at a user's first join."""
    names = everything.modules()
    assert names[0].endswith(".push_kernels")
    assert len(names) > 12
    assert sum(len(compiling.kernels_of(name)) for name in names) > 40


_LIMITED = """
import sys
import numpy as np, pyarrow as pa
from ivjoin import SymmetricHashJoin
if len(sys.argv) > 1:
    sys.executable = sys.argv[1]
schema = pa.schema([("k", pa.int64()), ("t", pa.int64())])
op = SymmetricHashJoin(schema, schema, on="k", condition="abs(l.t - r.t) <= 3000", left_order="t", right_order="t",
                       memory_limit=60_000, when_full="spill")
found = 0
for i in range(20):
    t = np.arange(i * 500, i * 500 + 500)
    for side in ("left", "right"):
        found += sum(out.num_rows for out in op.push(side, pa.record_batch([t % 701, t], schema=schema)))
print(found, "numba" in sys.modules, op.metrics.spilled_bytes > 0)
"""


@pytest.mark.slow
@pytest.mark.skipif(not objects.POSSIBLE or not compiling.COMPILES, reason="no object files here")
def test_where_memory_is_limited_another_process_compiles(tmp_path: Path) -> None:
    """A compiler takes more memory than the join may. Compiled kernels need no second process."""
    (tmp_path / objects._OURS).mkdir()
    key = objects.key(compiling._STAMP)
    for module in everything.modules():
        if module.endswith(".ring_kernels"):  # a small one, which the other process compiles
            continue
        for name in (compiling._name(f) for f, _ in compiling.kernels_of(module)):
            places = (objects._file(folder, name, key) for folder in (objects._INSTALLED, *objects._folders()))
            for path in filter(Path.exists, places):
                shutil.copy(path, tmp_path / objects._OURS)
    there = len(list(tmp_path.rglob("*.o")))
    t = np.arange(10_000)
    exact = sum(int(((t % 701 == x % 701) & (abs(t - x) <= 3000)).sum()) for x in t.tolist())
    for more, loads in (([], False), (["/nowhere/python"], False)):
        done = subprocess.run(
            [sys.executable, "-c", _LIMITED, *more], capture_output=True, text=True, check=True,
            env={**os.environ, "NUMBA_CACHE_DIR": str(tmp_path)},
        )
        assert done.stdout.split() == [str(exact), str(loads), "True"]
    assert len(list(tmp_path.rglob("*.o"))) > there
