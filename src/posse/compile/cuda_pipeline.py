"""numba's compiler for GPUs, without what kernels do not need: what `pipeline` does for the CPU.

numba-cuda has copies of its own of numba's parts, so its classes are extended here once more.
"""

from __future__ import annotations

import copy
import functools
from concurrent.futures import ThreadPoolExecutor
from types import CodeType
from typing import Any

from numba.cuda import itanium_mangler
from numba.cuda.codegen import CUDACodeLibrary
from numba.cuda.compiler import CUDACompiler, CUDANativeLowering, compile_extra
from numba.cuda.core.callconv import CUDACallConv
from numba.cuda.core.compiler_machinery import register_pass
from numba.cuda.core.typed_passes import AnnotateTypes, NopythonRewrites
from numba.cuda.core.untyped_passes import InlineClosureLikes, MakeFunctionToJitFunction
from numba.cuda.cudadrv import nvrtc, nvvm
from numba.cuda.lowering import CUDALower

from posse.compile.lowering import RecordCalls, RecordLower
from posse.compile.pipeline import remembering


class EntryCalls(CUDACallConv):
    """How a kernel is called."""

    def mangler(self, name: str, argtypes: Any, *, abi_tags: Any = (), uid: int | None = None) -> Any:
        """A function's name, without the types of its arguments, which take thousands of letters."""
        return itanium_mangler.mangle(name, (), uid=uid)


class CalleeCalls(RecordCalls, EntryCalls):
    """How functions call each other on a GPU."""


class GpuLower(RecordLower, CUDALower):
    """The step to LLVM's form for a GPU."""


@register_pass(mutates_CFG=True, analysis_only=False)
class GpuLowering(CUDANativeLowering):
    """The pass that does this step."""

    _name = "posse_cuda_lowering"

    @property
    def lowering_class(self) -> Any:
        return GpuLower


class KernelLibrary(CUDACodeLibrary):
    """The code of a kernel and of all functions that it reaches."""

    stays_a_call = False  # whether callers call it; otherwise it becomes a part of them

    def get_asm_strs(self, cc: Any = None) -> Any:
        """The kernel and every function that stays a call, compiled side by side; numba makes one piece of it all."""
        cc = self._ensure_cc(cc)
        if cc not in self._ptx_cache:
            options = self._nvvm_options | {"arch": nvrtc.get_arch_option(*cc)}
            text = functools.cache(str)  # several need the same functions
            with ThreadPoolExecutor() as pool:
                parts = [[text(module) for module in part] for part in self.parts()]
                compiled = pool.map(lambda part: nvvm.compile_ir(part, **options), parts)
                self._ptx_cache[cc] = [each.decode().strip("\0").strip() for each in compiled]
        return self._ptx_cache[cc]

    def parts(self) -> list[list[Any]]:
        """The code of the kernel and of every function that stays a call, each with all that becomes a part of it."""
        entries: list[Any] = [self]
        parts = []
        for entry in entries:
            part = [entry]
            if entry is not self:  # numba lets a function go that nobody calls here
                entry.get_function(entry.function_name).linkage = "weak_odr"
            for library in part:
                for called in library._linking_libraries:
                    found = entries if getattr(called, "stays_a_call", False) else part
                    if called not in found:
                        found.append(called)
            parts.append([library._module for library in part])
        return parts

    def _reduce_states(self) -> Any:
        """What is kept on disk: the machine code alone."""
        self._llvm_strs: list[str] = []
        return super()._reduce_states() | {"ptx_cache": {}}


UNUSED = {NopythonRewrites, AnnotateTypes}  # for sums of whole arrays, and for listings
FOR_INNER_FUNCTIONS = {InlineClosureLikes, MakeFunctionToJitFunction}


class GpuEntryCompiler(CUDACompiler):
    """numba's compiler with the passes that kernels need."""

    lowering: Any = CUDANativeLowering

    def define_pipelines(self) -> Any:
        """The passes."""
        self.state.typingctx = self.state.targetctx.typing_context = remembering(self.state.typingctx)
        (passes,) = super().define_pipelines()
        code = self.state.func_id.code
        inner = any(isinstance(constant, CodeType) for constant in code.co_consts)
        unused = UNUSED if inner else UNUSED | FOR_INNER_FUNCTIONS
        kept = [each for each in passes.passes if each[0] not in unused]
        passes.passes = [(self.lowering if each is CUDANativeLowering else each, what) for each, what in kept]
        return [passes]

    def compile_extra(self, func: Any) -> Any:
        result = super().compile_extra(func)
        result.library.__class__ = KernelLibrary
        result.library.stays_a_call = hasattr(func, "out_of_line")
        result.library.function_name = result.fndesc.llvm_func_name
        if result.library.stays_a_call:
            result.library.get_function(result.library.function_name).attributes.add("noinline")
        return result


class GpuCalleeCompiler(GpuEntryCompiler):
    """The same for the functions that a kernel calls."""

    lowering = GpuLowering


@functools.cache
def settled(context: Any) -> Any:
    """One of numba's contexts that no longer looks for new declarations before each function."""
    context.refresh()
    quiet = copy.copy(context)
    quiet.refresh = lambda: None
    return quiet


def compile_kernel(*, return_type: Any, typingctx: Any, targetctx: Any, **options: Any) -> Any:
    """numba's `compile_extra`, for a kernel or for a function that it reaches, whose return type is not given."""
    entry = return_type is not None
    options["pipeline_class"] = GpuEntryCompiler if entry else GpuCalleeCompiler
    options["call_conv"] = EntryCalls(targetctx) if entry else CalleeCalls(targetctx)
    return compile_extra(settled(typingctx), settled(targetctx), return_type=return_type, **options)
