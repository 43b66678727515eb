"""numba's compiler, without what kernels do not need.

A kernel is one piece of code: every function that it reaches is put into it as numba's frontend made it, and then all
of it is optimized at once, and made into machine code. numba by itself does both for every function at every level of
calls.
"""

from __future__ import annotations

import contextlib
import copy
import functools
import gc
from collections.abc import Callable, Iterator
from types import CodeType
from typing import Any

from numba.core import compiler, event, sigutils, typing
from numba.core.codegen import JITCodeLibrary
from numba.core.postproc import PostProcessor, VariableLifetime
from numba.core.transforms import canonicalize_cfg
from numba.core.typed_passes import NativeLowering
from numba.core.types.functions import BaseFunction

from posse.compile.cpu_lowering import DIRECT, KernelContext, KernelLowering, direct_type
from posse.compile.lowering import types


class CalleeLibrary(JITCodeLibrary):
    """The code of a function that only other compiled functions call, as the frontend made it."""

    _shared_module: Any
    may_raise = False  # set by `KernelCalls` where the function returns an error

    def _optimize_functions(self, ll_module: Any) -> None:
        """Leave it as it is, but say how data lies in memory."""
        ll_module.data_layout = self._codegen._data_layout

    def finalize(self) -> None:
        """Neither link nor optimize it, and make no machine code."""
        self._finalized = True

    def own_module(self) -> Any:
        """Its code, without what it calls, in a form that may come several times."""
        if self._shared_module is None:
            for function in self._final_module.functions:
                if not function.is_declaration and function.linkage.name == "external":
                    function.linkage = "linkonce_odr"
            self._shared_module = self._final_module
        return self._shared_module


class EntryLibrary(JITCodeLibrary):
    """The code of a kernel that Python calls."""

    _linking_libraries: list[Any]

    def _optimize_functions(self, ll_module: Any) -> None:
        ll_module.data_layout = self._codegen._data_layout

    def finalize(self) -> None:
        """Link all functions that it reaches, each once; then optimize, and make machine code."""
        found: dict[Any, None] = dict.fromkeys(self._linking_libraries)
        todo = list(found)
        for library in todo:
            if isinstance(library, CalleeLibrary):
                todo += [each for each in library._linking_libraries if each not in found]
                found.update(dict.fromkeys(library._linking_libraries))
                if hasattr(self, "_reload_init"):  # not in older versions
                    self._reload_init.update(library._reload_init)
                self._final_module.link_in(library.own_module(), preserve=True)
        self._linking_libraries = [library for library in found if not isinstance(library, CalleeLibrary)]
        super().finalize()

    def _optimize_final_module(self) -> None:
        """Optimize once. numba does so twice, to drop reference counts in between; there are none."""
        manager = getattr(self._codegen, "_mpm_full", None)  # of older versions
        if manager is not None:
            manager.run(self._final_module)
        else:
            manager, builder = self._codegen._module_pass_manager()
            manager.run(self._final_module, builder)


def remember_types(find: Callable[..., Any]) -> Callable[..., Any]:
    """numba's way to find the types of a call of one of its functions, with a memory for kernels.

    It replaces numba's own in the whole process. Code that is not posse's takes the way it took before.
    """

    def get_call_type(function: Any, context: Any, args: Any, kws: Any) -> Any:
        known = getattr(context, "known", None)
        if kws or known is None or not all(each.is_precise() for each in args):
            return find(function, context, args, kws)
        found = known.get((function, args))
        if found is None:
            found = find_in_tables(function, context, args) or find(function, context, args, kws)
            # What numba wrote in Python depends on the options of its caller, and so is looked up each time.
            if function.get_impl_key(found) == function.typing_key:
                known[function, args] = found
        return found

    return get_call_type


def find_in_tables(function: Any, context: Any, args: Any) -> Any:
    """The types of a call with numbers, if a table has them. numba would make all of its templates to try each.

    In lowering, numba finds the code of a call by the template that its types came from; so that is noted too.
    """
    plain = tuple(map(types.unliteral, args))
    if context.direct and function.typing_key in DIRECT:
        kind = direct_type(context, function.typing_key, plain)
        if kind is not None:
            function._impl_keys[plain] = function.typing_key
            return typing.signature(kind, *plain)
    all_literal = all(isinstance(each, types.Literal) for each in args)
    if all(isinstance(each, types.Number) for each in args) and not all_literal:
        for template in function.templates:
            if hasattr(template, "cases"):
                found = template(context).apply(plain, {})
                if found is not None:
                    function._impl_keys[found.args] = template.key
                    return found
    return None


BaseFunction.get_call_type = remember_types(BaseFunction.get_call_type)  # type: ignore[method-assign]


def shorten(run: Callable[..., None]) -> Callable[..., None]:
    """numba's step after every change of a function, without what only generators and Python objects need.

    It replaces numba's own too. Functions that are not posse's take all of it.
    """

    def run_(step: Any, emit_dels: bool = False, extend_lifetimes: bool = False) -> None:
        function = step.func_ir
        if emit_dels or function.is_generator or not function.func_id.modname.startswith("posse."):
            return run(step, emit_dels, extend_lifetimes)
        function.blocks = canonicalize_cfg(function.blocks)
        function.variable_lifetime = VariableLifetime(function.blocks)
        function.generator_info = None

    return run_


PostProcessor.run = shorten(PostProcessor.run)


@functools.cache
def remembering(context: Any, direct: bool = False) -> Any:
    """What numba knows of types, with what it has found out: each sum would look through dozens of ways to add.

    With `direct`, some calls become instructions: see `direct_type`.
    """
    remembers = copy.copy(context)
    remembers.known, remembers.direct = {}, direct
    return remembers


# Names of passes. The CPU and GPUs have classes of their own for them.
UNUSED = {"NopythonRewrites", "AnnotateTypes"}  # for sums of whole arrays, and for listings
UNUSED_BY_POSSE = {  # posse's own functions have none of what these are for
    *("InlineInlinables", "InlineOverloads", "WithLifting", "RewriteDynamicRaises"),
    *("FindLiterallyCalls", "LiteralPropagationSubPipelinePass", "LiteralUnroll"),
    "IRLegalization",  # it marks where variables end, at which nothing is done
}
FOR_INNER_FUNCTIONS = {"InlineClosureLikes", "MakeFunctionToJitFunction"}


def needed(passes: list[Any], code: CodeType, unused: set[str]) -> list[Any]:
    """The passes that a function needs."""
    if not any(isinstance(constant, CodeType) for constant in code.co_consts):
        unused = unused | FOR_INNER_FUNCTIONS
    return [each for each in passes if each[0].__name__ not in unused]


class KernelCompiler(compiler.Compiler):
    """numba's compiler with the passes that kernels need."""

    def define_pipelines(self) -> Any:
        """The passes."""
        self.state.targetctx.__class__ = KernelContext
        self.state.typingctx = self.state.targetctx.typing_context = remembering(self.state.typingctx, direct=True)
        (passes,) = super().define_pipelines()
        function = self.state.func_id
        unused = UNUSED | UNUSED_BY_POSSE if function.modname.startswith("posse.") else UNUSED
        kept = needed(passes.passes, function.code, unused)
        passes.passes = [(KernelLowering if each is NativeLowering else each, what) for each, what in kept]
        self.state.type_annotation = None
        return [passes]


class CalleeCompiler(KernelCompiler):
    """numba's compiler, up to the code that callers take in."""

    def compile_extra(self, func: Callable[..., Any]) -> Any:
        """Compile a function as part of others."""
        self.state.flags.no_compile = True  # no machine code
        self.state.library = CalleeLibrary(self.state.targetctx.codegen(), func.__qualname__)
        result = super().compile_extra(func)
        # numba finds functions by their entry points, which must be builtins. This one is never called.
        key = list[Any]().append
        self.state.targetctx.insert_function(key, result.fndesc, result.library)
        return result._replace(entry_point=key)


@contextlib.contextmanager
def no_garbage_collection() -> Iterator[None]:
    """Switch it off meanwhile. There is little garbage, and there are millions of objects to look through."""
    looked = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if looked:
            gc.enable()


class EntryCompiler(KernelCompiler):
    """numba's compiler for a kernel that Python calls."""

    def compile_extra(self, func: Callable[..., Any]) -> Any:
        """Compile a kernel, and connect the functions in it with their environments, as numba does for cached ones."""
        self.state.library = EntryLibrary(self.state.targetctx.codegen(), func.__qualname__)
        self.state.library.enable_object_caching()
        with no_garbage_collection():
            result = super().compile_extra(func)
        for environment in result._find_referenced_environments():
            result.library.codegen.set_env(environment.env_name, environment)
        return result


def take_any_number(dispatcher: Any) -> None:
    """Let a function be compiled once for all whole numbers, not once more for each that is known."""
    fold = dispatcher._compiler.fold_argument_types

    def fold_argument_types(args: Any, kws: Any) -> Any:
        signature, folded = fold(args, kws)
        return signature, tuple(types.unliteral(each) for each in folded)

    dispatcher._compiler.fold_argument_types = fold_argument_types


def make_lean(dispatcher: Any) -> Any:
    """Let one of posse's own functions be compiled for any number, and without a record of the time."""
    take_any_number(dispatcher)

    def compile_(signature: Any) -> Any:
        args, returned = sigutils.normalize_signature(signature)
        if args not in dispatcher.overloads:
            data = {"dispatcher": dispatcher, "args": args, "return_type": returned}
            with event.trigger_event("numba:compile", data=data):
                dispatcher.add_overload(dispatcher._compiler.compile(args, returned))
        return dispatcher.overloads[args].entry_point

    dispatcher.compile = compile_
    return dispatcher
