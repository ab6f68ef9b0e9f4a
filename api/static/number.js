// Numbers with their digits in groups of three.

import { POINT, createElement, formatNumbers } from "./format.js";

const MANY = /\d{5}/; // so many digits are hard to read without groups
const MAX_DIGITS = 40; // of a fraction in decimal notation
const THOUSANDS = /(?<=\d)(?=(?:\d{3})+$)/;

/** Returns an element with a number. The gaps between its groups are margins: a copy of the text has no spaces, and
 * screen readers read one number.
 * @template {keyof HTMLElementTagNameMap} K
 * @param {K} tag
 * @param {string} className
 * @param {string} text */
export function createNumber(tag, className, text) {
  const element = createElement(tag, className);
  element.translate = false;
  const [whole, places = ""] = text.split(POINT);
  const [first, ...rest] = MANY.test(whole) ? whole.split(THOUSANDS) : [whole];
  const [firstPlaces = "", ...restPlaces] = MANY.test(places) ? (places.match(/.{1,3}/g) ?? []) : [places];
  element.append(first, ...rest.flatMap(group), firstPlaces && `${POINT}${firstPlaces}`, ...restPlaces.flatMap(group));
  return element;
}

/** Returns a fraction and, unless that is long, its decimal notation with the period in parentheses: `1/12 = 0.08(3)`.
 * @param {string} fraction */
export function formatFraction(fraction) {
  const [numerator, denominator = 1n] = fraction.replace("-", "").split("/").map(BigInt);
  const whole = String(numerator / denominator);
  const positions = new Map(); // of the digits, by the remainder before them
  let digits = "";
  let remainder = numerator % denominator;
  for (; remainder && !positions.has(remainder); remainder = (10n * remainder) % denominator) {
    if (whole.length + digits.length === MAX_DIGITS) return fraction.replace("-", "−");
    positions.set(remainder, digits.length);
    digits += (10n * remainder) / denominator;
  }
  const start = positions.get(remainder) ?? digits.length;
  const period = digits.slice(start) && `(${digits.slice(start)})`;
  const sign = fraction.startsWith("-") ? "-" : "";
  return `${fraction} = ${formatNumbers(`${sign}${whole}.${digits.slice(0, start)}${period}`)}`.replace("-", "−");
}

/** Returns a group after a place where a line may break. @param {string} digits */
function group(digits) {
  return [createElement("wbr"), createElement("span", "group", digits)];
}
