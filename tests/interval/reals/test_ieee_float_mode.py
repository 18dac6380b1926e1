"""The check at import that doubles round to nearest and that subnormal numbers survive."""

from __future__ import annotations

import platform
import shutil
import subprocess
import sys

import pytest

from ivjoin.interval import check_float_mode

x86 = pytest.mark.skipif(
    platform.machine() not in ("x86_64", "AMD64") or sys.platform != "linux",
    reason="sets the x86 control register through glibc",
)


def import_after(preparation: str) -> str:
    code = f"{preparation}\nimport ivjoin.interval\nprint('imported')"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    return run.stdout + run.stderr


def test_this_process_is_fine():
    check_float_mode()
    assert "imported" in import_after("")


@x86
@pytest.mark.parametrize("mode", [0x400, 0x800, 0xC00], ids=["down", "up", "towards-zero"])
def test_another_rounding_mode_is_refused(mode):
    output = import_after(f"import ctypes, ivjoin.errors; ctypes.CDLL('libm.so.6').fesetround({mode})")
    assert "FloatModeError: floating-point arithmetic does not round to nearest" in output
    assert "fesetround(FE_TONEAREST)" in output
    assert "imported" not in output


@x86
@pytest.mark.skipif(shutil.which("cc") is None, reason="needs a C compiler")
@pytest.mark.parametrize("flag", ["0x8000", "0x0040"], ids=["results-flushed", "operands-read-as-zero"])
def test_flushed_subnormals_are_refused(flag, tmp_path):
    source = tmp_path / "flush.c"
    source.write_text(f"#include <xmmintrin.h>\nvoid flush(void) {{ _mm_setcsr(_mm_getcsr() | {flag}); }}\n")
    library = tmp_path / "flush.so"
    subprocess.run(["cc", "-shared", "-fPIC", "-o", library, source], check=True)
    output = import_after(f"import ctypes, ivjoin.errors; ctypes.CDLL('{library}').flush()")
    assert "FloatModeError: floating-point arithmetic flushes subnormal numbers" in output
    assert "imported" not in output
