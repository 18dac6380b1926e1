"""``session(class_archive=...)``: Java's classes from a file that an earlier session wrote."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyspark", reason="pyspark is not installed")

from ivjoin.errors import OptionError
from ivjoin.spark.archive import archive_options
from ivjoin.spark.environment import session

SESSION = """
import sys
from ivjoin.spark import session
folder, log = sys.argv[1:]
spark = session(
    "local[1]", spark__ui__enabled=False, class_archive=folder,
    spark__driver__extraJavaOptions=f"-Xlog:class+load:file={log} -Dgiven=yes",
)
assert spark._jvm.System.getProperty("given") == "yes"
process = spark.sparkContext._gateway.proc
spark.stop()
process.stdin.close()
assert process.wait(240) == 0
"""


@pytest.mark.spark
def test_a_later_session_has_its_classes_from_the_archive_of_the_first(tmp_path: Path) -> None:
    folder, loaded = tmp_path / "with a space", []
    for i in range(2):
        log = tmp_path / f"{i}.log"
        done = subprocess.run(
            [sys.executable, "-c", SESSION, str(folder), str(log)], capture_output=True, text=True, timeout=500,
            check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr[-2000:]
        assert done.stdout == ""
        ours = [line for line in log.read_text().splitlines() if " org.apache.spark." in line]
        loaded.append(sum("shared objects file (top)" in line for line in ours) / len(ours))
        (archive,) = folder.glob("*.jsa")
    assert loaded[0] == 0
    assert loaded[1] > 0.5  # the others are made as they are needed: lambdas, proxies
    assert archive.stat().st_size > 1 << 20


@pytest.fixture
def installed(tmp_path: Path) -> tuple[str, Path]:
    """A program and jars."""
    java, jars = tmp_path / "jdk" / "bin" / "java", tmp_path / "jars"
    java.parent.mkdir(parents=True)
    jars.mkdir()
    for path in (java, jars / "a.jar", jars / "b.jar"):
        path.write_bytes(b"1")
    return str(java), jars


def archive_of(options: str) -> tuple[str, Path]:
    """What Java is to do with which file."""
    silent, option = shlex.split(options)
    assert silent == "-Xlog:cds*=off"
    name, _, path = option.partition("=")
    return name, Path(path)


def test_an_archive_is_taken_once_it_was_written_to_its_end(installed: tuple[str, Path], tmp_path: Path) -> None:
    folder = tmp_path / 'a "folder"' / "below"
    name, path = archive_of(archive_options(folder, *installed))
    assert (name, path.parent) == ("-XX:ArchiveClassesAtExit", folder)
    path.write_bytes(bytes(4096))
    assert archive_of(archive_options(folder, *installed)) == (name, path)
    path.write_bytes(b"\xa8\xab" + bytes(4096))
    assert archive_of(archive_options(str(folder), *installed)) == ("-XX:SharedArchiveFile", path)


@pytest.mark.parametrize("changed", ["jdk/bin/java", "jdk/release", "jars/a.jar", "jars/c.jar"])
def test_another_java_and_other_jars_have_another_archive(
    installed: tuple[str, Path], tmp_path: Path, changed: str
) -> None:
    before = archive_options(tmp_path, *installed)
    assert archive_options(tmp_path, *installed) == before
    (tmp_path / changed).write_bytes(b"22")
    assert archive_options(tmp_path, *installed) != before


def test_without_jars_known_there_is_an_archive_too(installed: tuple[str, Path], tmp_path: Path) -> None:
    assert archive_of(archive_options(tmp_path, installed[0], None))[0] == "-XX:ArchiveClassesAtExit"


@pytest.mark.parametrize(
    "wrong, said",
    [
        (5, "class_archive is 5"), ("", "path of a folder"), (True, "True"), ("a:b", "without ':'"),
        ("file", "can be made"),
    ],
)
def test_what_is_no_folder_is_refused_before_java_starts(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, wrong: Any, said: str
) -> None:
    from ivjoin.spark import environment

    monkeypatch.chdir(tmp_path)
    (tmp_path / "file").touch()
    monkeypatch.setattr(environment, "check_java", lambda: os.devnull)
    with pytest.raises(OptionError, match=said):
        session(class_archive=wrong)
