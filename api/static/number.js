// Numbers with their digits in groups of three.

import { createElement } from "./format.js";

const MANY = /\d{5}/; // so many digits are hard to read without groups
const THOUSANDS = /(?<=\d)(?=(?:\d{3})+$)/;

/**
 * Returns an element with a number. The gaps between its groups are margins: a copy of the text has no spaces,
 * and screen readers read one number.
 * @template {keyof HTMLElementTagNameMap} K
 * @param {K} tag
 * @param {string} className
 * @param {string} text
 */
export function createNumber(tag, className, text) {
  const element = createElement(tag, className);
  element.translate = false;
  const [whole, places = ""] = text.split(".");
  const [first, ...rest] = MANY.test(whole) ? whole.split(THOUSANDS) : [whole];
  const [firstPlaces = "", ...restPlaces] = MANY.test(places) ? (places.match(/.{1,3}/g) ?? []) : [places];
  element.append(first, ...rest.flatMap(group), firstPlaces && `.${firstPlaces}`, ...restPlaces.flatMap(group));
  return element;
}

/** Returns a group after a place where a line may break.
 * @param {string} digits */
function group(digits) {
  return [createElement("wbr"), createElement("span", "group", digits)];
}
