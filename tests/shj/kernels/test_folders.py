"""Where object files of kernels are stored: for a package in an archive, without a home, without a writable folder."""

from __future__ import annotations

import os
import tempfile
import zipfile
from pathlib import Path

import pytest

import ivjoin.shj
from ivjoin.shj.kernels import compiling, objects

ROOM = Path(ivjoin.shj.__file__).parent


@pytest.fixture
def nowhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine without NUMBA_CACHE_DIR and a home, where the package cannot be written to."""
    for name in ("NUMBA_CACHE_DIR", "XDG_CACHE_HOME", "HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.delitem(objects.sys.modules, "numba", raising=False)
    monkeypatch.setattr(os.path, "expanduser", lambda path: path)  # an account without an entry
    monkeypatch.setattr(objects, "__file__", "/dev/null/objects.py")
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path / f"ivjoin-{os.getuid()}"


def test_the_stamp_of_an_archive_is_that_of_its_files(tmp_path: Path) -> None:
    archive = tmp_path / "ivjoin.zip"
    with zipfile.ZipFile(archive, "w") as opened:
        for name, content in objects.sources(ROOM).items():
            opened.writestr(f"ivjoin/shj/{name}", content)
        opened.writestr("ivjoin/other.py", b"")
    inside = archive / "ivjoin" / "shj"
    assert "kernels/push/push_kernels.py" in objects.sources(inside)
    assert compiling._digest(inside) == compiling._STAMP
    with zipfile.ZipFile(archive, "a") as opened:
        opened.writestr("ivjoin/shj/kernels/new.py", b"x = 1")
    assert compiling._digest(inside) != compiling._STAMP
    assert objects.sources(tmp_path / "none") == {}


@pytest.mark.parametrize("path", ["/spark-1/ivjoin.zip/ivjoin/shj/kernels/objects.py", __file__])
def test_installations_share_a_folder_whatever_their_path_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, path: str
) -> None:
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path))
    monkeypatch.delitem(objects.sys.modules, "numba", raising=False)
    monkeypatch.setattr(objects, "__file__", path)
    assert objects._folders() == [tmp_path / "ivjoin"]


def test_without_a_home_object_files_go_to_a_private_temporary_folder(nowhere: Path) -> None:
    assert objects._folders() == [Path("/dev/null/__pycache__"), nowhere / "ivjoin"]
    assert nowhere.stat().st_mode & 0o777 == 0o700
    assert objects.keep("kernel", "0" * 64, b"code")
    assert objects.find("kernel", "0" * 64) == b"code"


@pytest.mark.parametrize("what", ["others may write", "a link", "another user's"])
def test_temporary_folder_that_others_can_change_is_not_used(
    nowhere: Path, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    if what == "a link":
        (nowhere.parent / "real").mkdir()
        nowhere.symlink_to(nowhere.parent / "real")
    elif what == "others may write":
        nowhere.mkdir()
        nowhere.chmod(0o777)
    else:
        nowhere.mkdir(mode=0o700)
        owner = os.getuid() + 1
        nowhere = nowhere.rename(nowhere.parent / f"ivjoin-{owner}")
        monkeypatch.setattr(os, "getuid", lambda: owner)
    assert objects._folders() == [Path("/dev/null/__pycache__")]
    assert not objects.keep("kernel", "0" * 64, b"code")
