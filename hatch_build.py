"""Compile the kernels when the package is built, so that a first join compiles nothing.

The kernels are for the processor of this machine. With ``IVJOIN_PROCESSORS=x86-64-v3,x86-64-v2`` or ``generic`` (arm64)
they are for these processors, and the wheel is for any machine of the platform, as the package index has it. Without
numba's compiler here, or on another processor, kernels compile at their first call, as an edited kernel does.
"""

from __future__ import annotations

import os
import platform
import subprocess
import sys
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

HOME = "ivjoin/shj/kernels/compiled"  # of object files in an installed package
# Object files need nothing but C's functions, whatever the version of Python or of C's library.
PLATFORMS = {"linux": f"manylinux2014_{platform.machine()}", "darwin": f"macosx_11_0_{platform.machine()}"}


class CompileKernels(BuildHookInterface):
    """Adds object files to a wheel; an editable installation stores them where edited kernels' files are stored."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        chosen = os.environ.get("IVJOIN_PROCESSORS")
        for processor in chosen.split(",") if chosen else [None]:
            key = self._compiled(version, processor)
            if key is None and chosen:
                raise RuntimeError(f"the kernels cannot be compiled for {processor}")
            if key is None:
                self.app.display_warning("the kernels are not compiled; each compiles at its first call")
            elif version != "editable":
                # The folder may still have files of earlier builds.
                for file in self._built.rglob(f"*.{key}.o"):
                    build_data["force_include"][str(file)] = f"{HOME}/{file.name}"
                build_data["pure_python"] = False
                build_data["infer_tag"] = not chosen
        if chosen:
            build_data["tag"] = f"py3-none-{PLATFORMS[sys.platform]}"

    @property
    def _built(self) -> Path:
        return Path(self.root) / "build" / "kernels"

    def _compiled(self, version: str, processor: str | None) -> str | None:
        """Compile all kernels; return the key in the names of their files, or None if that fails."""
        path = [self.root, *filter(None, [os.environ.get("PYTHONPATH")])]  # where pip puts what the build requires
        env = {**os.environ, "PYTHONPATH": os.pathsep.join(path)}
        if version != "editable":
            env["NUMBA_CACHE_DIR"] = str(self._built)
        if processor is not None:
            env["NUMBA_CPU_NAME"] = processor
        command = [sys.executable, "-m", "ivjoin.shj.kernels.everything"]
        done = subprocess.run(command, env=env, check=False, stdout=subprocess.PIPE, text=True)
        return None if done.returncode else done.stdout.strip()
