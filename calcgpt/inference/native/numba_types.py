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
INTS = ir.VectorType(ir.IntType(32), WIDTH)
CONTRACT = ("contract",)  # a product and a sum may be one instruction
UNALIGNED = 4  # bytes: the alignment of one float


class VectorType(types.Type):  # type: ignore[misc]
    """The Numba type of a vector."""

    def __init__(self) -> None:
        super().__init__(name="Vector")


vector = VectorType()


@register_model(VectorType)
class _VectorModel(models.PrimitiveModel):  # type: ignore[misc]
    def __init__(self, manager: Any, kind: Any) -> None:
        super().__init__(manager, kind, LLVM_TYPE)


def _smaller(builder: Any, a: Any, b: Any) -> Any:
    return builder.select(builder.fcmp_ordered("<", a, b), a, b)


def _ints(numbers: list[int]) -> Any:
    return ir.Constant(INTS, numbers)


def _spread(builder: Any, scalar: Any, kind: Any = LLVM_TYPE) -> Any:
    empty = ir.Constant(kind, ir.Undefined)
    first = builder.insert_element(empty, scalar, ir.IntType(32)(0))
    return builder.shuffle_vector(first, empty, _ints([0] * WIDTH))


def _vector_at(builder: Any, pointer: Any, offset: Any) -> Any:
    return builder.bitcast(builder.gep(pointer, [offset]), LLVM_TYPE.as_pointer())


@intrinsic  # type: ignore[untyped-decorator]
def load(typing: Any, pointer: Any, offset: Any) -> Any:
    """load(pointer, offset): the 16 numbers from `offset` on."""

    def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.load(_vector_at(builder, *arguments), align=UNALIGNED)

    return vector(types.CPointer(types.float32), types.int64), codegen


@intrinsic  # type: ignore[untyped-decorator]
def store(typing: Any, pointer: Any, offset: Any, value: Any) -> Any:
    """store(pointer, offset, value): writes the 16 numbers from `offset` on."""

    def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        pointer_, offset_, value_ = arguments
        builder.store(value_, _vector_at(builder, pointer_, offset_), align=UNALIGNED)
        return context.get_dummy_value()

    return types.void(types.CPointer(types.float32), types.int64, vector), codegen


@intrinsic  # type: ignore[untyped-decorator]
def fma(typing: Any, scalar: Any, value: Any, total: Any) -> Any:
    """fma(scalar, value, total): scalar * value + total."""

    def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        scalar_, value_, total_ = arguments
        product = builder.fmul(_spread(builder, scalar_), value_, flags=CONTRACT)
        return builder.fadd(product, total_, flags=CONTRACT)

    return vector(types.float32, vector, vector), codegen


def _of_vectors(build: Callable[..., Any], n: int) -> Any:
    """Returns an operation on the numbers of n vectors."""
    operands = (vector,) * n

    def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return build(builder, *arguments)

    @intrinsic  # type: ignore[untyped-decorator]
    def of_one(typing: Any, a: Any) -> Any:
        return vector(*operands), codegen

    @intrinsic  # type: ignore[untyped-decorator]
    def of_two(typing: Any, a: Any, b: Any) -> Any:
        return vector(*operands), codegen

    return of_one if n == 1 else of_two


def _nearest(builder: Any, a: Any) -> Any:
    kind = ir.FunctionType(LLVM_TYPE, [LLVM_TYPE])
    return builder.call(builder.module.declare_intrinsic("llvm.rint.v16f32", (), kind), [a])


def _power_of_two(builder: Any, a: Any) -> Any:
    biased = builder.add(builder.fptosi(a, INTS), _ints([127] * WIDTH))
    return builder.bitcast(builder.shl(biased, _ints([23] * WIDTH)), LLVM_TYPE)


def _larger(builder: Any, a: Any, b: Any) -> Any:
    return builder.select(builder.fcmp_ordered(">", a, b), a, b)


add = _of_vectors(lambda builder, a, b: builder.fadd(a, b, flags=CONTRACT), 2)
subtract = _of_vectors(lambda builder, a, b: builder.fsub(a, b, flags=CONTRACT), 2)
multiply = _of_vectors(lambda builder, a, b: builder.fmul(a, b, flags=CONTRACT), 2)
divide = _of_vectors(lambda builder, a, b: builder.fdiv(a, b), 2)
larger = _of_vectors(_larger, 2)
smaller = _of_vectors(_smaller, 2)
nearest = _of_vectors(_nearest, 1)  # integers
power_of_two = _of_vectors(_power_of_two, 1)  # of integers from -126 to 127


@intrinsic  # type: ignore[untyped-decorator]
def every(typing: Any, number: Any) -> Any:
    """every(number): 16 times the number."""

    def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return _spread(builder, *arguments)

    return vector(types.float32), codegen


@intrinsic  # type: ignore[untyped-decorator]
def first(typing: Any, n: Any, a: Any, b: Any) -> Any:
    """first(n, a, b): the first n numbers of a, and the others of b."""

    def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        n_, a_, b_ = arguments
        limit = _spread(builder, builder.trunc(n_, ir.IntType(32)), INTS)
        below = builder.icmp_signed("<", _ints(list(range(WIDTH))), limit)
        return builder.select(below, a_, b_)

    return vector(types.int64, vector, vector), codegen


def _reduction(combine: Callable[..., Any]) -> Any:
    """Returns an operation that makes one number of a vector's: it combines halves."""

    @intrinsic  # type: ignore[untyped-decorator]
    def reduction(typing: Any, value: Any) -> Any:
        def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            (part,) = arguments
            n = WIDTH
            while n > 1:
                n //= 2
                indices = ir.VectorType(ir.IntType(32), n)
                low, high = (
                    builder.shuffle_vector(
                        part, part, ir.Constant(indices, list(range(start, start + n)))
                    )
                    for start in (0, n)
                )
                part = combine(builder, low, high)
            return builder.extract_element(part, ir.IntType(32)(0))

        return types.float32(vector), codegen

    return reduction


largest_of = _reduction(_larger)
sum_of = _reduction(lambda builder, a, b: builder.fadd(a, b))


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
def at(typing: Any, pointer: Any, n: Any) -> Any:
    """at(pointer, n): a pointer to the number that is n further."""

    def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.gep(arguments[0], [arguments[1]])

    return pointer(pointer, types.int64), codegen


Floats = Any  # a pointer to the first of some float32 numbers
Ints = Any  # the same for int64
Float = Any  # a float32
Vector = Any  # 16 of them
Model = Any  # (plan, weights, row_of_token, rotations) of `kernels.decode`
Texts = Any  # (marks, slots, lengths, tokens, cache, n_slot, capacity) of it
Masks = Any  # (zeros, what windows hide, numbers from one row of it to the next)

_FLOATS, _INTS = types.CPointer(types.float32), types.CPointer(types.int64)
TYPES = {
    "Floats": _FLOATS,
    "Ints": _INTS,
    "Model": types.Tuple((_INTS, _FLOATS, _INTS, _FLOATS)),
    "Texts": types.Tuple((_INTS, _INTS, _INTS, _INTS, _FLOATS, types.int64, types.int64)),
    "Masks": types.Tuple((_FLOATS, _FLOATS, types.int64)),
    "Float": types.float32,
    "Vector": vector,
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
