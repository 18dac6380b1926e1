"""Kernels compiled by another process: before they are needed, or while this process waits for them."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from ivjoin.shj.kernels import apart, compiling, objects

pytestmark = [
    pytest.mark.skipif(not compiling.COMPILES, reason="without numba's compiler nothing is kept"),
    pytest.mark.skipif(not objects.POSSIBLE, reason="no object files here"),
]

ROOM = "ivjoin.shj.kernels"
MODULE, NAME = f"{ROOM}.push.ring_kernels", "ring_kernels.move"


@pytest.fixture
def folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(apart, "_begun", set())
    if (numba := sys.modules.get("numba")) is not None:
        monkeypatch.setattr(numba.core.config, "CACHE_DIR", str(tmp_path))
    return tmp_path


def kept(folder: Path) -> set[str]:
    return {".".join(path.name.split(".")[:2]) for path in folder.rglob("*.o")}


@pytest.mark.slow
def test_kernels_are_usable_once_the_other_process_has_ended(folder: Path) -> None:
    assert not compiling.is_on_disk(MODULE)
    thread = apart.begin(MODULE)
    assert thread is not None
    thread.join(120)
    assert not thread.is_alive()
    assert kept(folder) == {NAME}
    assert compiling.is_on_disk(MODULE)
    assert not list(folder.rglob("*.lock"))


def test_each_module_begins_once_and_failures_are_skipped(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", "/nowhere/python")
    thread = apart.begin(MODULE)
    assert thread is not None
    thread.join(60)
    assert not thread.is_alive()
    assert apart.begin(MODULE) is None
    assert kept(folder) == set()


def test_the_other_process_starts_no_further_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("IVJOIN_COMPILES_HERE", "1")
    assert apart.start(MODULE) is None
    assert not apart.compile_there(MODULE)


_COMPILED = """
import sys
from ivjoin.shj.kernels import compiling
made, plain = [], compiling._object
compiling._object = lambda *given: (made.append(given), plain(*given))[1]
compiling.compile_all(*sys.argv[1:])
print(len(made), compiling.refused)
"""


@pytest.mark.slow
def test_of_two_processes_that_need_a_kernel_one_compiles_it(folder: Path) -> None:
    command = [sys.executable, "-c", _COMPILED, MODULE]
    env = {**os.environ, "IVJOIN_COMPILES_HERE": "1"}
    both = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=env) for _ in range(2)]
    said = sorted(process.communicate(timeout=120)[0].strip() for process in both)
    assert said == ["0 {}", "1 {}"]
    assert kept(folder) == {NAME}


_HOLDS = """
import sys, time
from ivjoin.shj.kernels import compiling, objects
with objects.alone(sys.argv[1], objects.key(compiling._STAMP)):
    print("held", flush=True)
    time.sleep(300)
"""


@pytest.mark.slow
def test_waiting_process_continues_when_the_other_is_killed(folder: Path) -> None:
    holder = subprocess.Popen([sys.executable, "-c", _HOLDS, NAME], stdout=subprocess.PIPE, text=True)
    assert holder.stdout is not None
    assert holder.stdout.readline() == "held\n"
    thread = threading.Thread(target=compiling.compile_all, args=(MODULE,))
    thread.start()
    thread.join(0.5)
    assert thread.is_alive()
    assert kept(folder) == set()
    holder.kill()
    holder.wait()
    holder.stdout.close()
    thread.join(120)
    assert not thread.is_alive()
    assert kept(folder) == {NAME}


def test_a_lock_that_outlives_its_work_is_not_waited_for(folder: Path) -> None:
    holder = subprocess.Popen([sys.executable, "-c", _HOLDS, NAME], stdout=subprocess.PIPE, text=True)
    assert holder.stdout is not None
    try:
        assert holder.stdout.readline() == "held\n"
        key = objects.key(compiling._STAMP)
        assert objects.keep(NAME, key, b"code")
        with objects.alone(NAME, key):
            assert objects.find(NAME, key) == b"code"
        assert holder.poll() is None
    finally:
        holder.kill()
        holder.wait()
        holder.stdout.close()


def test_no_process_waits_without_a_folder_for_locks(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    there = folder / "file"
    there.write_text("")
    monkeypatch.setattr(objects, "_folders", lambda: [there])
    with objects.alone(NAME, objects.key(compiling._STAMP)):
        pass
    assert not compiling.is_on_disk(MODULE)
