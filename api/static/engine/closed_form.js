// Closed forms, by which equal numbers are recognized: sqrt(2)*sqrt(8) is 4, log2(8) is 3
// (calcgpt/inference/closed_form.py).
//
// A form is a quotient of two polynomials with rational coefficients, in numbers such as roots of primes, pi, exp(1/3),
// ln(2), sin(1). Forms are rewritten by identities alone. So two numbers with one form are equal, which is all that a
// form is used for: that two numbers are different is seen from their digits (real.js).

import * as fractions from "./fractions.js";
import { bitLength, magnitude, whole } from "./fractions.js";

/** @import { Fraction } from "./fractions.js" */
/** A number that a form treats as a variable. `of` is a prime, which stands under a root, or that of its logarithm; a
 * fraction q for sin(q*pi); or what the function of this name is of. Equal atoms, monomials and forms have equal ids.
 * @typedef {{name: string, of: any, id: number}} Atom */
/** The atoms and their exponents. @typedef {{powers: [Atom, Fraction][], id: number}} Monomial */
/** The coefficients, none of which is 0, by the ids of the monomials.
 * @typedef {Map<number, [Monomial, Fraction]>} Polynomial */
/** A number as a quotient. @typedef {{numerator: Polynomial, denominator: Polynomial, id: number}} Form */

const MAX_TERMS = 24; // of a polynomial
const MAX_BITS = 4_000; // of a coefficient
const MAX_IDS = 100_000; // that are remembered; a number that is forgotten is not recognized
const PRIMES = Array.from({ length: 998 }, (_, n) => n + 2)
  .filter((n) => Array.from({ length: n - 2 }, (_, d) => d + 2).every((d) => n % d))
  .map(BigInt);
const POSITIVE = new Set(["prime", "pi", "exp", "ln", "sine", "sum"]);
const [ZERO, ONE, TWO, HALF] = [whole(0n), whole(1n), whole(2n), { n: 1n, d: 2n }];
const MINUS_ONE = whole(-1n);

/** A form would have too many terms. */
export class TooLargeError extends Error {}

/** @type {Map<string, number>} */ let ids = new Map();
/** @type {Map<string, number>} */ let lasting = new Map(); // of what this module keeps
let lastId = 0;

/** Returns the id of what has this key. @param {string} key */
function identity(key) {
  let id = ids.get(key);
  if (id === undefined) {
    if (ids.size >= MAX_IDS) ids = new Map(lasting);
    id = lastId += 1;
    ids.set(key, id);
  }
  return id;
}

/** @param {Fraction} value */
function keyOf({ n, d }) {
  return `${n.toString(36)}/${d.toString(36)}`;
}

/** @type {(name: string, of?: any) => Atom} */
function makeAtom(name, of = "") {
  return { name, of, id: identity(`${name} ${of.id ?? (of.d ? keyOf(of) : of)}`) };
}

/** @param {[Atom, Fraction][]} powers */
function makeMonomial(powers) {
  return { powers, id: identity(`m ${powers.map(([{ id }, e]) => `${id}^${keyOf(e)}`).sort().join()}`) };
}

/** @type {(numerator: Polynomial, denominator: Polynomial) => Form} */
function makeForm(numerator, denominator) {
  const key = (/** @type {Polynomial} */ p) => [...p].map(([id, [, c]]) => `${id}*${keyOf(c)}`).sort().join();
  return { numerator, denominator, id: identity(`f ${key(numerator)};${key(denominator)}`) };
}

/** @type {(monomial: Monomial, c: Fraction) => Polynomial} */
function polynomial(monomial, c) {
  return new Map([[monomial.id, [monomial, c]]]);
}

const NO_ATOMS = makeMonomial([]);
const WHOLE = polynomial(NO_ATOMS, ONE); // the denominator 1

/** Returns the form of a fraction. @param {Fraction} value @throws {TooLargeError} */
export function rational(value) {
  return quotient(polynomial(NO_ATOMS, value), WHOLE);
}

/** Returns the form of an atom. @type {(name: string, of?: any) => Form} */
export function atom(name, of) {
  return termOf(ONE, [[makeAtom(name, of), ONE]]);
}

/** Returns the number if it is rational by its form, else null. @param {Form} a */
export function rationalOf(a) {
  if (!a.numerator.size) return ZERO;
  const single = singleOf(a);
  return single && !single[0].powers.length ? single[1] : null;
}

/** Returns the monomial and the coefficient, if the form is that of one, else null. @param {Form} a */
function singleOf({ numerator, denominator }) {
  return isOne(denominator) && numerator.size === 1 ? [...numerator.values()][0] : null;
}

/** @param {Polynomial} p */
function isOne(p) {
  const c = p.size === 1 && p.get(NO_ATOMS.id)?.[1];
  return c && isWhole(c) && c.n === 1n;
}

/** @type {(a: Form, b: Form) => Form} @throws {TooLargeError}, as all that follow */
export function add({ numerator: n, denominator: d }, { numerator: m, denominator: e }) {
  if (isSame(d, e)) return quotient(sum(n, m), d);
  return quotient(sum(product(n, e), product(m, d)), product(d, e));
}

/** @type {(a: Form, b: Form) => Form} */
export function multiply(a, b) {
  return quotient(product(a.numerator, b.numerator), product(a.denominator, b.denominator));
}

/** Returns the form of 1 / a, for a other than 0. @param {Form} a */
export function inverse({ numerator, denominator }) {
  return quotient(denominator, numerator);
}

/** Returns the form of a power. Unless the exponent is whole, a must be positive.
 * @type {(a: Form, exponent: Fraction) => Form} */
export function power(a, exponent) {
  const size = magnitude(exponent.n);
  const single = singleOf(a);
  /** @type {(factor: [Atom, Fraction]) => [Atom, Fraction]} */
  const raised = ([atom, e]) => [atom, fractions.multiply(e, exponent)];
  if (single) {
    const [{ powers }, c] = single;
    if (isWhole(exponent) && size * BigInt(bits(c)) <= MAX_BITS) {
      return termOf(fractions.power(c, exponent.n), powers.map(raised));
    }
    if (c.n > 0n && powers.every(isPositive)) return termOf(ONE, [...factors(c), ...powers].map(raised));
  }
  if (isWhole(exponent)) {
    if (size > MAX_TERMS) throw new TooLargeError();
    let result = rational(ONE);
    for (let n = 0n; n < size; n += 1n) result = multiply(result, a);
    return exponent.n >= 0n ? result : inverse(result);
  }
  const floor = whole(fractions.floor(exponent));
  const root = termOf(ONE, [[makeAtom("sum", a), fractions.subtract(exponent, floor)]]);
  return floor.n ? multiply(root, power(a, floor)) : root;
}

/** @param {[Atom, Fraction]} factor */
function isPositive([{ name }]) {
  return POSITIVE.has(name);
}

/** Returns the form of e to the power of a. @param {Form} a */
export function exp(a) {
  if (!isOne(a.denominator)) return atom("exp", a);
  let result = rational(ONE);
  for (const [monomial, c] of a.numerator.values()) {
    const [base, exponent] = monomial.powers[0] ?? [null, ZERO];
    const isSingle = monomial.powers.length === 1 && exponent.n === 1n && isWhole(exponent);
    let factor;
    if (isSingle && base.name === "ln of" && base.of.numerator) factor = power(base.of, c); // exp(ln(x)) is x
    else {
      const of = isSingle && base.name === "ln" ? makeAtom("prime", base.of) : makeAtom("exp", monomial);
      factor = termOf(ONE, [[of, c]]);
    }
    result = multiply(result, factor);
  }
  return result;
}

/** Returns the form of the natural logarithm of a, which must be positive. @param {Form} a */
export function ln(a) {
  const single = singleOf(a);
  if (!single || single[1].n < 0n || !single[0].powers.every(isPositive)) return atom("ln of", a);
  /** @type {Polynomial} */ let result = new Map();
  for (const [base, exponent] of [...factors(single[1]), ...single[0].powers]) {
    let monomial;
    if (base.name === "exp") {
      if (!base.of.powers) return atom("ln of", a);
      monomial = base.of; // ln(exp(x)) is x
    } else monomial = makeMonomial([[base.name === "prime" ? makeAtom("ln", base.of) : makeAtom("ln of", base), ONE]]);
    result = sum(result, polynomial(monomial, exponent));
  }
  return quotient(result, WHOLE);
}

/** Returns the form of the sine of an angle in radians. @param {Form} a */
export function sin(a) {
  const turns = halfTurns(a);
  if (turns) return sine(turns);
  const arc = arcOf(a);
  if (!arc) return atom("sin", a);
  return arc.name === "asin" ? arc.of : multiply(arc.of, power(squareSum(arc.of, ONE), { n: -1n, d: 2n }));
}

/** Returns the form of the cosine of an angle in radians. @param {Form} a */
export function cos(a) {
  const turns = halfTurns(a);
  if (turns) return sine(fractions.subtract(HALF, turns));
  const arc = arcOf(a);
  if (!arc) return atom("cos", a);
  const isSine = arc.name === "asin";
  return power(squareSum(arc.of, isSine ? MINUS_ONE : ONE), { n: isSine ? 1n : -1n, d: 2n });
}

/** Returns the form of the angle from -pi/2 to pi/2 with this sine. a must be from 0 to 1. @param {Form} a */
export function asin(a) {
  const index = SINES.findIndex(({ id }) => id === a.id);
  return index < 0 ? atom("asin", a) : ofPi(index);
}

/** Returns the form of the angle from -pi/2 to pi/2 with this tangent. a must not be below 0. @param {Form} a */
export function atan(a) {
  for (let k = 0; k < 6; k += 1) {
    const tangent = multiply(SINES[k], inverse(SINES[6 - k]));
    if (!add(a, multiply(rational(MINUS_ONE), tangent)).numerator.size) return ofPi(k);
  }
  return atom("atan", a);
}

/** Returns the form of k*pi/12. @param {number} k */
function ofPi(k) {
  return multiply(rational(fractions.fraction(BigInt(k), 12n)), PI);
}

/** Returns q for the form of q*pi, else null. @param {Form} a */
export function halfTurns(a) {
  if (!a.numerator.size) return ZERO;
  const single = singleOf(a);
  return single?.[0].id === PI_ONLY.id ? single[1] : null;
}

/** Returns the form of sin(q*pi). Other rational multiples of pi have no rational sine (Niven, Irrational Numbers,
 * corollary 3.12). @type {(q: Fraction) => Form} */
function sine(q) {
  q = fractions.subtract(q, whole(2n * fractions.floor(q, TWO)));
  if (q.n >= q.d) return multiply(rational(MINUS_ONE), sine(fractions.subtract(q, ONE)));
  if (2n * q.n > q.d) return sine(fractions.subtract(ONE, q));
  return 12n % q.d ? atom("sine", q) : SINES[Number((12n * q.n) / q.d)];
}

/** Returns the name "asin" or "atan", and of what, for the form of one, else null. @param {Form} a */
function arcOf(a) {
  const single = singleOf(a);
  if (!single || keyOf(single[1]) !== keyOf(ONE) || single[0].powers.length !== 1) return null;
  const [base, exponent] = single[0].powers[0];
  return (base.name === "asin" || base.name === "atan") && keyOf(exponent) === keyOf(ONE) ? base : null;
}

/** Returns the form of 1 + sign * x^2. @type {(x: Form, sign: Fraction) => Form} */
function squareSum(x, sign) {
  return add(rational(ONE), multiply(rational(sign), multiply(x, x)));
}

/** Returns the prime factors of a positive number, and the exponent of each. What is left after division by small
 * primes counts as prime, which an identity does not need. @param {Fraction} value */
function factors({ n, d }) {
  /** @type {[Atom, Fraction][]} */ const found = [];
  for (let [number, sign] of [[n, 1n], [d, -1n]]) {
    for (const prime of PRIMES) {
      if (number === 1n) break;
      let exponent = 0n;
      for (; number % prime === 0n; exponent += sign) number /= prime;
      if (exponent) found.push([makeAtom("prime", prime), whole(exponent)]);
    }
    if (number > 1n) found.push([makeAtom("prime", number), whole(sign)]);
  }
  return found;
}

/** Returns the form of a quotient. d is not 0. @type {(n: Polynomial, d: Polynomial) => Form} */
function quotient(n, d) {
  n = new Map([...n].filter(([, [, c]]) => c.n));
  if (!n.size) return makeForm(n, WHOLE);
  const ratio = d.size > 1 && n.size === d.size ? ratioOf(n, d) : null;
  if (ratio) [n, d] = [ratio, WHOLE];
  if (d.size === 1 && !isOne(d)) {
    const [divisor] = d.values();
    const quotients = [...n.values()].map((term) => divided(term, divisor)).reduce(sum);
    [n, d] = [quotients, WHOLE];
  }
  const isLong = [...n.values()].some(([, c]) => bits(c) > MAX_BITS);
  if (Math.max(n.size, d.size) > MAX_TERMS || isLong) throw new TooLargeError();
  return makeForm(n, d);
}

/** Returns n / d if that is one term, else null. @type {(n: Polynomial, d: Polynomial) => Polynomial | null} */
function ratioOf(n, d) {
  const [divisor] = d.values();
  return [...n.values()].map((term) => divided(term, divisor)).find((ratio) => isSame(product(ratio, d), n)) ?? null;
}

/** @type {(a: [Monomial, Fraction], b: [Monomial, Fraction]) => Polynomial} */
function divided([monomial, c], [{ powers }, d]) {
  const inverted = powers.map(([atom, e]) => /** @type {[Atom, Fraction]} */ ([atom, fractions.negative(e)]));
  return termOf(fractions.multiply(c, fractions.inverse(d)), [...monomial.powers, ...inverted]).numerator;
}

/** @type {(a: Polynomial, b: Polynomial) => boolean} */
function isSame(a, b) {
  return a.size === b.size && [...a].every(([id, [, c]]) => keyOf(c) === keyOf(coefficient(b, id)));
}

/** @type {(p: Polynomial, id: number) => Fraction} */
function coefficient(p, id) {
  return p.get(id)?.[1] ?? ZERO;
}

/** @type {(a: Polynomial, b: Polynomial) => Polynomial} */
function sum(a, b) {
  const result = new Map(a);
  for (const [id, [monomial, c]] of b) {
    const total = fractions.add(coefficient(result, id), c);
    if (total.n) result.set(id, [monomial, total]);
    else result.delete(id);
  }
  return result;
}

/** @type {(a: Polynomial, b: Polynomial) => Polynomial} */
function product(a, b) {
  if (a.size * b.size > MAX_TERMS ** 2) throw new TooLargeError();
  /** @type {Polynomial} */ let result = new Map();
  for (const [m, c] of a.values()) {
    for (const [n, d] of b.values()) {
      result = sum(result, termOf(fractions.multiply(c, d), [...m.powers, ...n.powers]).numerator);
    }
  }
  return result;
}

/** Returns the form of a product of powers of atoms, which is a polynomial.
 * @type {(c: Fraction, powers: [Atom, Fraction][]) => Form} */
function termOf(c, powers) {
  /** @type {Map<number, [Atom, Fraction]>} */ const exponents = new Map();
  for (const [base, e] of powers) {
    exponents.set(base.id, [base, fractions.add(exponents.get(base.id)?.[1] ?? ZERO, e)]);
  }
  /** @type {Form[]} */ const factors = [];
  /** @type {[Atom, Fraction][]} */ const kept = [];
  for (let [base, exponent] of exponents.values()) {
    const floor = fractions.floor(exponent);
    const rest = fractions.subtract(exponent, whole(floor));
    if (base.name === "prime" && magnitude(floor) * BigInt(bitLength(base.of)) <= MAX_BITS) {
      c = fractions.multiply(c, fractions.power(whole(base.of), floor));
      exponent = rest;
    } else if (base.name === "sum" && floor > 0n && isOne(base.of.denominator)) {
      factors.push(power(base.of, whole(floor)));
      exponent = rest;
    } else if (base.name === "sin" && isWhole(exponent) && floor > 1n) {
      const square = squareSum(atom("cos", base.of), MINUS_ONE);
      for (let n = 0n; n < floor / 2n; n += 1n) factors.push(square);
      exponent = whole(floor % 2n);
    }
    if (exponent.n) kept.push([base, exponent]);
  }
  return factors.reduce(multiply, makeForm(polynomial(makeMonomial(kept), c), WHOLE));
}

/** @param {Fraction} value */
function isWhole({ d }) {
  return d === 1n;
}

/** @param {Fraction} value */
function bits({ n, d }) {
  return Math.max(bitLength(n), bitLength(d));
}

export const PI = atom("pi");
const [PI_ONLY] = /** @type {[Monomial, Fraction]} */ (singleOf(PI));

/** The forms of sin(k*pi/12). */
const SINES = [0n, null, 1n, 2n, 3n, null, 4n].map((square, index) => {
  if (square !== null) return square ? power(rational(fractions.fraction(square, 4n)), HALF) : rational(ZERO);
  const [six, two] = [6n, 2n].map((n) => power(rational(whole(n)), HALF));
  return multiply(rational({ n: 1n, d: 4n }), add(six, index === 1 ? multiply(rational(MINUS_ONE), two) : two));
});
lasting = new Map(ids);
