"""Separate executors (``local-cluster``), the package as a zip and as an archive, no home, no cache to write to."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import pytest
from places import ROOT
from spark.backends import BACKENDS, PROVIDER, ROCKSDB, has_protobuf

import ivjoin
from ivjoin.shj.kernels import compiling, everything, objects

pyspark = pytest.importorskip("pyspark", reason="pyspark is not installed")

pytestmark = [pytest.mark.spark, pytest.mark.slow]

PACKAGE = Path(ivjoin.__file__).parent
DRIVER = ROOT / "tests" / "support" / "spark" / "on_a_cluster.py"


def kernels_at(folder: Path) -> set[str]:
    """Copy all object files there, as an earlier application would have left them."""
    folder.mkdir(parents=True)
    key = objects.key(compiling._STAMP)
    for name in (compiling._name(f) for module in everything.modules() for f, _ in compiling.kernels_of(module)):
        places = (objects._file(place, name, key) for place in (objects._INSTALLED, *objects._folders()))
        shutil.copy(next(path for path in places if path.exists()), folder)
    return {path.name for path in folder.iterdir()}


def home_of_spark(folder: Path) -> Path:
    """Return Spark's home with links to what is installed: its workers write into the folder ``work`` of it."""
    folder.mkdir()
    for path in Path(pyspark.__file__).parent.iterdir():
        if path.name != "work":
            (folder / path.name).symlink_to(path)
    return folder


@pytest.mark.parametrize("shipped", ["--py-files", pytest.param("--archives", marks=pytest.mark.soak)])
def test_joins_on_separate_executors(tmp_path: Path, shipped: str) -> None:
    archive = tmp_path / "ivjoin.zip"
    with zipfile.ZipFile(archive, "w") as opened:
        for path in sorted(PACKAGE.rglob("*.py")):
            opened.write(path, path.relative_to(PACKAGE.parent))
    cache = tmp_path / "tmp" / f"ivjoin-{os.getuid()}"
    stored = kernels_at(cache / "ivjoin")
    cache.chmod(0o700)
    environment = {k: v for k, v in os.environ.items() if k not in ("NUMBA_CACHE_DIR", "XDG_CACHE_HOME", "PYTHONPATH")}
    environment |= {
        "HOME": "/dev/null", "TMPDIR": str(cache.parent), "PYSPARK_PYTHON": sys.executable,
        "PYSPARK_DRIVER_PYTHON": sys.executable,
    }  # fmt: skip
    settings = {
        "spark.ui.enabled": "false", "spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.memory": "512m", "spark.sql.shuffle.partitions": "2", PROVIDER: ROCKSDB,
    }  # fmt: skip
    backends = [BACKENDS[shipped == "--archives" and has_protobuf()]]
    given = str(archive)
    if shipped == "--archives":  # unpacked by each executor; the driver imports the package from its own environment
        given += "#packages"
        settings["spark.executorEnv.PYTHONPATH"] = "packages"
        environment["PYTHONPATH"] = str(PACKAGE.parent)
    environment["SPARK_HOME"] = str(home_of_spark(tmp_path / "spark"))
    command = [
        f"{environment['SPARK_HOME']}/bin/spark-submit", "--master", "local-cluster[2,1,1024]",
        *(f"--conf={k}={v}" for k, v in settings.items()), shipped, given, str(DRIVER), str(tmp_path / "data"),
        *backends,
    ]  # fmt: skip
    done = subprocess.run(
        command, env=environment, cwd=tmp_path, capture_output=True, text=True, timeout=900, check=False
    )
    told: dict[str, Any] = dict(json.loads(line) for line in done.stdout.splitlines() if line.startswith("["))
    assert done.returncode == 0, done.stderr[-3000:]
    driver, executors, count = told.pop("where")
    assert count == 2
    if shipped == "--py-files":
        assert ".zip" in driver
        assert all(".zip" in file for file in executors)
    else:
        assert all("packages" in file for file in executors)
        assert not {str(PACKAGE / "__init__.py")} & set(executors)
    assert told == {"static": [True, 240], **{b: [True, True] for b in backends}}
    if shipped == "--py-files":
        assert {path.name for path in (cache / "ivjoin").iterdir()} == stored, "no kernel was compiled again"
