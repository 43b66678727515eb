"""numba's compiler for GPUs, without what kernels do not need: what `pipeline` does for the CPU.

numba-cuda has copies of its own of numba's parts, so its classes are extended here once more.
"""

from __future__ import annotations

import copy
import functools
import re
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

from cuda.bindings import nvjitlink
from numba.cuda import itanium_mangler
from numba.cuda.codegen import CUDACodeLibrary
from numba.cuda.compiler import CUDACompiler, CUDANativeLowering, compile_extra
from numba.cuda.core.callconv import CUDACallConv
from numba.cuda.core.compiler_machinery import register_pass
from numba.cuda.cudadrv import nvrtc, nvvm
from numba.cuda.lowering import CUDALower

from posse.compile.cpu import leave_scipy_alone
from posse.compile.lowering import RecordCalls, RecordLower
from posse.compile.pipeline import UNUSED, UNUSED_BY_POSSE, needed, remembering


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


class KernelUnit(NamedTuple):
    """A kernel, or a function that stays a call, with all that becomes a part of it."""

    ptx: str
    machine_code: bytes | None  # to be linked; None if it is still to be assembled


def make_unit(part: list[str], options: dict[str, Any], assembler_options: list[str]) -> KernelUnit:
    """Compile and assemble a unit, without numba's places for Python objects, which nobody uses here."""
    ptx = nvvm.compile_ir(part, **options).decode().strip("\0").strip()
    ptx = re.sub(r"^\.common .*NumbaEnv.*\n", "", ptx, flags=re.MULTILINE)
    return KernelUnit(ptx, assemble(ptx, assembler_options))


def assemble(ptx: str, options: list[str]) -> bytes | None:
    """Machine code that can be linked with others; None where the toolkit is too old to make it."""
    try:
        handle = nvjitlink.create(len(options), options)
    except Exception:  # it has no nvJitLink, or one that does not know of such code
        return None
    try:
        text = ptx.encode()
        nvjitlink.add_data(handle, nvjitlink.InputType.PTX, text, len(text), "")
        nvjitlink.complete(handle)
        code = bytearray(nvjitlink.get_linked_cubin_size(handle))
        nvjitlink.get_linked_cubin(handle, code)
        return bytes(code)
    finally:
        nvjitlink.destroy(handle)


class KernelLibrary(CUDACodeLibrary):
    """The code of a kernel and of all functions that it reaches."""

    stays_a_call = False  # whether callers call it; otherwise it becomes a part of them
    units: list[KernelUnit]

    def get_asm_strs(self, cc: Any = None) -> Any:
        """The kernel and every function that stays a call, as units that are made side by side.

        numba makes one piece of it all. Units that were made while numba still lowers other functions would hold it up
        for longer than they take.
        """
        cc = self._ensure_cc(cc)
        if cc not in self._ptx_cache:
            options = self._nvvm_options | {"arch": nvrtc.get_arch_option(*cc)}
            assembler_options = [f"-arch=sm_{''.join(map(str, cc))}", f"-maxrregcount={self._max_registers}", "-r"]
            text = functools.cache(str)  # several need the same functions
            with ThreadPoolExecutor() as pool:
                parts = [[text(module) for module in part] for part in self.parts()]
                self.units = list(pool.map(lambda part: make_unit(part, options, assembler_options), parts))
            self._ptx_cache[cc] = [unit.ptx for unit in self.units]
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

    def _link_all(self, linker: Any, cc: Any, ignore_nonlto: bool = False) -> None:
        """Link what is assembled already."""
        self.get_asm_strs(cc)
        for unit in self.units:
            if unit.machine_code is None:
                linker.add_ptx(unit.ptx.encode())
            else:
                linker.add_cubin(unit.machine_code)
        for path in self._linking_files:
            linker.add_file_guess_ext(path, ignore_nonlto)

    def _reduce_states(self) -> Any:
        """What is kept on disk: the machine code alone."""
        self._llvm_strs: list[str] = []
        return super()._reduce_states() | {"ptx_cache": {}}


class GpuEntryCompiler(CUDACompiler):
    """numba's compiler with the passes that kernels need."""

    lowering: Any = CUDANativeLowering
    unused = (UNUSED | UNUSED_BY_POSSE) - {"IRLegalization"}

    def define_pipelines(self) -> Any:
        """The passes."""
        self.state.typingctx = self.state.targetctx.typing_context = remembering(self.state.typingctx)
        (passes,) = super().define_pipelines()
        kept = needed(passes.passes, self.state.func_id.code, self.unused)
        passes.passes = [(self.lowering if each is CUDANativeLowering else each, what) for each, what in kept]
        return [passes]

    def compile_extra(self, func: Any) -> Any:
        result = super().compile_extra(func)
        library = result.library
        library.__class__ = KernelLibrary
        library.stays_a_call = hasattr(func, "out_of_line")
        library.function_name = result.fndesc.llvm_func_name
        if library.stays_a_call:
            library.get_function(library.function_name).attributes.add("noinline")
        return result


class GpuCalleeCompiler(GpuEntryCompiler):
    """The same for the functions that a kernel calls."""

    lowering = GpuLowering
    unused = UNUSED | UNUSED_BY_POSSE


@functools.cache
def settled(context: Any) -> Any:
    """One of numba's contexts that no longer looks for new declarations before each function."""
    leave_scipy_alone("numba.cuda.np")
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
