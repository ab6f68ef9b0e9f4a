// What Python's module `math` has of which the calculator makes use.

import { gcd as gcdOf, magnitude, product } from "./fractions.js";
import { int } from "./python.js";

export const inf = Infinity;
/** @param {any} x */
export const ceil = (x) => int(Math.ceil(x));
export const isfinite = Number.isFinite;
/** @param {any} x */
export const log10 = (x) => Math.log10(Number(x));
/** @param {any} x */
export const floor = (x) => (typeof x === "object" ? x.__floor__() : int(Math.floor(x)));
/** @param {number} n */
export const isqrt = (n) => Math.floor(Math.sqrt(n));
/** @param {any} n */
export const factorial = (n) => product(1n, BigInt(n));
/** @type {(n: any, k: any) => bigint} */
export const perm = (n, k) => product(BigInt(n) - BigInt(k) + 1n, BigInt(n));
/** @type {(n: any, k: any) => bigint} */
export const comb = (n, k) => (2n * BigInt(k) > n ? comb(n, BigInt(n) - BigInt(k)) : perm(n, k) / factorial(k));
/** @param {...any} values */
export const gcd = (...values) => values.map(BigInt).reduce(gcdOf, 0n);
/** @param {...any} values */
export const lcm = (...values) =>
  values.map(BigInt).reduce((a, b) => (a && b ? magnitude(a * b) / gcdOf(a, b) : 0n), 1n);
