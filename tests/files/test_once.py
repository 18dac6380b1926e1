"""Folders in which a file is written once: mounted ones, those that rename, and a bucket of an object store."""

from __future__ import annotations

import sys
from pathlib import Path
from threading import Barrier, Lock, Thread
from typing import Any

import pytest
from object_store import ObjectStore
from pyarrow import fs

pytest.importorskip("s3fs", reason="s3fs is not installed (pip install 'ivjoin[s3]')")
pytest.importorskip("moto", reason="moto is not installed")

from ivjoin.errors import MissingPackageError
from ivjoin.files import once
from ivjoin.files.atomic import FileError
from ivjoin.files.once import OnceFolder, once_folder, try_once

KINDS = ["mounted", "renamed", "put"]
BUCKET = "s3://plans"


class Renaming:
    """An Arrow file system whose rename fails where the name exists (as on HDFS), or does not."""

    _one = Lock()  # a name node renames one after the other: it looks and renames in one step

    def __init__(self, folder: Path, refuses: bool = True) -> None:
        self._inside, self._refuses = fs.SubTreeFileSystem(str(folder), fs.LocalFileSystem()), refuses

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inside, name)

    def move(self, source: str, target: str) -> None:
        with self._one:
            if self._refuses and self.get_file_info(target).type is not fs.FileType.NotFound:
                raise OSError("the name is taken")
            self._inside.move(source, target)


@pytest.fixture(params=KINDS)
def place(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Where a new folder may be made."""
    if request.param == "put":
        request.getfixturevalue("store")
        return f"{BUCKET}/a folder/below"
    if request.param == "mounted":
        return str(tmp_path / "a" / "b")
    monkeypatch.setattr(once, "system_of", lambda text: (Renaming(tmp_path), text.removeprefix("hdfs://")))
    return "hdfs://a/b"


def made(place: str) -> OnceFolder:
    try_once("routing_dir", place)
    return once_folder("routing_dir", place)


@pytest.mark.one_in(5)
def test_a_file_is_written_once(place: str) -> None:
    folder = made(place)
    assert folder.names() == [], "what was tried there is gone"
    assert folder.create("a", b"first")
    assert not folder.create("a", b"second")
    assert once_folder("routing_dir", place).create("b", b"")
    assert sorted(folder.names()) == ["a", "b"], "nothing half-written, and what another one wrote"
    assert folder.read("a") == b"first"
    assert folder.read("b") == b""
    with pytest.raises(FileNotFoundError):
        folder.read("c")
    folder.delete("a")
    assert folder.names() == ["b"]
    try_once("routing_dir", place)
    assert folder.names() == ["b"]


@pytest.mark.one_in(7)
def test_one_of_several_concurrent_writers_wins(place: str) -> None:
    """The files are larger than what a file system writes at once."""
    made(place)
    folders = [once_folder("routing_dir", place) for _ in range(4)]
    gate, won = Barrier(4), []

    def write(i: int) -> None:
        for n in range(12):
            gate.wait(60)
            if folders[i].create(f"{n}", b"%d" % i * 100_000):
                won.append((n, i))

    threads = [Thread(target=write, args=(i,)) for i in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert sorted(n for n, _ in won) == list(range(12))
    for n, i in won:
        assert folders[0].read(f"{n}") == b"%d" % i * 100_000
    assert len(folders[1].names()) == 12, "what the others had written is gone"


def test_a_rename_that_overwrites_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(once, "system_of", lambda text: (Renaming(tmp_path, False), text.removeprefix("hdfs://")))
    said = r"'hdfs://a/b', which let two writers of one file succeed despite the condition;"
    with pytest.raises(FileError, match=said):
        try_once("routing_dir", "hdfs://a/b")
    assert not list((tmp_path / "a" / "b").iterdir())


@pytest.mark.slow
def test_a_store_that_forgets_conditions_is_refused(store: ObjectStore) -> None:
    store.forgets = True
    said = r"let two writers of one file succeed despite the condition \(If-None-Match: \*\)"
    with pytest.raises(FileError, match=said):
        try_once("routing_dir", f"{BUCKET}/x")
    assert store.held() == []
    store.forgets = False
    try_once("routing_dir", f"{BUCKET}/x")


def test_every_put_has_its_condition(store: ObjectStore) -> None:
    store.puts.clear()
    made(f"{BUCKET}/x").create("a", b"first")
    assert len(store.puts) == 3
    assert {condition for _, condition in store.puts} == {"*"}
    assert {name.rpartition("/")[0] for name, _ in store.puts} == {"/plans/x"}


@pytest.mark.slow
def test_an_answer_that_is_lost_and_a_put_under_way(store: ObjectStore, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = made(f"{BUCKET}/x")
    store.lost = 1
    folder.create("a", b"first")
    assert store.lost == 0
    assert folder.read("a") == b"first"
    store.busy = 2
    assert folder.create("b", b"first")
    assert store.busy == 0
    monkeypatch.setattr(once, "_WAITS", (0.0,))
    store.busy = 2
    with pytest.raises(OSError, match="ConditionalRequestConflict"):
        folder.create("c", b"first")
    assert sorted(folder.names()) == ["a", "b"]


@pytest.mark.one_in(3)
@pytest.mark.parametrize("methods, doing", [
    ({"PUT"}, "written"), ({"GET", "HEAD"}, "listed"), ({"DELETE", "POST"}, "cleared"), ({"PUT", "GET"}, "written"),
])  # fmt: skip
def test_invalid_calls_are_refused_first(store: ObjectStore, methods: set[str], doing: str) -> None:
    store.refused = methods
    said = rf"which cannot be {doing} \(.*(Denied|Forbidden).*\); expected a bucket that is"
    with pytest.raises(FileError, match=said):
        try_once("routing_dir", f"{BUCKET}/x")
    assert not [name for name in store.held() if not name.rpartition("/")[2].startswith(".")]
    assert bool(store.held()) is ("PUT" not in methods), "nothing but what could not be deleted"


@pytest.mark.slow
def test_no_bucket_and_no_credentials(store: ObjectStore, monkeypatch: pytest.MonkeyPatch) -> None:
    said = r"which cannot be written \(there is no such bucket\); expected a bucket that is"
    with pytest.raises(FileError, match=said):
        try_once("routing_dir", "s3://another/x")
    folder = once_folder("routing_dir", f"{BUCKET}/x")
    assert folder.names() == []
    import s3fs

    s3fs.S3FileSystem.clear_instance_cache()
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    said = r"which cannot be written \(Unable to locate credentials\); expected .* and cred"
    with pytest.raises(FileError, match=said):
        try_once("routing_dir", f"{BUCKET}/x")
    with pytest.raises(OSError, match="Unable to locate credentials"):
        once_folder("routing_dir", f"{BUCKET}/x").names()


@pytest.mark.parametrize("text, said", [
    (
        "sftp://host/x",
        "where two writers of one file might both succeed; expected a folder that is mounted, or one on hd",
    ),
    ("memory://x", "where two writers"), ("https://host/x", "where two writers"), ("nowhere://x", "where two writers"),
    ("s3://", "which names no bucket; expected one, as s3://bucket/folder"),
    ("s3://plans/x?endpoint_override=y", "only a bucket and a folder, without . and #: set other options of s3fs"),
    ("gs://plans/x#1", "expected only a bucket and a folder"),
])  # fmt: skip
def test_places_without_atomic_writes(text: str, said: str) -> None:
    with pytest.raises(FileError, match=rf"^routing_dir is '{text[:6]}.*{said}"):
        try_once("routing_dir", text)


@pytest.mark.parametrize("text, package, extra", [
    ("s3://plans/x", "s3fs", "s3"), ("s3a://plans/x", "s3fs", "s3"), ("gs://plans/x", "gcsfs", "gcs"),
    ("abfs://plans@account/x", "adlfs", "azure"),
])  # fmt: skip
def test_a_missing_package_is_named(text: str, package: str, extra: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "fsspec.core", None)
    said = rf"for which this Python lacks the package {package} \(.*\): pip install 'ivjoin\[{extra}\]', where the "
    said += "worke"
    with pytest.raises(MissingPackageError, match=said):
        once_folder("routing_dir", text)


def test_a_mounted_folder_without_links(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def link(source: str, target: str) -> None:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(once.os, "link", link)
    with pytest.raises(FileError, match=r"which cannot be written \(Operation not permitted\)"):
        try_once("routing_dir", str(tmp_path))
    assert not list(tmp_path.iterdir())
