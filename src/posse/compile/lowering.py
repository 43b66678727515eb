"""From numba's form of a function to LLVM's, with records passed by pointers and numbers in arrays taken directly.

Kernels have no reference counts, and a record, such as all that a policy knows, has dozens of arrays. numba would pass
every number of every array as an argument, and take a copy of an array for each number that it reads.
"""

from __future__ import annotations

import functools
from typing import Any

from llvmlite.ir.instructions import LoadInstr
from numba.core import cgutils
from numba.core import types as numba_types
from numba.core.datamodel import ArgPacker
from numba.np import arrayobj

types: Any = numba_types  # filled when it is imported
PartOfNumba: Any = object  # the CPU and GPUs have classes of their own, which take in the classes that extend this


def is_record(kind: Any) -> bool:
    """Whether a type is one of posse's named tuples, which have up to two dozen arrays."""
    return isinstance(kind, types.BaseNamedTuple) and kind.instance_class.__module__.startswith("posse.")


class RecordModel:
    """How a function takes a record: by two pointers. numba would pass each number in it as an argument.

    The first points to the caller's own record, for a function that becomes part of the caller. The second, `shown`,
    points to a copy for all others. So the own one never leaves the function, and can be kept in registers.
    """

    def __init__(self, model: Any, inlined: bool) -> None:
        self.model = model
        self.inlined = inlined

    def get_argument_type(self) -> Any:
        return (self.model.get_value_type().as_pointer(),) * 2

    def as_argument(self, builder: Any, value: Any) -> Any:
        place: Any = value.operands[0] if isinstance(value, LoadInstr) else None
        if not hasattr(place, "shown"):
            place = cgutils.alloca_once(builder, value.type)
            place.shown = cgutils.alloca_once(builder, value.type)
            builder.store(value, place)
            builder.store(value, place.shown)
        return (place if self.inlined else place.shown), place.shown

    def from_argument(self, builder: Any, places: Any) -> Any:
        place, shown = places
        place.shown = shown
        return builder.load(place)


class Models:
    """numba's models of types, but for records."""

    def __init__(self, models: Any, inlined: bool) -> None:
        self.models = models
        self.inlined = inlined

    def lookup(self, kind: Any) -> Any:
        found = self.models.lookup(kind)
        return RecordModel(found, self.inlined) if is_record(kind) else found


class RecordCalls(PartOfNumba):
    """How functions call each other."""

    inlined = False

    def call_function(self, builder: Any, callee: Any, *args: Any, **options: Any) -> Any:
        self.inlined = "alwaysinline" in callee.attributes
        return super().call_function(builder, callee, *args, **options)

    def _get_arg_packer(self, kinds: Any) -> Any:
        return ArgPacker(Models(self.context.data_model_manager, self.inlined), kinds)


class RecordLower(PartOfNumba):
    """The step from numba's form to LLVM's, where nothing is counted that refers to others."""

    def extract_function_arguments(self) -> Any:
        """Take records from the caller, where they are, or copy them if this does not become a part of it."""
        values = super().extract_function_arguments()
        for name, kind, value in zip(self.fndesc.args, self.fndesc.argtypes, values, strict=True):
            if is_record(kind) and len(self.func_ir._definitions[name]) == 1:
                place = value.operands[0]
                if not self.fndesc.inline:
                    place = cgutils.alloca_once(self.builder, value.type)
                    place.shown = value.operands[0].shown
                    self.builder.store(value, place)
                self.varmap[name] = place
        return values

    def delvar(self, name: str) -> None:
        """Do nothing where a variable ends."""

    def storevar(self, value: Any, name: str, argidx: int | None = None) -> None:
        """Let a variable have a value, and do nothing about the one before."""
        kind = self.typeof(name)
        if is_record(kind):
            self._singly_assigned_vars.discard(name)
            if argidx is not None and name in self.varmap and hasattr(self.varmap[name], "shown"):
                return
        if name in self._singly_assigned_vars:
            self._blk_local_varmap[name] = value
            return
        self._alloca_var(name, kind)
        place = self.getvar(name)
        self.builder.store(value, place)
        if is_record(kind):
            if not hasattr(place, "shown"):
                place.shown = cgutils.alloca_once(self.builder, value.type)
            self.builder.store(value, place.shown)

    def lower_expr(self, resty: Any, expr: Any) -> Any:
        """Load only the field of a record that is asked for, not the whole record."""
        if expr.op == "getattr" and is_record(self.typeof(expr.value.name)):
            kind, name = self.typeof(expr.value.name), expr.value.name
            place = kind.fields.index(expr.attr) if expr.attr in kind.fields else -1
            if place >= 0 and kind[place] == resty and name not in self._blk_local_varmap:
                return self.builder.load(cgutils.gep_inbounds(self.builder, self.getvar(name), 0, place))
        if expr.op == "static_getitem" and isinstance(self.typeof(expr.value.name), types.Array) and expr.index_var:
            return self.lower_getitem(resty, expr, expr.value, expr.index_var, self.fndesc.calltypes[expr])
        return super().lower_expr(resty, expr)

    def lower_inst(self, inst: Any) -> None:
        """Write to an array by a number that is known as by any other."""
        if type(inst).__name__ == "StaticSetItem" and isinstance(self.typeof(inst.target.name), types.Array):
            self.lower_setitem(inst.target, inst.index_var, inst.value, self.fndesc.calltypes[inst])
        else:
            super().lower_inst(inst)

    def lower_getitem(self, resty: Any, expr: Any, value: Any, index: Any, signature: Any) -> Any:
        """A number in an array, in few instructions."""
        kind, place = self.typeof(value.name), self.place_in(value, index)
        if place is None:
            return super().lower_getitem(resty, expr, value, index, signature)
        found = arrayobj.load_item(self.context, self.builder, kind, place)
        self.tell_apart(kind)
        return self.context.cast(self.builder, found, kind.dtype, resty)

    def lower_setitem(self, target_var: Any, index_var: Any, value_var: Any, signature: Any) -> Any:
        """Write a number into an array."""
        kind, place = self.typeof(target_var.name), self.place_in(target_var, index_var)
        if place is None:
            return super().lower_setitem(target_var, index_var, value_var, signature)
        number, number_kind = self.loadvar(value_var.name), self.typeof(value_var.name)
        number = self.context.cast(self.builder, number, number_kind, signature.args[2])
        number = self.context.cast(self.builder, number, signature.args[2], kind.dtype)
        arrayobj.store_item(self.context, self.builder, kind, number, place)
        return self.tell_apart(kind)

    def tell_apart(self, kind: Any) -> None:
        """Say about the number just read or written what helps the compiler: for a GPU nothing."""

    def place_in(self, array: Any, index: Any) -> Any:
        """Where an array has the number of this index; None if it is no array, or the index leaves a part of it."""
        builder, kind, at = self.builder, self.typeof(array.name), self.typeof(index.name)
        kinds = tuple(at.types) if isinstance(at, types.BaseTuple) else (at,)
        whole = all(isinstance(each, types.Integer) for each in kinds)
        if not isinstance(kind, types.Array) or kind.layout == "F" or not whole or len(kinds) != kind.ndim:
            return None
        given, value = self.loadvar(index.name), self.loadvar(array.name)
        numbers = cgutils.unpack_tuple(builder, given, len(kinds)) if isinstance(at, types.BaseTuple) else [given]
        fields = self.context.data_model_manager[kind].get_field_position
        shape = [builder.extract_value(value, (fields("shape"), axis)) for axis in range(kind.ndim)]
        for axis, each in enumerate(kinds):
            known = isinstance(each, types.IntegerLiteral) and each.literal_value >= 0
            each = types.unliteral(each)
            if known or not each.signed:
                numbers[axis] = self.context.cast(builder, numbers[axis], each, types.uintp)
            else:
                numbers[axis] = arrayobj.fix_integer_index(self.context, builder, each, numbers[axis], shape[axis])
        data = builder.extract_value(value, fields("data"))
        if kind.layout == "C":
            offset = numbers[-1]
            for axis in range(kind.ndim - 1):
                step = functools.reduce(builder.mul, shape[axis + 1 :])
                offset = builder.add(offset, builder.mul(numbers[axis], step))
            return builder.gep(data, [offset])
        strides = [builder.extract_value(value, (fields("strides"), axis)) for axis in range(kind.ndim)]
        offsets = [builder.mul(stride, number) for stride, number in zip(strides, numbers, strict=True)]
        return cgutils.pointer_add(builder, data, functools.reduce(builder.add, offsets))
