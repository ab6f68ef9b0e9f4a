"""The types and vector operations of the kernels, and the decorator that compiles them.

Numba has pointers and scalars but no vectors, and LLVM does not vectorise a matrix product by tiles
on its own. `Vector` has 16 float32 lanes. LLVM maps it to registers of the width that the processor
has.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from llvmlite import ir
from numba import njit, types
from numba.extending import intrinsic, models, register_model

N_LANE = 16
FLOAT, INT = ir.FloatType(), ir.IntType(32)
FLOAT_VECTOR = ir.VectorType(FLOAT, N_LANE)
INT_VECTOR = ir.VectorType(INT, N_LANE)
CONTRACT = ("contract",)  # a multiplication and an addition may become one instruction (FMA)
ALIGNMENT = 4  # bytes: that of one float32, because rows start anywhere


class VectorType(types.Type):  # type: ignore[misc]
    """The Numba type of a vector."""

    def __init__(self) -> None:
        super().__init__(name="Vector")


vector = VectorType()


@register_model(VectorType)
class _VectorModel(models.PrimitiveModel):  # type: ignore[misc]
    def __init__(self, manager: Any, numba_type: Any) -> None:
        super().__init__(manager, numba_type, FLOAT_VECTOR)


def _minimum(builder: Any, a: Any, b: Any) -> Any:
    return builder.select(builder.fcmp_ordered("<", a, b), a, b)


def _int_vector(values: list[int]) -> Any:
    return ir.Constant(INT_VECTOR, values)


def _broadcast(builder: Any, scalar: Any, vector_type: Any = FLOAT_VECTOR) -> Any:
    undefined = ir.Constant(vector_type, ir.Undefined)
    lane_0 = builder.insert_element(undefined, scalar, INT(0))
    return builder.shuffle_vector(lane_0, undefined, _int_vector([0] * N_LANE))


def _vector_pointer(builder: Any, pointer: Any, offset: Any) -> Any:
    return builder.bitcast(builder.gep(pointer, [offset]), FLOAT_VECTOR.as_pointer())


@intrinsic  # type: ignore[untyped-decorator]
def load(typing_context: Any, pointer: Any, offset: Any) -> Any:
    """load(pointer, offset): returns the 16 numbers from `offset` on."""

    def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.load(_vector_pointer(builder, *arguments), align=ALIGNMENT)

    return vector(types.CPointer(types.float32), types.int64), codegen


@intrinsic  # type: ignore[untyped-decorator]
def store(typing_context: Any, pointer: Any, offset: Any, value: Any) -> Any:
    """store(pointer, offset, value): writes the 16 numbers from `offset` on."""

    def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        pointer_, offset_, value_ = arguments
        builder.store(value_, _vector_pointer(builder, pointer_, offset_), align=ALIGNMENT)
        return context.get_dummy_value()

    return types.void(types.CPointer(types.float32), types.int64, vector), codegen


@intrinsic  # type: ignore[untyped-decorator]
def fma(typing_context: Any, scalar: Any, value: Any, total: Any) -> Any:
    """fma(scalar, value, total): returns scalar * value + total, for vectors value and total."""

    def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        scalar_, value_, total_ = arguments
        product = builder.fmul(_broadcast(builder, scalar_), value_, flags=CONTRACT)
        return builder.fadd(product, total_, flags=CONTRACT)

    return vector(types.float32, vector, vector), codegen


def _elementwise(build: Callable[..., Any], n: int) -> Any:
    """Returns an elementwise operation on n vectors, 1 or 2."""
    operand_types = (vector,) * n

    def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return build(builder, *arguments)

    @intrinsic  # type: ignore[untyped-decorator]
    def unary(typing_context: Any, a: Any) -> Any:
        return vector(*operand_types), codegen

    @intrinsic  # type: ignore[untyped-decorator]
    def binary(typing_context: Any, a: Any, b: Any) -> Any:
        return vector(*operand_types), codegen

    return unary if n == 1 else binary


def _round_nearest(builder: Any, a: Any) -> Any:
    function_type = ir.FunctionType(FLOAT_VECTOR, [FLOAT_VECTOR])
    rint = builder.module.declare_intrinsic("llvm.rint.v16f32", (), function_type)
    return builder.call(rint, [a])


def _power_of_two(builder: Any, a: Any) -> Any:
    # The bits of a float32 with this exponent: the bias is 127, and the mantissa has 23 bits.
    biased = builder.add(builder.fptosi(a, INT_VECTOR), _int_vector([127] * N_LANE))
    return builder.bitcast(builder.shl(biased, _int_vector([23] * N_LANE)), FLOAT_VECTOR)


def _maximum(builder: Any, a: Any, b: Any) -> Any:
    return builder.select(builder.fcmp_ordered(">", a, b), a, b)


add = _elementwise(lambda builder, a, b: builder.fadd(a, b, flags=CONTRACT), 2)
subtract = _elementwise(lambda builder, a, b: builder.fsub(a, b, flags=CONTRACT), 2)
multiply = _elementwise(lambda builder, a, b: builder.fmul(a, b, flags=CONTRACT), 2)
divide = _elementwise(lambda builder, a, b: builder.fdiv(a, b), 2)
maximum = _elementwise(_maximum, 2)
minimum = _elementwise(_minimum, 2)
round_nearest = _elementwise(_round_nearest, 1)  # to integers, as floats
power_of_two = _elementwise(_power_of_two, 1)  # 2^a, for whole numbers from -126 to 127


@intrinsic  # type: ignore[untyped-decorator]
def broadcast(typing_context: Any, number: Any) -> Any:
    """broadcast(number): returns a vector with the number in all lanes."""

    def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return _broadcast(builder, *arguments)

    return vector(types.float32), codegen


@intrinsic  # type: ignore[untyped-decorator]
def select_first(typing_context: Any, n: Any, a: Any, b: Any) -> Any:
    """select_first(n, a, b): returns the first n lanes of a, and the other lanes of b."""

    def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        n_, a_, b_ = arguments
        limit = _broadcast(builder, builder.trunc(n_, INT), INT_VECTOR)
        is_first = builder.icmp_signed("<", _int_vector(list(range(N_LANE))), limit)
        return builder.select(is_first, a_, b_)

    return vector(types.int64, vector, vector), codegen


def _reduction(combine: Callable[..., Any]) -> Any:
    """Returns a horizontal reduction: it combines the halves of a vector until one lane is left."""

    @intrinsic  # type: ignore[untyped-decorator]
    def reduction(typing_context: Any, value: Any) -> Any:
        def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            (result,) = arguments
            n = N_LANE
            while n > 1:
                n //= 2
                index_type = ir.VectorType(INT, n)
                low, high = (
                    builder.shuffle_vector(
                        result, result, ir.Constant(index_type, list(range(start, start + n)))
                    )
                    for start in (0, n)
                )
                result = combine(builder, low, high)
            return builder.extract_element(result, INT(0))

        return types.float32(vector), codegen

    return reduction


reduce_max = _reduction(_maximum)
reduce_sum = _reduction(lambda builder, a, b: builder.fadd(a, b))


@intrinsic  # type: ignore[untyped-decorator]
def zeros(typing_context: Any) -> Any:
    """zeros(): returns a vector of zeros."""

    def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return ir.Constant(FLOAT_VECTOR, [0.0] * N_LANE)

    return vector(), codegen


@intrinsic  # type: ignore[untyped-decorator]
def sqrt(typing_context: Any, number: Any) -> Any:
    """sqrt(number): returns the square root, in one instruction (`math.sqrt` calls a library)."""

    def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.call(builder.module.declare_intrinsic("llvm.sqrt", [FLOAT]), arguments)

    return types.float32(types.float32), codegen


@intrinsic  # type: ignore[untyped-decorator]
def at(typing_context: Any, pointer: Any, n: Any) -> Any:
    """at(pointer, n): returns a pointer to element n."""

    def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.gep(arguments[0], [arguments[1]])

    return pointer(pointer, types.int64), codegen


# Annotations of the kernels. `signature` looks up their Numba types by name.
Floats = Any  # a pointer to float32 numbers
Ints = Any  # a pointer to int64 numbers
Float = Any  # a float32
Vector = Any  # 16 float32 lanes
Model = Any  # (plan, w, row_of_token, rotations), arguments of `kernels.decode`
Cache = Any  # (features, slots, lengths, tokens, kv, n_slot, capacity), arguments of it too
Masks = Any  # (zero_row, mask, mask_stride): see `layers.attend`

_FLOATS, _INTS = types.CPointer(types.float32), types.CPointer(types.int64)
TYPES = {
    "Floats": _FLOATS,
    "Ints": _INTS,
    "Model": types.Tuple((_INTS, _FLOATS, _INTS, _FLOATS)),
    "Cache": types.Tuple((_INTS, _INTS, _INTS, _INTS, _FLOATS, types.int64, types.int64)),
    "Masks": types.Tuple((_FLOATS, _FLOATS, types.int64)),
    "Float": types.float32,
    "Vector": vector,
    "int": types.int64,
    "None": types.void,
}
OPTIONS = {
    "error_model": "numpy",
    # LLVM may reorder sums. Infinities and NaNs are those of IEEE 754.
    "fastmath": {"reassoc", "contract", "nsz", "arcp"},
}


def signature(function: Callable[..., Any]) -> Any:
    """Returns the Numba signature of a function, from its annotations."""
    *arguments, result = (TYPES[name] for name in function.__annotations__.values())
    return result(*arguments)


def compiled(function: Callable[..., Any]) -> Any:
    """Compiles a function that other compiled functions call."""
    options = {**OPTIONS, "no_cpython_wrapper": True, "no_cfunc_wrapper": True}
    return njit(signature(function), **options)(function)
