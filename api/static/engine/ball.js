// Balls: a middle and a radius, between which a real number is known to lie (Johansson 2017, Arb). Whatever is rounded
// makes the radius larger, so no step loses the number.

import { bitLength, magnitude, make, whole } from "./fractions.js";

const RADIUS_BITS = 32;

/** @import { Fraction } from "./fractions.js" */
/** The numbers from (m - r) * 2**e to (m + r) * 2**e. Where nothing is known of a number, its ball is null, and so are
 * those that are worked out from it.
 * @typedef {{m: bigint, r: bigint, e: bigint}} Ball */

/** Returns a ball with all numbers of another one, whose middle has at most so many bits.
 * @type {(m: bigint, r: bigint, e: bigint, bits: number) => Ball} */
export function ball(m, r, e, bits) {
  if (!m && !r) return { m, r, e: 0n };
  const excess = Math.max(bitLength(m) - bits, bitLength(r) - RADIUS_BITS);
  if (excess <= 0) return { m, r, e };
  const shift = BigInt(excess);
  const middle = m >> shift;
  const isExact = !r && middle << shift === m;
  return { m: middle, r: isExact ? 0n : (r >> shift) + 2n, e: e + shift };
}

/** @type {(value: Fraction, bits: number) => Ball} */
export function ofFraction({ n, d }, bits) {
  const exact = { m: n, r: 0n, e: 0n };
  return d === 1n ? ball(n, 0n, 0n, bits) : /** @type {Ball} */ (divide(exact, { m: d, r: 0n, e: 0n }, bits));
}

/** @type {(a: Ball, b: Ball, bits: number) => Ball} */
export function add(a, b, bits) {
  if (a.e < b.e) [a, b] = [b, a];
  if (!a.m && !a.r) return ball(b.m, b.r, b.e, bits);
  const [shift, most] = [a.e - b.e, BigInt(2 * bits)];
  if (shift <= most) return ball((a.m << shift) + b.m, (a.r << shift) + b.r, b.e, bits);
  if (bitLength(b.m) > bits) return add(a, ball(b.m, b.r, b.e, bits), bits);
  const small = ((magnitude(b.m) + b.r) >> (shift - most)) + 1n; // times 2**(a.e - most)
  return ball(a.m << most, (a.r << most) + small, a.e - most, bits);
}

/** Returns a ball with more numbers on both sides: r * 2**e.
 * @type {(a: Ball, r: bigint, e: bigint, bits: number) => Ball} */
export function widen(a, r, e, bits) {
  return r ? add(a, { m: 0n, r, e }, bits) : a;
}

/** @param {Ball} a */
export function negative({ m, r, e }) {
  return { m: -m, r, e };
}

/** @type {(a: Ball, b: Ball, bits: number) => Ball} */
export function multiply(a, b, bits) {
  const radius = a.r || b.r ? magnitude(a.m) * b.r + (magnitude(b.m) + b.r) * a.r : 0n;
  return ball(a.m * b.m, radius, a.e + b.e, bits);
}

/** Returns the quotient, or null if the divisor may be 0. @type {(a: Ball, b: Ball, bits: number) => Ball | null} */
export function divide(a, b, bits) {
  const size = magnitude(b.m);
  if (size <= b.r) return null;
  const shift = BigInt(Math.max(0, bits + 2 + bitLength(b.m) - bitLength(a.m)));
  const quotient = (a.m << shift) / b.m;
  const radius = a.r || b.r ? ((a.r << shift) + (magnitude(quotient) + 1n) * b.r) / (size - b.r) + 1n : 0n;
  return ball(quotient, radius + 1n, a.e - b.e - shift, bits);
}

/** @type {(a: Ball, exponent: bigint, bits: number) => Ball | null} */
export function power(a, exponent, bits) {
  let result = { m: 1n, r: 0n, e: 0n };
  for (const digit of magnitude(exponent).toString(2)) {
    result = multiply(result, result, bits);
    if (digit === "1") result = multiply(result, a, bits);
  }
  return exponent < 0n ? divide({ m: 1n, r: 0n, e: 0n }, result, bits) : result;
}

/** Returns the sign of the numbers of a ball, or 0 if it is not one sign. @param {Ball | null} a */
export function signOf(a) {
  return a ? Number(a.m > a.r) - Number(a.m < -a.r) : 0;
}

/** Returns whether the numbers are below 2**n, without their sign. @type {(a: Ball, n: bigint) => boolean} */
export function isBelow(a, n) {
  return (!a.m && !a.r) || upperBits(a) <= n;
}

/** Returns n for which the numbers are below 2**n, without their sign. @param {Ball} a */
export function upperBits({ m, r, e }) {
  return BigInt(bitLength(magnitude(m) + r)) + e;
}

const TINY = -(2n ** 17n); // the exponent of what counts as 0

/** Returns the middle as a fraction, or 0 if that is tiny. @param {Ball} a */
export function middleOf({ m, e }) {
  if (e >= 0n) return whole(m << e);
  if (logarithm({ m, r: 0n, e }) < TINY) return whole(0n);
  const d = 1n << -e;
  const factor = m & -m; // the largest power of two that divides it
  const common = factor && factor < d ? factor : d;
  return make(m / common, d / common);
}

/** Returns the exponent of the middle, which is rounded first, so that it is that of other balls with the same number: 0
 * for 0. @param {Ball} a */
export function logarithm({ m, e }) {
  const excess = BigInt(Math.max(0, bitLength(m) - 64));
  return BigInt(bitLength((magnitude(m) + ((1n << excess) >> 1n)) >> excess)) + excess + e;
}

/** Returns how many bits of the middle are right. @param {Ball} a */
export function accuracy({ m, r }) {
  return r ? bitLength(m) - bitLength(r) - 1 : Infinity;
}
