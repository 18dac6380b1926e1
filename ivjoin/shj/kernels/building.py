"""Compile a kernel to an object file with the public interfaces of numba and llvmlite's binding.

numba translates the kernel and every function that it calls. LLVM then optimizes all of it once, as one module.
numba's own optimizer would process the innermost functions some seven times; ``NUMBA_OPT=0`` switches it off.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import llvmlite.binding as llvm
import numba

from ivjoin.shj.kernels.objects import ENTRY, target

__all__ = ["object_of", "part"]

_PREFIX = "cfunc."  # of the name that numba gives to a function that C can call
# numba writes these calls for exceptions and for arrays that own memory. Kernels have neither: they raise nothing and
# get their memory as words. So these are never called, though LLVM cannot always tell.
_OF_EXCEPTIONS = ("numba_", "NRT_MemInfo_call_dtor", "NRT_Free", "Py")
_NEVER = "declare void @llvm.trap()\ndefine void @{}() {{ call void @llvm.trap()\nunreachable }}"
_OF_C = {"malloc", "free", "memset", "memcpy", "memmove", "memcmp", "fmod", "pow", "floor", "ceil"}


def object_of(function: Callable[..., Any], signature: Any) -> bytes:
    """Compile a kernel for this processor, or for the one that numba's settings name.

    The signature has int64 words and contiguous arrays of one or two dimensions; the result is an int64 or nothing. The
    object file's function ``ENTRY`` takes int64 words: an array is its address and its lengths.
    """
    module = llvm.parse_assembly(_entry(function, signature).inspect_llvm())
    for part in module.functions:
        if part.name.startswith(_PREFIX):
            part.name = ENTRY
        elif not part.is_declaration:
            part.linkage = "internal"
    machine = _machine()
    tuning = llvm.create_pipeline_tuning_options(2)
    tuning.loop_vectorization = True
    tuning.slp_vectorization = False  # longer to compile, and slower pushes
    tuning.loop_unrolling = False  # a sixth of the code, and no slower
    passes = llvm.create_pass_builder(machine, tuning)
    passes.getModulePassManager().run(module, passes)
    # LLVM drops paths that are never taken; a kernel that can raise keeps what its exception is made of.
    if any(it.name.startswith(".const.picklebuf") for it in module.global_variables):
        raise RuntimeError(f"{function.__qualname__} may raise an exception; a kernel cannot")
    outside = {it.name for it in module.functions if it.is_declaration and not it.name.startswith("llvm.")}
    for name in sorted(name for name in outside if name.startswith(_OF_EXCEPTIONS)):
        module.link_in(llvm.parse_assembly(_NEVER.format(name)))
        outside.discard(name)
    if outside - _OF_C:
        raise RuntimeError(f"{function.__qualname__} calls {', '.join(sorted(outside - _OF_C))}; a kernel cannot")
    code: bytes = machine.emit_object(module)
    return code


def part(function: Callable[..., Any]) -> Any:
    return numba.njit(no_cpython_wrapper=True, no_cfunc_wrapper=True, error_model="numpy")(function)


def _machine() -> Any:
    config = numba.config
    features = config.CPU_FEATURES
    if features is None and config.CPU_NAME is None:
        features = llvm.get_host_cpu_features().flatten()
        if not config.ENABLE_AVX:
            features += ",-avx"  # with all that needs it
    return target().create_target_machine(
        cpu=config.CPU_NAME or llvm.get_host_cpu_name(), features=features or "", opt=2, reloc="default",
        codemodel="jitdefault", jit=True,
    )  # fmt: skip


def _entry(function: Callable[..., Any], signature: Any) -> Any:
    """Return a C function of words alone that calls the kernel."""
    names, given, kinds = [], [], []
    for i, kind in enumerate(signature.args):
        names.append(f"a{i}")
        if not isinstance(kind, numba.types.Array):
            given.append(f"a{i}")
            kinds.append(kind)
            continue
        lengths = [f"n{i}_{axis}" for axis in range(kind.ndim)]
        given.append(f"carray(a{i}, ({', '.join(lengths)},))")
        names += lengths
        kinds += [numba.types.CPointer(kind.dtype), *[numba.types.int64] * kind.ndim]
    scope = {"kernel": part(function), "carray": numba.carray}
    exec(f"def entry({', '.join(names)}):\n    return kernel({', '.join(given)})", scope)
    return numba.cfunc(signature.return_type(*kinds), error_model="numpy")(scope["entry"])
