"""The types of the kernels, and how Numba compiles a function of them.

Numba has pointers and scalars but no vectors, and LLVM does not find the tiles of a matrix product
in scalar code by itself. `Vector` is 16 float32 numbers, which LLVM keeps in registers of whatever
width there is.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from llvmlite import ir
from numba import njit, types
from numba.extending import intrinsic, models, register_model

WIDTH = 16
FLOAT = ir.FloatType()
LLVM_TYPE = ir.VectorType(FLOAT, WIDTH)
CONTRACT = ("contract",)  # a product and a sum may be one instruction
UNALIGNED = 4  # bytes: the alignment of one float


class Vector(types.Type):  # type: ignore[misc]
    """The type of a vector in Numba's eyes."""

    def __init__(self) -> None:
        super().__init__(name="Vector")


vector = Vector()


@register_model(Vector)
class _VectorModel(models.PrimitiveModel):  # type: ignore[misc]
    def __init__(self, manager: Any, kind: Any) -> None:
        super().__init__(manager, kind, LLVM_TYPE)


def _broadcast(builder: Any, scalar: Any) -> Any:
    first = builder.insert_element(ir.Constant(LLVM_TYPE, ir.Undefined), scalar, ir.IntType(32)(0))
    zeros = ir.Constant(ir.VectorType(ir.IntType(32), WIDTH), [0] * WIDTH)
    return builder.shuffle_vector(first, ir.Constant(LLVM_TYPE, ir.Undefined), zeros)


def _at(builder: Any, pointer: Any, offset: Any) -> Any:
    return builder.bitcast(builder.gep(pointer, [offset]), LLVM_TYPE.as_pointer())


@intrinsic  # type: ignore[untyped-decorator]
def load(typing: Any, pointer: Any, offset: Any) -> Any:
    """load(pointer, offset): the 16 numbers from `offset` on."""

    def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.load(_at(builder, *arguments), align=UNALIGNED)

    return vector(types.CPointer(types.float32), types.int64), codegen


@intrinsic  # type: ignore[untyped-decorator]
def store(typing: Any, pointer: Any, offset: Any, value: Any) -> Any:
    """store(pointer, offset, value): writes the 16 numbers from `offset` on."""

    def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        pointer_, offset_, value_ = arguments
        builder.store(value_, _at(builder, pointer_, offset_), align=UNALIGNED)
        return context.get_dummy_value()

    return types.void(types.CPointer(types.float32), types.int64, vector), codegen


@intrinsic  # type: ignore[untyped-decorator]
def fma(typing: Any, scalar: Any, value: Any, total: Any) -> Any:
    """fma(scalar, value, total): scalar * value + total."""

    def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        scalar_, value_, total_ = arguments
        product = builder.fmul(_broadcast(builder, scalar_), value_, flags=CONTRACT)
        return builder.fadd(product, total_, flags=CONTRACT)

    return vector(types.float32, vector, vector), codegen


@intrinsic  # type: ignore[untyped-decorator]
def add(typing: Any, a: Any, b: Any) -> Any:
    """add(a, b): the sum of two vectors."""

    def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.fadd(*arguments)

    return vector(vector, vector), codegen


@intrinsic  # type: ignore[untyped-decorator]
def zeros(typing: Any) -> Any:
    """zeros(): 16 zeros."""

    def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return ir.Constant(LLVM_TYPE, [0.0] * WIDTH)

    return vector(), codegen


@intrinsic  # type: ignore[untyped-decorator]
def sqrt(typing: Any, number: Any) -> Any:
    """sqrt(number): one instruction. Python's would call a library."""

    def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.call(builder.module.declare_intrinsic("llvm.sqrt", [FLOAT]), arguments)

    return types.float32(types.float32), codegen


@intrinsic  # type: ignore[untyped-decorator]
def power_of_two(typing: Any, exponent: Any) -> Any:
    """power_of_two(exponent): 2^exponent as a float32, from -126 to 127."""

    def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        biased = builder.add(arguments[0], ir.IntType(32)(127))
        return builder.bitcast(builder.shl(biased, ir.IntType(32)(23)), FLOAT)

    return types.float32(types.int32), codegen


@intrinsic  # type: ignore[untyped-decorator]
def offset(typing: Any, pointer: Any, n: Any) -> Any:
    """offset(pointer, n): a pointer to the number that is n further."""

    def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.gep(arguments[0], [arguments[1]])

    return pointer(pointer, types.int64), codegen


Floats = Any  # a pointer to the first of some float32 numbers
Ints = Any  # the same for int64
Float = Any  # a float32

TYPES = {
    "Floats": types.CPointer(types.float32),
    "Ints": types.CPointer(types.int64),
    "Float": types.float32,
    "int": types.int64,
    "None": types.void,
}
OPTIONS = {
    "error_model": "numpy",
    # Sums may be reordered. Infinities and NaNs are those of IEEE 754.
    "fastmath": {"reassoc", "contract", "nsz", "arcp"},
}


def signature(function: Callable[..., Any]) -> Any:
    """Returns the types of a function's arguments and of its result, from its annotations."""
    *arguments, result = (TYPES[name] for name in function.__annotations__.values())
    return result(*arguments)


def compiled(function: Callable[..., Any]) -> Any:
    """Compiles a function for others to call."""
    options = {**OPTIONS, "no_cpython_wrapper": True, "no_cfunc_wrapper": True}
    return njit(signature(function), **options)(function)
