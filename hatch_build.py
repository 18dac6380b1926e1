"""Compile the kernels when the package is built, for the processor of this machine.

A first join then compiles nothing. Without numba's compiler here, or on another processor than the one that runs the
join, kernels compile at their first call, as an edited kernel does.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

HOME = "ivjoin/shj/kernels/compiled"  # of object files in an installed package


class CompileKernels(BuildHookInterface):
    """Adds object files to a wheel; an editable installation stores them where edited kernels' files are stored."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        root = Path(self.root)
        path = [str(root), *filter(None, [os.environ.get("PYTHONPATH")])]  # where pip puts what the build requires
        env = {**os.environ, "PYTHONPATH": os.pathsep.join(path)}
        built = root / "build" / "kernels"
        if version != "editable":
            env["NUMBA_CACHE_DIR"] = str(built)
        command = [sys.executable, "-m", "ivjoin.shj.kernels.everything"]
        done = subprocess.run(command, env=env, check=False, stdout=subprocess.PIPE, text=True)
        if done.returncode:
            self.app.display_warning("the kernels are not compiled; each compiles at its first call")
        elif version != "editable":
            key = done.stdout.strip()  # of this build; the folder may still have files of earlier ones
            for file in built.rglob(f"*.{key}.o"):
                build_data["force_include"][str(file)] = f"{HOME}/{file.name}"
            build_data["pure_python"] = False
            build_data["infer_tag"] = True
