"""The disk cache of compiled kernels: keyed by content, and done without where it cannot be."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import llvmlite
import numba
import numpy as np
import pytest

from ivjoin.shj.kernels import compiling, memory
from ivjoin.shj.kernels.compiling import I8, VOID

ROOM = Path(compiling.__file__).parent.parent

pytestmark = pytest.mark.skipif(not compiling.COMPILES, reason="without numba's compiler nothing is cached")


def twice(x: int) -> int:
    return 2 * x


@pytest.fixture
def empty_cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    monkeypatch.setattr(numba.core.config, "CACHE_DIR", str(tmp_path))
    yield
    assert list(tmp_path.rglob("*.nbc")), "nothing was kept, so nothing was tested"


def kernel_hits() -> int:
    return sum(compiling._build(twice, I8(I8)).stats.cache_hits.values())


def callback_hits() -> int:
    made = compiling.callback(VOID(I8), memory._release)
    assert made.address
    return made.cache_hits


@pytest.mark.parametrize("hits", [kernel_hits, callback_hits])
@pytest.mark.usefixtures("empty_cache")
def test_code_of_other_files_is_not_taken_from_disk(hits: Callable[[], int], monkeypatch: pytest.MonkeyPatch) -> None:
    assert hits() == 0
    assert hits() == 1
    monkeypatch.setattr(compiling, "_STAMP", "an edited file")
    assert hits() == 0
    assert hits() == 1


@pytest.mark.usefixtures("empty_cache")
def test_the_callback_of_output_blocks_is_such_a_one(monkeypatch: pytest.MonkeyPatch) -> None:
    made = []
    build = memory.callback
    monkeypatch.setattr(memory, "callback", lambda *about: made.append(build(*about)) or made[-1])
    assert memory.release_block.__wrapped__() == made[0].address
    codegen = made[0]._targetdescr.target_context.codegen()
    assert made[0]._cache._index_key(made[0]._sig, codegen)[-1] == compiling._STAMP


def test_an_edit_of_any_file_of_the_room_changes_the_stamp(tmp_path: Path) -> None:
    room = tmp_path / "shj"
    shutil.copytree(ROOM, room, ignore=shutil.ignore_patterns("__pycache__"))
    before = compiling._digest(room)
    assert before == compiling._digest(ROOM) == compiling._STAMP
    seen = {before}
    paths = sorted(room.rglob("*.py"))
    assert {"memory.py", "push_kernels.py", "registers.py", "compiling.py"} <= {p.name for p in paths}
    for path in paths:
        old = path.read_bytes()
        path.write_bytes(old.replace(b"e", b"f", 1) or b"x = 1")
        seen.add(compiling._digest(room))
        path.write_bytes(old)
    assert len(seen) == 1 + len(paths)
    (room / "new").mkdir()
    (room / "new" / "kernels.py").write_text("")
    assert compiling._digest(room) not in seen


@pytest.mark.parametrize(
    ("owner", "name", "value"),
    [(llvmlite, "__version__", "0"), (np, "__version__", "0"), (numba.config, "BOUNDSCHECK", 2)],
)
def test_so_does_another_version_or_setting(
    owner: Any, name: str, value: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(owner, name, value)
    assert compiling._digest(ROOM) != compiling._STAMP


def test_numba_itself_tells_versions_and_processors_apart() -> None:
    kept = compiling._dispatcher(twice)
    codegen = kept.targetctx.codegen()
    cache = kept._cache
    assert cache._cache_file._version == numba.__version__
    assert codegen.magic_tuple() in cache._index_key(I8(I8), codegen)
    assert codegen._get_host_cpu_name() in codegen.magic_tuple()


def test_without_a_folder_to_write_to_kernels_compile_all_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    real = numba.njit

    def njit(*args: Any, cache: bool = False, **options: Any) -> Any:
        def refuse(_function: Any) -> Any:
            raise RuntimeError("cannot cache function 'twice': no locator available")

        return refuse if cache else real(*args, **options)

    monkeypatch.setattr(numba, "njit", njit)
    made = compiling._build(twice, I8(I8))
    assert made(21) == 42


def test_what_is_not_on_disk_is_not_said_to_be() -> None:
    @compiling.compiled(I8(I8))
    def thrice(x):  # type: ignore[no-untyped-def]
        return 3 * x

    assert not compiling.is_cached(thrice)
