"""From a kernel of words to an object file, by numba's front end and one pass of LLVM's optimizer over all of it.

Left alone, numba optimizes and assembles each function with all that it calls, so the innermost of ``push_batch`` some
seven times over, and checks it for what no kernel of words has: arrays, exceptions, closures. Here a function is
lowered to LLVM's language by the passes that it needs, nothing else is done with it by itself, and the optimizer sees
the kernel as a whole, once.
"""

from __future__ import annotations

from typing import Any

import llvmlite.binding as llvm
import numba
from llvmlite import ir
from numba.core import config, typed_passes, types, untyped_passes
from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import Compiler
from numba.core.compiler_lock import global_compiler_lock
from numba.core.compiler_machinery import PassManager, _pass_registry
from numba.core.registry import cpu_target
from numba.np.arrayobj import populate_array

from ivjoin.shj.kernels.front_end import AsItIs, OwnsNothing, Typing, asked_once
from ivjoin.shj.kernels.objects import C_ENTRY, PYTHON_CALLS, PYTHON_ENTRY, NeedsNumba

__all__ = ["object_of", "part"]

_PASSES = (
    untyped_passes.TranslateByteCode, untyped_passes.FixupArgs, untyped_passes.IRProcessing,
    untyped_passes.ReconstructSSA, typed_passes.NopythonTypeInference, typed_passes.PreLowerStripPhis,
    typed_passes.NativeLowering, typed_passes.NoPythonBackend,
)  # fmt: skip
# The third level and the vectorizer of straight lines take longer and make pushes slower.
_LEVEL = 2
# Instructions of a function that is called where it stands: what is called for each row is smaller, and copies of
# larger ones take the optimizer half its time.
_LARGE = 220
_RAISES = "ivjoin_raises"  # called where an exception would be passed on


class _Passes(PassManager):
    """The passes alone, without what numba does between two of them for those that are left out."""

    def run(self, state: Any) -> None:
        for one, _name in self.passes:
            _pass_registry.get(one).pass_inst.run_pass(state)


class _NoEngine:
    """What numba tells an engine when a function has been added, of one that has not."""

    def set_env(self, name: str, environment: Any) -> None:
        """No part asks for its environment: it holds what exceptions are made of."""


class _Part(OwnsNothing, JITCodeLibrary):
    """A function in LLVM's language, with those that it calls beside it."""

    _shared_module: Any

    codegen = property(lambda self: _NoEngine())

    def add_ir_module(self, module: ir.Module) -> None:
        for function in module.functions:
            if sum(len(block.instructions) for block in function.blocks) >= _LARGE:
                function.attributes.add("noinline")
        self._final_module.link_in(llvm.parse_assembly(str(module)))

    def add_linking_library(self, library: Any) -> None:
        # Arrays' memory is all that numba's runtime is for; no word needs it.
        if library is not numba.core.runtime.nrt.rtsys.library:
            self._linking_libraries.append(library)

    def finalize(self) -> None:
        self._finalized = True

    def get_pointer_to_function(self, name: str) -> int:
        return 0

    def _get_module_for_linking(self) -> Any:
        """For a kernel of arrays that calls the function, too: everything, to be merged."""
        if self._shared_module is None:
            module = self.whole()
            for function in module.functions:
                if not function.is_declaration:
                    function.linkage = "linkonce_odr"
            self._shared_module = module
        return self._shared_module

    def whole(self) -> Any:
        """A module of the function and all that it calls."""
        module = llvm.parse_assembly("")
        waiting, seen = [self], set()
        while waiting:
            library: Any = waiting.pop()
            if id(library) in seen:
                continue
            seen.add(id(library))
            if isinstance(library, _Part):
                module.link_in(library._final_module, preserve=True)
                waiting += library._linking_libraries
            else:
                module.link_in(library._get_module_for_linking(), preserve=True)
        return module


class _Lean(Compiler):
    """numba's compiler; while a kernel is made into an object file, for its parts."""

    typing: Typing | None = None  # while that is so; changed under numba's lock

    def __init__(self, typing: Any, target: Any, *rest: Any) -> None:
        if self.typing is not None:
            typing, target = self.typing, AsItIs(target)
        super().__init__(typing, target, *rest)

    def compile_extra(self, function: Any) -> Any:
        if self.typing is not None:
            self.state.targetctx.in_words = True
            self.state.library = _Part(self.state.targetctx.codegen(), function.__qualname__)
        return super().compile_extra(function)

    def define_pipelines(self) -> list[PassManager]:
        if self.typing is None:
            pipelines: list[PassManager] = super().define_pipelines()
            return pipelines
        passes = _Passes("lean")
        for one in _PASSES:
            passes.add_pass(one, one.__name__)
        passes.finalize()
        return [passes]


def part(function: Any, options: dict[str, Any]) -> Any:
    """A function that kernels call, compiled as part of them."""
    return numba.njit(no_cpython_wrapper=True, no_cfunc_wrapper=True, pipeline_class=_Lean, **options)(function)


@global_compiler_lock
def object_of(function: Any, signature: Any, options: dict[str, Any]) -> bytes:
    """The object file of a kernel that takes and returns words, with an entry for C and one for Python."""
    whole = part(function, options)
    _Lean.typing = Typing(cpu_target.typing_context)
    try:
        with asked_once(cpu_target.target_context):
            whole.compile(signature)
    finally:
        _Lean.typing = None
    made = whole.overloads[signature.args]
    module = made.library.whole()
    module.link_in(llvm.parse_assembly(str(_entries(made))))
    module.data_layout = str(made.target_context.codegen().target_data)
    for name in (f.name for f in module.functions if not f.is_declaration and f.name not in (C_ENTRY, PYTHON_ENTRY)):
        module.get_function(name).linkage = "internal"
    machine = made.target_context.codegen()._tm
    tuning = llvm.create_pipeline_tuning_options(min(_LEVEL, int(config.OPT)))
    tuning.loop_vectorization = bool(config.LOOP_VECTORIZE)
    tuning.slp_vectorization = False
    tuning.loop_unrolling = False  # a sixth of the code, and no faster
    builder = llvm.create_pass_builder(machine, tuning)
    builder.getModulePassManager().run(module, builder)
    if missing := _missing(module):
        raise NeedsNumba(f"{function.__qualname__} needs {', '.join(sorted(missing))}")
    # No exception is left to be passed on, so this is never called, though LLVM cannot always tell.
    module.link_in(llvm.parse_assembly(f"define void @{_RAISES}(i8* %e) {{ ret void }}"))
    code: bytes = machine.emit_object(module)
    return code


def _missing(module: Any) -> set[str]:
    """What optimized code still asks for that is neither C's nor Python's."""
    known = {*PYTHON_CALLS, "malloc", "free", _RAISES}
    calls = {it.name for it in module.functions if it.is_declaration and not it.name.startswith("llvm.")} - known
    # What numba raises an exception from: as long as a path leads to where it is raised, it is there.
    return calls | {"an exception" for it in module.global_variables if it.name.startswith(".const.picklebuf")}


def _entries(made: Any) -> ir.Module:
    """``int64 f(int64, ...)`` for C, and for Python the same as a method that takes an array of arguments.

    An array is its address and lengths.
    """
    context, described = made.target_context, made.fndesc
    module = context.create_module("entries")
    word, flag, address = ir.IntType(64), ir.IntType(32), ir.IntType(8).as_pointer()
    result, kinds = described.restype, described.argtypes
    callee = ir.Function(module, context.call_conv.get_function_type(result, kinds), described.llvm_func_name)

    n = sum(1 + getattr(kind, "ndim", 0) for kind in kinds)
    plain = ir.Function(module, ir.FunctionType(word, [word] * n), C_ENTRY)
    builder = ir.IRBuilder(plain.append_basic_block())
    given = iter(plain.args)
    arguments = [_array(context, builder, kind, given) if hasattr(kind, "ndim") else next(given) for kind in kinds]
    status, value = context.call_conv.call_function(builder, callee, result, kinds, arguments)
    with builder.if_then(status.is_error):
        raises = ir.Function(module, ir.FunctionType(ir.VoidType(), [address]), _RAISES)
        builder.call(raises, [builder.bitcast(status.excinfoptr, address)])
    builder.ret(word(0) if result == types.none else value)

    def of_python(name: str, result: Any, *arguments: Any) -> Any:
        return ir.Function(module, ir.FunctionType(result, arguments), name)

    for counts in ("NRT_incref", "NRT_decref"):  # an array that is handed over owns nothing
        nothing = ir.Function(module, ir.FunctionType(ir.VoidType(), [address]), counts)
        ir.IRBuilder(nothing.append_basic_block()).ret_void()

    method = ir.Function(module, ir.FunctionType(address, [address, address.as_pointer(), word]), PYTHON_ENTRY)
    builder = ir.IRBuilder(method.append_basic_block())
    with builder.if_then(builder.icmp_signed("!=", method.args[2], word(n))):
        builder.call(of_python("PyErr_BadArgument", flag), [])
        builder.ret(address(None))
    to_word, failed = of_python("PyLong_AsLongLong", word, address), of_python("PyErr_Occurred", address)
    words = []
    for i in range(n):
        words.append(builder.call(to_word, [builder.load(builder.gep(method.args[1], [word(i)]))]))
        with (
            builder.if_then(builder.icmp_signed("==", words[i], word(-1))),
            builder.if_then(builder.icmp_unsigned("!=", builder.call(failed, []), address(None))),
        ):
            builder.ret(address(None))
    thread = builder.call(of_python("PyEval_SaveThread", address), [])
    value = builder.call(plain, words)
    builder.call(of_python("PyEval_RestoreThread", ir.VoidType(), address), [thread])
    builder.ret(builder.call(of_python("PyLong_FromLongLong", address, word), [value]))
    return module


def _array(context: Any, builder: Any, kind: Any, words: Any) -> Any:
    """An array that owns nothing, in memory that lies as C's do."""
    array = context.make_array(kind)(context, builder)
    address, shape = next(words), [next(words) for _ in range(kind.ndim)]
    size = steps = context.get_constant(types.intp, context.get_abi_sizeof(context.get_data_type(kind.dtype)))
    strides: list[Any] = []
    for length in reversed(shape):
        strides.insert(0, steps)
        steps = builder.mul(steps, length)
    populate_array(array, builder.inttoptr(address, array.data.type), shape, strides, size, None)
    return array._getvalue()
