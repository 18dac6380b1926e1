"""An output never replaces an input of its join, however either of them is named."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest
from pyarrow import fs

import ivjoin
from ivjoin import Spill
from ivjoin.cli import main
from ivjoin.files.atomic import FileError

ROWS = pa.table({"k": [1, 2, 3], "t": [1, 2, 3]})


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    for name in ("d/p.parquet", "d/year=1/q.parquet", "g.parquet", "r.parquet"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(ROWS, tmp_path / name)
    (tmp_path / "link").symlink_to("d")
    (tmp_path / "symbolic.parquet").symlink_to("g.parquet")
    (tmp_path / "hard.parquet").hardlink_to("g.parquet")
    return tmp_path


# How an input is named (% is its folder), the output that would replace it, and the file that is there.
G = "g.parquet"
NAMED = [
    pytest.param(G, G, G, id="as it is"), pytest.param("./x/../g.parquet", G, G, id="dots"),
    pytest.param("%/g.parquet", G, G, id="absolute"), pytest.param("file://%/g.parquet", G, G, id="URI"),
    pytest.param("FILE://%/g.parquet", G, G, id="URI in capitals"),
    pytest.param("local://%/g.parquet", G, G, id="URI of fsspec's name"),
    pytest.param("file://localhost%/g.parquet", G, G, id="URI with a host"),
    pytest.param("file://%/g%2eparquet", G, G, id="percent-encoded"),
    pytest.param("file://%/*.parquet", G, G, id="pattern in a URI"),
    pytest.param("[g]*.parquet", "./g.parquet", G, id="pattern"),
    pytest.param("d", "d/p.parquet", "d/p.parquet", id="folder"),
    pytest.param("file://%/d/", "d/year=1/q.parquet", "d/year=1/q.parquet", id="folder in a URI"),
    pytest.param("d/**", "d/p.parquet", "d/p.parquet", id="pattern of folders"),
    pytest.param("link", "d/p.parquet", "d/p.parquet", id="folder by a link"),
    pytest.param("d", "link/p.parquet", "d/p.parquet", id="output by a linked folder"),
    pytest.param("symbolic.parquet", G, G, id="symbolic link"),
    pytest.param(G, "symbolic.parquet", G, id="output by a symbolic link"),
    pytest.param(G, "hard.parquet", G, id="hard link"),
    pytest.param("file://%/g.parquet", "hard.parquet", G, id="hard link of a URI"),
    pytest.param("d/p.parquet", "d/../d/p.parquet", "d/p.parquet", id="dots in the output"),
    pytest.param(G, "absent/../g.parquet", G, id="dots after a folder that does not exist"),
    pytest.param("d", "absent/../link/p.parquet", "d/p.parquet", id="dots and a link"),
]


def refused(act: Callable[[], Any], file: Path, *said: str) -> None:
    before = file.read_bytes()
    with pytest.raises(FileError) as e:
        act()
    assert all(each in str(e.value) for each in said), str(e.value)
    assert file.read_bytes() == before
    assert not list(file.parent.glob(".*.partial"))


@pytest.mark.one_in(5)
@pytest.mark.parametrize("option", ["-o", "--metrics-json"])
@pytest.mark.parametrize("given, output, file", NAMED)
def test_on_the_command_line(
    folder: Path, given: str, output: str, file: str, option: str, capsys: pytest.CaptureFixture[str]
) -> None:
    given, before = given.replace("%/", f"{folder}/"), (folder / file).read_bytes()
    (folder / "x").mkdir()
    place = ["-q", *([] if option == "-o" else ["-o", "new.csv"]), option, output]
    commands = [
        ["join", given, "r.parquet", "--on", "k"],
        ["join", "r.parquet", given, "--on", "k"],
        ["join", f"a={given}", "b=r.parquet", "--condition", "a.k = b.k"],
        ["asof", given, "r.parquet", "--on", "t"],
    ]
    for command in commands:
        assert main([*command, *place]) == 2
        said = capsys.readouterr().err
        assert f"({option}) would replace the input" in said and "write to another file" in said
        assert (folder / file).read_bytes() == before
        assert not (folder / "new.csv").exists()


@pytest.mark.parametrize("given, output, file", NAMED)
def test_in_python(folder: Path, given: str, output: str, file: str) -> None:
    given = given.replace("%/", f"{folder}/")
    (folder / "x").mkdir()
    made = [
        lambda: ivjoin.band_join(given, ROWS, on="k"),
        lambda: ivjoin.band_join(ROWS, given, on="k"),
        lambda: ivjoin.asof_join(ROWS, given, on="t"),
        lambda: ivjoin.multi_join({"a": ROWS, "b": given}, "a.k = b.k"),
    ]
    for make in made:
        refused(lambda make=make: make().write_parquet(output), folder / file, "would replace the input", "move it")


@pytest.mark.parametrize("write, name", [("write_csv", "i.csv"), ("write_ipc", "i.arrow"), ("write_ipc", "i.arrows")])
def test_each_format(tmp_path: Path, write: str, name: str) -> None:
    place = tmp_path / name
    options: Any = {"on": "k", "columns": ["k", "t"]}
    getattr(ivjoin.band_join(ROWS, ROWS, **options), write)(place)
    refused(lambda: getattr(ivjoin.band_join(ROWS, place, **options), write)(place), place, "would replace the input")
    half = ivjoin.band_join(place, ROWS, **options, batch_size=1)
    next(half)
    refused(lambda: getattr(half, write)(place), place, "would replace the input")


def test_datasets(folder: Path) -> None:
    fsspec = pytest.importorskip("fsspec")
    local = fs.PyFileSystem(fs.FSSpecHandler(fsspec.filesystem("file")))
    given = [
        ds.dataset("g.parquet"),
        ds.dataset("g.parquet", filesystem=fs.SubTreeFileSystem(str(folder), fs.LocalFileSystem())),
        ds.dataset(str(folder / "g.parquet"), filesystem=local),
        ds.dataset([ds.dataset("r.parquet"), ds.dataset("g.parquet")]),
        ["r.parquet", Path("g.parquet")],
    ]
    for each in given:
        stream = ivjoin.band_join(each, ROWS, on="k")
        refused(lambda s=stream: s.write_parquet("g.parquet"), folder / "g.parquet", "would replace the input")


@pytest.mark.skipif(sys.platform == "win32", reason="open files are not listed")
@pytest.mark.parametrize("memory_map", [False, True])
def test_open_parquet_files(folder: Path, memory_map: bool) -> None:
    with pq.ParquetFile("g.parquet", memory_map=memory_map) as file:
        refused(
            lambda: ivjoin.band_join(file, ROWS, on="k").write_parquet("g.parquet"), folder / "g.parquet",
            "would replace the file", "which this process has open",
        )  # fmt: skip
        assert ivjoin.band_join(file, ROWS, on="k").write_parquet("other.parquet") > 0


def test_files_that_polars_scans(folder: Path) -> None:
    pl = pytest.importorskip("polars")
    for i in range(6):
        shutil.copy("g.parquet", f"many {i}.parquet")
        Path("many").mkdir(exist_ok=True)
        shutil.copy("g.parquet", f"many/{i}.parquet")
    pl.read_parquet("g.parquet").write_csv("g.csv")
    for frame, name in [
        (pl.scan_parquet("g.parquet"), "g.parquet"), (pl.scan_parquet(folder / "g.parquet"), "g.parquet"),
        (pl.scan_parquet(f"file://{folder}/g.parquet"), "g.parquet"),
        (pl.scan_csv("g.csv").filter(pl.col("k") >= 0), "g.csv"),
        (pl.scan_parquet("many*.parquet"), "many 0.parquet"), (pl.scan_parquet("many*.parquet"), "many 5.parquet"),
        (pl.scan_parquet([f"many {i}.parquet" for i in range(6)]), "many 5.parquet"),
        (pl.scan_parquet(f"file://{folder}/many*.parquet").filter(pl.col("k") > 0), "many 3.parquet"),
        (pl.concat([pl.scan_parquet("many"), pl.scan_parquet("r.parquet")]), "many/4.parquet"),
        (pl.scan_parquet(["many 0.parquet", "g.parquet"]), "g.parquet"),
        (pl.concat([pl.scan_parquet("many 0.parquet"), pl.scan_parquet("g.parquet")]), "g.parquet"),
    ]:
        stream = ivjoin.band_join(frame, ROWS, on="k", columns=["k"])
        write = stream.write_csv if name.endswith(".csv") else stream.write_parquet
        refused(lambda write=write, name=name: write(name), folder / name, "would ", " the input")
        assert ivjoin.band_join(frame, ROWS, on="k", columns=["k"]).write_parquet("new.parquet") >= 0


def test_another_working_directory(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stream = ivjoin.band_join("g.parquet", ROWS, on="k")
    monkeypatch.chdir(folder / "d")
    refused(lambda: stream.write_parquet("../g.parquet"), folder / "g.parquet", "would replace the input")


@pytest.mark.parametrize("given, output", [
    ("d", "d/new.parquet"), ("link", "d/sub/new.parquet"), ("*.parquet", "new.parquet"),
    ("file://%/d", "d/new.parquet"), ("d/*/*.parquet", "d/sub/new.parquet"), ("d/**", "d/sub/new.parquet"),
])  # fmt: skip
def test_a_new_file_that_the_input_would_hold(folder: Path, given: str, output: str) -> None:
    given = given.replace("%/", f"{folder}/")
    (folder / "d/sub").mkdir()
    make = lambda: ivjoin.band_join(given, ROWS, on="k")  # noqa: E731
    refused(lambda: make().write_parquet(output), folder / "g.parquet", "would become part of the input")
    if "*" not in given:
        refused(lambda: make().write_parquet("d/new", ["t"]), folder / "g.parquet", "would become part of the input")


@pytest.mark.parametrize("given, output", [
    ("d", "new.parquet"), ("d", "d/_new.parquet"), ("d", "d2/new.parquet"), ("[dgr].parquet", "new.parquet"),
    ("*.parquet", "d/new.parquet"), ("g.parquet", "d/new.parquet"),
])  # fmt: skip
def test_other_places_are_written(folder: Path, given: str, output: str) -> None:
    (folder / "d2").mkdir()
    assert ivjoin.band_join(given, ROWS, on="k").write_parquet(output)


def test_files_for_spilling_in_an_input_folder(folder: Path) -> None:
    rows = pa.table({"k": [0] * 3000, "t": range(3000), "x": ["x" * 2000] * 3000})
    pq.write_table(rows, folder / "d/p.parquet")
    (folder / "d/year=1/q.parquet").unlink()
    before = sorted((p, p.is_file() and p.read_bytes()) for p in (folder / "d").rglob("*"))
    condition = "l.t BETWEEN r.t AND r.t + 1"
    options: Any = {"memory_limit": "4MB", "when_full": Spill(folder / "d"), "sort": "never"}
    stream = ivjoin.band_join("d", "d", condition=condition, columns=["x", "x_right"], **options)
    assert sum(batch.num_rows for batch in stream) == 5999
    assert stream.metrics.spilled_bytes
    assert sorted((p, p.is_file() and p.read_bytes()) for p in (folder / "d").rglob("*")) == before


def test_a_scanner_is_read_to_its_end_first(folder: Path) -> None:
    scanner = ds.dataset("g.parquet").scanner()
    assert ivjoin.band_join(scanner, ROWS, on="k", batch_size=1).write_parquet("g.parquet") == 3
    assert pq.read_table("g.parquet").num_rows == 3


COMMAND = ["join", "g.parquet", "r.parquet", "--on", "k", "-q", "--format", "csv", "-o"]
SHOWN = [b'"k","t","t_right"', b"1,1,1", b"2,2,2", b"3,3,3"]


@pytest.mark.parametrize("name", ["-", "/dev/stdout", "/dev/fd/1", "/proc/self/fd/1"])
def test_standard_output_by_another_name(folder: Path, name: str, capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    assert main([*COMMAND, name]) == 0
    assert capfdbinary.readouterr().out.splitlines() == SHOWN


@pytest.mark.slow
def test_standard_output_that_is_appended_to(folder: Path) -> None:
    log = folder / "log.csv"
    log.write_bytes(b"first\n")
    with log.open("ab") as file:
        subprocess.run([sys.executable, "-m", "ivjoin", *COMMAND, "/dev/stdout"], check=True, stdout=file, timeout=120)
    assert log.read_bytes().splitlines() == [b"first", *SHOWN]


def test_a_pipe_that_has_a_number_for_a_name(folder: Path) -> None:
    read, write = os.pipe()
    assert main([*COMMAND, f"/dev/fd/{write}"]) == 0
    os.close(write)
    with open(read, "rb") as file:
        assert file.read().splitlines() == SHOWN


R = "r.parquet"


@pytest.mark.parametrize("join", [
    pytest.param(lambda: ivjoin.band_join(G, R, on="k", maintain_order="left"), id="maintain_order"),
    pytest.param(lambda: ivjoin.band_join(R, G, on="k", indicator=True), id="indicator"),
    pytest.param(lambda: ivjoin.band_join(ivjoin.band_join(G, R, on="k"), R, on="k", suffix="_2"), id="of a join"),
    pytest.param(lambda: ivjoin.asof_join(ivjoin.band_join(R, G, on=["k", "t"]), R, on="t"), id="of a join, as-of"),
    pytest.param(lambda: ivjoin.asof_join(R, G, on="t", offsets=[0, 1]), id="offsets"),
    pytest.param(lambda: ivjoin.asof_join(G, R, on="t", offsets=[0, 1, 2]), id="offsets, left"),
    pytest.param(lambda: ivjoin.asof_join(R, G, on="t", interpolate="k"), id="interpolate"),
    pytest.param(lambda: ivjoin.multi_join({"a": ivjoin.band_join(G, R, on="k"), "b": R}, "a.k = b.k"), id="of many"),
    pytest.param(
        lambda: ivjoin.sql(f"SELECT a.k FROM '{G}' a LEFT JOIN '{R}' b ON a.k = b.k LEFT JOIN '{R}' c ON b.t = c.t"),
        id="a query of three",
    ),
])  # fmt: skip
def test_outputs_of_joins_and_changed_outputs(join: Callable[[], ivjoin.JoinStream], folder: Path) -> None:
    before = (folder / G).read_bytes()
    with pytest.raises(FileError, match="would replace the input"):
        join().write_parquet(G)
    assert (folder / G).read_bytes() == before
    assert join().write_parquet("other.parquet") >= 3
