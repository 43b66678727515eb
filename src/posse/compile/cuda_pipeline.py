"""numba's compiler for GPUs, without what kernels do not need: what `pipeline` does for the CPU.

numba-cuda has copies of its own of numba's parts, so its classes are extended here once more.
"""

from __future__ import annotations

import contextlib
import copy
import dis
import functools
import hashlib
import multiprocessing
import os
import re
import warnings
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from types import CodeType, SimpleNamespace
from typing import Any, NamedTuple

from cuda.bindings import nvjitlink
from numba.cuda import dispatcher, itanium_mangler, types, typing
from numba.cuda.codegen import CUDACodeLibrary, ExternalCodeLibrary
from numba.cuda.compiler import CUDACompiler, CUDANativeLowering, compile_extra, cuda_compile_result
from numba.cuda.core.callconv import CUDACallConv
from numba.cuda.core.compiler_machinery import register_pass
from numba.cuda.core.funcdesc import ExternalFunctionDescriptor
from numba.cuda.cudadrv import nvrtc, nvvm
from numba.cuda.lowering import CUDALower

from posse.compile.cpu import leave_scipy_alone
from posse.compile.lowering import RecordCalls, RecordLower
from posse.compile.pipeline import UNUSED, UNUSED_BY_POSSE, needed, remembering

MOST_SECONDS = 60  # that a process may take; it needs about two


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

    name: str
    ptx: str
    machine_code: bytes | None  # to be linked; None if it is still to be assembled


class UnitOptions(NamedTuple):
    """What units are made with: options of NVVM and of the assembler."""

    nvvm: dict[str, Any]
    assembler: list[str]

    @classmethod
    def of(cls, flags: Any) -> UnitOptions:
        """Those of a kernel's flags."""
        cc = *flags.compute_capability, "a" if flags.compute_capability >= (9, 0) else ""
        registers = f"-maxrregcount={flags.max_registers}"
        assembler = [f"-arch=sm_{''.join(map(str, cc))}", registers, "-r"]
        return cls(flags.nvvm_options | {"arch": nvrtc.get_arch_option(*cc)}, assembler)

    def make(self, name: str, part: list[str]) -> KernelUnit:
        """Compile and assemble a unit, without numba's places for Python objects, which nobody uses here."""
        ptx = nvvm.compile_ir(part, **self.nvvm).decode().strip("\0").strip()
        ptx = re.sub(r"^\.common .*NumbaEnv.*\n", "", ptx, flags=re.MULTILINE)
        return KernelUnit(name, ptx, assemble(ptx, self.assembler))


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


class UnitProcess(ExternalCodeLibrary):
    """A function that stays a call, which a process of its own compiles with all that it reaches.

    numba's steps are Python in one thread. They take half of the time, so other functions are compiled meanwhile. The
    process is a copy of this one, made by a fork, and it calls the compiler only, never the GPU.
    """

    def __init__(self, codegen: Any, name: str, make: Callable[[], list[KernelUnit]], cc: tuple[int, int]) -> None:
        super().__init__(codegen, name)
        self.make = make

        def answer() -> None:
            """Send the units, without asking the GPU what it is: a copy of a process has none."""
            dispatcher.get_current_device = lambda: SimpleNamespace(compute_capability=cc)
            with contextlib.suppress(Exception):  # whoever waits for the units meets the error again
                result.send(make())

        context = multiprocessing.get_context("fork")
        self.result, result = context.Pipe(duplex=False)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # Python's, of forks where there are threads
            self.process = context.Process(target=answer, daemon=True)
            self.process.start()
        result.close()

    @functools.cached_property
    def units(self) -> list[KernelUnit]:
        """What the process has made. If it failed or hangs, make it here, which raises the error if there is one."""
        try:
            units = self.result.recv() if self.result.poll(MOST_SECONDS) else None
        except EOFError:
            units = None
        self.process.kill()
        self.process.join()
        return self.make() if units is None else units


class KernelLibrary(CUDACodeLibrary):
    """The code of a kernel, or of a function that it reaches."""

    stays_a_call = False  # whether callers call it; otherwise it becomes a part of them
    units: list[KernelUnit]
    made_with: UnitOptions

    def get_asm_strs(self, cc: Any = None) -> Any:
        """The kernel and every function that stays a call, as units that are made side by side.

        numba makes one piece of it all. Units that threads made while numba still lowers other functions would hold it
        up for longer than they take.
        """
        cc = self._ensure_cc(cc)
        if cc not in self._ptx_cache:
            self.units = self.make_units()
            self._ptx_cache[cc] = [unit.ptx for unit in self.units]
        return self._ptx_cache[cc]

    def make_units(self) -> list[KernelUnit]:
        """This one, and every function that stays a call, each with all that becomes a part of it."""
        text = functools.cache(str)  # several need the same functions
        entries: list[KernelLibrary] = [self]
        elsewhere: list[UnitProcess] = []
        parts = []
        for entry in entries:
            part = [entry]
            if entry.stays_a_call:  # numba lets a function go that nobody calls here
                entry.get_function(entry.function_name).linkage = "weak_odr"
            for library in part:
                for called in library._linking_libraries:
                    stays = getattr(called, "stays_a_call", False)
                    found = elsewhere if isinstance(called, UnitProcess) else entries if stays else part
                    if called not in found:
                        found.append(called)
            parts.append(part)
        with ThreadPoolExecutor() as pool:
            texts = [[text(library._module) for library in part] for part in parts]
            made = pool.map(self.made_with.make, [entry.function_name for entry in entries], texts)
            units = [*made, *(unit for process in elsewhere for unit in process.units)]
        return list({unit.name: unit for unit in units}.values())  # two processes may have made the same one

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

    made_with: UnitOptions  # of the kernel that is being compiled
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
        library.made_with = self.made_with
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


def returns_nothing(code: CodeType) -> bool:
    """Whether a function has no value, so that its type is known before it is compiled."""
    steps = list(dis.get_instructions(code))
    ends = [place for place, step in enumerate(steps) if step.opname == "RETURN_VALUE"]
    constants = [step.argval for step in steps if step.opname == "RETURN_CONST"]
    constants += [steps[place - 1].argval if steps[place - 1].opname == "LOAD_CONST" else ... for place in ends]
    return set(constants) == {None}


def compile_kernel(*, return_type: Any, typingctx: Any, targetctx: Any, **options: Any) -> Any:
    """numba's `compile_extra`, for a kernel or for a function that it reaches, whose return type is not given."""
    typingctx, targetctx = settled(typingctx), settled(targetctx)
    entry, func, args = return_type is not None, options["func"], options["args"]
    options["pipeline_class"] = GpuEntryCompiler if entry else GpuCalleeCompiler
    options["call_conv"] = EntryCalls(targetctx) if entry else CalleeCalls(targetctx)
    if entry:
        GpuEntryCompiler.made_with = UnitOptions.of(options["flags"])
    stays_a_call = hasattr(func, "out_of_line")
    if stays_a_call:  # the same name in every process
        arguments = hashlib.sha256(str(args).encode()).hexdigest()[:16]
        name = itanium_mangler.mangle(f"{func.__qualname__}_{arguments}", ())
        options["abi_info"] = {"abi_name": name}
    compile_here = functools.partial(compile_extra, typingctx, targetctx, return_type=return_type, **options)
    forks = hasattr(os, "fork") and multiprocessing.parent_process() is None  # processes have no processes in turn
    if not (stays_a_call and forks and returns_nothing(func.__code__)):
        return compile_here()

    def make() -> list[KernelUnit]:
        library = compile_here().library
        library.finalize()
        return library.make_units()

    return cuda_compile_result(
        entry_point=list[Any]().append,  # numba finds functions by it; this one is never called
        signature=typing.signature(types.none, *args),
        fndesc=ExternalFunctionDescriptor(name, types.none, args, options["call_conv"]),
        library=UnitProcess(targetctx.codegen(), name, make, options["flags"].compute_capability),
        target_context=targetctx,
    )
