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


def _operation(result: Any, *operands: Any) -> Callable[[Callable[..., Any]], Any]:
    """Returns a decorator that makes an operation of these types for the kernels. The decorated
    function gets an LLVM builder and the operands, and builds the instructions."""

    def decorate(build: Callable[..., Any]) -> Any:
        def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            value = build(builder, *arguments)
            return context.get_dummy_value() if result is types.void else value

        typed = result(*operands), codegen
        # Numba counts the parameters: the context and the operands.
        by_count: tuple[Callable[..., Any], ...] = (
            lambda context: typed,
            lambda context, a: typed,
            lambda context, a, b: typed,
            lambda context, a, b, c: typed,
        )
        return intrinsic(by_count[len(operands)])

    return decorate


def _int_vector(values: list[int]) -> Any:
    return ir.Constant(INT_VECTOR, values)


def _broadcast(builder: Any, scalar: Any, vector_type: Any = FLOAT_VECTOR) -> Any:
    undefined = ir.Constant(vector_type, ir.Undefined)
    lane_0 = builder.insert_element(undefined, scalar, INT(0))
    return builder.shuffle_vector(lane_0, undefined, _int_vector([0] * N_LANE))


def _vector_pointer(builder: Any, pointer: Any, offset: Any) -> Any:
    return builder.bitcast(builder.gep(pointer, [offset]), FLOAT_VECTOR.as_pointer())


def _minimum(builder: Any, a: Any, b: Any) -> Any:
    return builder.select(builder.fcmp_ordered("<", a, b), a, b)


def _maximum(builder: Any, a: Any, b: Any) -> Any:
    return builder.select(builder.fcmp_ordered(">", a, b), a, b)


@_operation(vector, types.CPointer(types.float32), types.int64)
def load(builder: Any, pointer: Any, offset: Any) -> Any:
    """load(pointer, offset): returns the 16 numbers from `offset` on."""
    return builder.load(_vector_pointer(builder, pointer, offset), align=ALIGNMENT)


@_operation(types.void, types.CPointer(types.float32), types.int64, vector)
def store(builder: Any, pointer: Any, offset: Any, value: Any) -> Any:
    """store(pointer, offset, value): writes the 16 numbers from `offset` on."""
    builder.store(value, _vector_pointer(builder, pointer, offset), align=ALIGNMENT)


@_operation(vector, types.float32, vector, vector)
def fma(builder: Any, scalar: Any, value: Any, total: Any) -> Any:
    """fma(scalar, value, total): returns scalar * value + total, for vectors value and total."""
    product = builder.fmul(_broadcast(builder, scalar), value, flags=CONTRACT)
    return builder.fadd(product, total, flags=CONTRACT)


@_operation(vector, vector)
def round_nearest(builder: Any, a: Any) -> Any:
    """round_nearest(a): rounds to integers, as floats."""
    function_type = ir.FunctionType(FLOAT_VECTOR, [FLOAT_VECTOR])
    rint = builder.module.declare_intrinsic("llvm.rint.v16f32", (), function_type)
    return builder.call(rint, [a])


@_operation(vector, vector)
def power_of_two(builder: Any, a: Any) -> Any:
    """power_of_two(a): returns 2^a, for whole numbers from -126 to 127."""
    # The bits of a float32 with this exponent: the bias is 127, and the mantissa has 23 bits.
    biased = builder.add(builder.fptosi(a, INT_VECTOR), _int_vector([127] * N_LANE))
    return builder.bitcast(builder.shl(biased, _int_vector([23] * N_LANE)), FLOAT_VECTOR)


_binary = _operation(vector, vector, vector)
add = _binary(lambda builder, a, b: builder.fadd(a, b, flags=CONTRACT))
subtract = _binary(lambda builder, a, b: builder.fsub(a, b, flags=CONTRACT))
multiply = _binary(lambda builder, a, b: builder.fmul(a, b, flags=CONTRACT))
divide = _binary(lambda builder, a, b: builder.fdiv(a, b))
maximum, minimum = _binary(_maximum), _binary(_minimum)
broadcast = _operation(vector, types.float32)(_broadcast)  # a vector with the number in all lanes


@_operation(vector, types.int64, vector, vector)
def select_first(builder: Any, n: Any, a: Any, b: Any) -> Any:
    """select_first(n, a, b): returns the first n lanes of a, and the other lanes of b."""
    limit = _broadcast(builder, builder.trunc(n, INT), INT_VECTOR)
    is_first = builder.icmp_signed("<", _int_vector(list(range(N_LANE))), limit)
    return builder.select(is_first, a, b)


def _reduction(combine: Callable[..., Any]) -> Any:
    """Returns a horizontal reduction: it combines the halves of a vector until one lane is left."""

    def build(builder: Any, value: Any) -> Any:
        n = N_LANE
        while n > 1:
            n //= 2
            low, high = (
                builder.shuffle_vector(
                    value, value, ir.Constant(ir.VectorType(INT, n), list(range(start, start + n)))
                )
                for start in (0, n)
            )
            value = combine(builder, low, high)
        return builder.extract_element(value, INT(0))

    return _operation(types.float32, vector)(build)


reduce_max = _reduction(_maximum)
reduce_sum = _reduction(lambda builder, a, b: builder.fadd(a, b))


def _pairwise_sum(n: int) -> Any:
    """Returns an operation that adds the lanes of a, and those of b, that are n apart. Groups of n
    sums of a and of b alternate."""

    def build(builder: Any, a: Any, b: Any) -> Any:
        # Every second group of the result is of b, whose lanes are counted from N_LANE on.
        low = [i - i // n % 2 * n + i // n % 2 * N_LANE for i in range(N_LANE)]
        high = [i + n for i in low]
        parts = (builder.shuffle_vector(a, b, _int_vector(lanes)) for lanes in (low, high))
        return builder.fadd(*parts)

    return _binary(build)


pair_8, pair_4, pair_2, pair_1 = (_pairwise_sum(n) for n in (8, 4, 2, 1))


@_operation(vector)
def zeros(builder: Any) -> Any:
    """zeros(): returns a vector of zeros."""
    return ir.Constant(FLOAT_VECTOR, [0.0] * N_LANE)


@_operation(types.float32, types.float32)
def sqrt(builder: Any, number: Any) -> Any:
    """sqrt(number): returns the square root, in one instruction (`math.sqrt` calls a library)."""
    return builder.call(builder.module.declare_intrinsic("llvm.sqrt", [FLOAT]), [number])


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
Masks = Any  # (mask, visible, stride): see `kernels.memory_of_masks`

_FLOATS, _INTS = types.CPointer(types.float32), types.CPointer(types.int64)
TYPES = {
    "Floats": _FLOATS,
    "Ints": _INTS,
    "Model": types.Tuple((_INTS, _FLOATS, _INTS, _FLOATS)),
    "Cache": types.Tuple((_FLOATS, _INTS, _INTS, _INTS, _FLOATS, types.int64, types.int64)),
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
