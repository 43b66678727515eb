"""From numba's form of a function to LLVM's on the CPU: few instructions for calls and loops, and what vectors need.

Most of the time that a kernel takes to compile goes with the number of instructions that are made of it, however few of
them are left in the end.
"""

from __future__ import annotations

import functools
import hashlib
import operator
from typing import Any

from llvmlite import ir as llvm
from llvmlite.binding import llvm_version_info
from llvmlite.ir.instructions import AllocaInstr, CallInstr, GEPInstr, LoadInstr, StoreInstr
from numba.core import cgutils, ir
from numba.core.callconv import RETCODE_OK, CPUCallConv
from numba.core.compiler_machinery import register_pass
from numba.core.cpu import CPUContext
from numba.core.imputils import user_function
from numba.core.lowering import Lower
from numba.core.typed_passes import NativeLowering
from numba.cpython.builtins import do_minmax
from numba.np import arrayobj

from posse.compile.lowering import RecordCalls, RecordLower, is_record, types

# What LLVM may be told of a loop: do one vector at a time; mask the last vector, which is not full; do not unroll.
NO_INTERLEAVING = "llvm.loop.interleave.count", llvm.Constant(llvm.IntType(32), 1)
MASKED_END = "llvm.loop.vectorize.predicate.enable", llvm.Constant(llvm.IntType(1), 1)
NO_UNROLLING = ("llvm.loop.unroll.disable",)

# The widest vectors that there are, also on Intel's processors, which read and write numbers that lie apart one by one:
# the instructions for that are no faster.
VECTORS = "-prefer-256-bit", "+prefer-no-gather", "+prefer-no-scatter"

DIRECT = (min, max, int)  # numba would compile a function of its own for each, and for each kind of number


def direct_type(context: Any, function: Any, args: Any) -> Any:
    """The type of `min`, `max` or `int` of plain numbers; None for any other call."""
    numbers = all(isinstance(each, types.Integer | types.Float | types.Boolean) for each in args)
    if function in (min, max) and numbers and len(args) == 2:
        return context.unify_types(*args)
    if function is int and numbers and len(args) == 1:
        return args[0] if isinstance(args[0], types.Integer) else types.intp
    return None


class KernelCalls(RecordCalls, CPUCallConv):
    """How functions call each other on the CPU."""

    def call_unchecked(self, builder: Any, callee: Any, kind: Any, kinds: Any, args: Any) -> Any:
        """Call a function that cannot fail, without a look at its error code."""
        self.inlined = "alwaysinline" in callee.attributes
        with builder.goto_entry_block():
            pointer = builder.alloca(self._get_return_argument(callee.function_type).pointee)
        error = self._get_excinfo_argument(builder.function)
        builder.call(callee, [pointer, error, *self._get_arg_packer(kinds).as_arguments(builder, args)])
        return self.context.get_returned_value(builder, kind, builder.load(pointer))

    def _return_errcode_raw(self, builder: Any, code: Any, *args: Any) -> None:
        """Return from a function, and remember if that is with an error."""
        if code is not RETCODE_OK:
            self.context.active_code_library.may_raise = True
        super()._return_errcode_raw(builder, code, *args)


class KernelContext(CPUContext):
    """What is compiled for, with these calls."""

    @property
    def call_conv(self) -> Any:
        return KernelCalls(self)

    def get_function(self, fn: Any, sig: Any, *args: Any, **options: Any) -> Any:
        """What a call becomes. `min`, `max` and `int` of numbers become a few instructions."""
        key = fn.get_impl_key(sig) if isinstance(fn, types.Function) else fn
        if key not in DIRECT:
            return super().get_function(fn, sig, *args, **options)

        def call(builder: Any, values: Any, loc: Any = None) -> Any:
            if key is int:
                return self.cast(builder, values[0], sig.args[0], sig.return_type)
            return do_minmax(self, builder, sig.args, values, operator.lt if key is min else operator.gt)

        return call

    def mangler(self, name: str, argtypes: Any, *, abi_tags: Any = (), uid: int | None = None) -> Any:
        """A function's name. That of a record's type has a thousand letters, so its digest stands for it."""
        if not any(map(is_record, argtypes)):
            return super().mangler(name, argtypes, abi_tags=abi_tags, uid=uid)
        digest = hashlib.sha256(str(argtypes).encode()).hexdigest()[:16]
        return super().mangler(f"{name}_{digest}", (), abi_tags=abi_tags, uid=uid)

    def insert_function(self, key: Any, function: Any, library: Any) -> None:
        """Let other functions call this one. They look at its error code only if it may raise."""
        checked = user_function(function, [library])

        def unchecked(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            # numba compiles some callers by itself, as for `map(ours, numbers)`.
            if not isinstance(context, KernelContext):
                return checked(context, builder, signature, args)
            callee = context.declare_function(builder.module, function)
            return context.call_conv.call_unchecked(builder, callee, function.restype, function.argtypes, args)

        unchecked.libs = (library,)  # type: ignore[attr-defined]
        may_raise = library.may_raise or isinstance(function.restype, types.Optional)
        self._defns[key].append(checked if may_raise else unchecked, function.argtypes)


class AccessGroup(llvm.values.MDValue):
    """What LLVM calls an access group: reads and writes that its other marks can speak of together."""

    def descr(self, buf: Any) -> None:
        """Write it in LLVM's form."""
        buf += ("distinct !{ }", "\n")


def is_in_own_table(instruction: Any) -> bool:
    """Whether it finds a position that is not known in advance, in memory of the function's own."""
    own = isinstance(instruction, GEPInstr) and isinstance(instruction.pointer, AllocaInstr)
    return own and not all(isinstance(each, llvm.Constant) for each in instruction.indices)


class KernelLower(RecordLower, Lower):
    """The step to LLVM's form for the CPU, with what its vectors need."""

    @functools.cached_property
    def group(self) -> AccessGroup:
        """What this function reads and writes. No iteration of its loops waits for another one's."""
        return AccessGroup(self.module, (), name=str(len(self.module.metadata)))

    def lower_function_body(self) -> Any:
        """Mark the function: what its vectors are like, and which reads and writes need not wait.

        A function with a table of its own, such as a tuple that numba changes at a computed position, gets an
        instruction that does nothing. No loop around it becomes vectors, whose iterations would share the table.
        """
        entry, function = super().lower_function_body(), self.func_ir.func_id.func
        attributes = self.function.attributes
        if not self.fndesc.inline and "x86_64" in self.module.triple and llvm_version_info >= (17,):
            features = ",".join(filter(None, (self.context.codegen()._tm_features, *VECTORS)))
            set.add(attributes, f'"target-features"="{features}"')  # llvmlite knows only attributes without a value
        if any(is_in_own_table(each) for block in self.function.blocks for each in block.instructions):
            with self.builder.goto_entry_block():
                self.builder.asm(llvm.FunctionType(llvm.VoidType(), ()), "", "", (), True)
        if hasattr(function, "independent"):
            for block in self.function.blocks:
                for each in block.instructions:
                    if isinstance(each, LoadInstr | StoreInstr | CallInstr):
                        each.set_metadata("llvm.access.group", self.group)
        return entry

    def lower_inst(self, inst: Any) -> None:
        """Say in the jump that closes a loop what the compiler should make of it."""
        super().lower_inst(inst)
        if isinstance(inst, ir.Jump) and self.goes_back(inst):
            function = self.func_ir.func_id.func
            if hasattr(function, "independent"):
                end = [MASKED_END] if hasattr(function, "masked") else []
                self.shape_loop(NO_INTERLEAVING, ("llvm.loop.parallel_accesses", self.group), *end)
            elif hasattr(function, "out_of_line"):
                self.shape_loop(NO_INTERLEAVING, NO_UNROLLING)

    def goes_back(self, jump: Any) -> bool:
        """Whether a jump leads to a block that is already there, the head of a loop."""
        return bool(self.blkmap[jump.target].instructions)

    def shape_loop(self, *wanted: Any) -> None:
        """Give the loop that the last jump closes these options."""
        module = self.module
        options = [module.add_metadata([llvm.MetaDataString(module, name), *value]) for name, *value in wanted]
        loop = llvm.values.MDValue(module, options, name=str(len(module.metadata)))
        loop.operands = (loop, *options)  # it names itself, so that no two loops share it
        self.builder.block.terminator.set_metadata("llvm.loop", loop)

    def lower_expr(self, resty: Any, expr: Any) -> Any:
        """Lower a loop over a range without a division by its step, and without a branch in each iteration."""
        if expr.op not in ("getiter", "iternext", "pair_first", "pair_second"):
            return super().lower_expr(resty, expr)
        given, kind = expr.value, self.typeof(expr.value.name)
        if isinstance(kind, types.Pair):
            return self.builder.extract_value(self.loadvar(given.name), 0 if expr.op == "pair_first" else 1)
        if isinstance(kind, types.RangeType) and expr.op == "getiter" and self.counts_by_one(given):
            return self.begin_counting(self.loadvar(given.name))
        if isinstance(kind, types.RangeIteratorType) and expr.op == "iternext":
            return self.count_on(self.loadvar(given.name))
        return super().lower_expr(resty, expr)

    def begin_counting(self, numbers: Any) -> Any:
        """numba's iterator over a range, which counts by one."""
        start, stop, step = cgutils.unpack_tuple(self.builder, numbers, 3)
        number = cgutils.alloca_once_value(self.builder, start)
        left = cgutils.alloca_once_value(self.builder, self.builder.sub(stop, start))
        return cgutils.make_anonymous_struct(self.builder, [number, stop, step, left])

    def count_on(self, iterator: Any) -> Any:
        """The next number of an iterator over a range, and whether there is one."""
        builder = self.builder
        pointer, _, step, left = cgutils.unpack_tuple(builder, iterator, 4)
        number, remaining = builder.load(pointer), builder.load(left)
        builder.store(builder.add(number, step), pointer)
        builder.store(builder.sub(remaining, remaining.type(1)), left)
        is_one = builder.icmp_signed(">", remaining, remaining.type(0))
        return cgutils.make_anonymous_struct(builder, [number, is_one])

    def lower_getitem(self, resty: Any, expr: Any, value: Any, index: Any, signature: Any) -> Any:
        """Look up a number in a tuple of constants as in a table. numba would make a branch for each of them.

        As in arrays, the index is not checked. So only posse's own functions get this.
        """
        kind, at, made = self.typeof(value.name), self.typeof(index.name), self.definition(value)
        own = self.func_ir.func_id.modname.startswith("posse.")
        constant = own and isinstance(kind, types.UniTuple) and isinstance(made, ir.Global | ir.FreeVar)
        if not (constant and isinstance(kind.dtype, types.Number) and isinstance(at, types.Integer)):
            return super().lower_getitem(resty, expr, value, index, signature)
        size = self.context.get_constant(types.intp, len(kind))
        numbers = [self.context.get_constant(kind.dtype, each) for each in made.value]
        table = llvm.Constant(self.context.get_value_type(kind), numbers)
        pointer = cgutils.global_constant(self.builder, "table", table)
        number = arrayobj.fix_integer_index(self.context, self.builder, at, self.loadvar(index.name), size)
        found = self.builder.load(self.builder.gep(pointer, [number.type(0), number], inbounds=True))
        return self.context.cast(self.builder, found, kind.dtype, resty)

    def counts_by_one(self, numbers: Any) -> bool:
        """Whether a range was made here, without a step."""
        made = self.definition(numbers)
        if not isinstance(made, ir.Expr) or made.op != "call" or made.vararg is not None or len(made.args) > 2:
            return False
        return getattr(self.typeof(made.func.name), "typing_key", None) is range

    def definition(self, variable: Any) -> Any:
        """What a variable stands for; None if that depends."""
        try:
            return self.func_ir.get_definition(variable)
        except KeyError:
            return None

    def tell_apart(self, kind: Any) -> None:
        """Say that the number just read or written is in no array of another type: kernels have no such views.

        So the compiler need not compare addresses before it takes several numbers at once.
        """
        last, module, zero = self.builder.block.instructions[-1], self.module, llvm.Constant(llvm.IntType(64), 0)
        if isinstance(last, LoadInstr | StoreInstr):  # truth values are converted too
            root = module.add_metadata([llvm.MetaDataString(module, "posse")])
            numbers = module.add_metadata([llvm.MetaDataString(module, str(kind.dtype)), root, zero])
            last.set_metadata("tbaa", module.add_metadata([numbers, numbers, zero]))


@register_pass(mutates_CFG=True, analysis_only=False)
class KernelLowering(NativeLowering):
    """The pass that does this step."""

    _name = "posse_lowering"

    @property
    def lowering_class(self) -> Any:
        return KernelLower
