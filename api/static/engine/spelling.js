// How people write numbers and operations: characters, words, separators, and hints for what is not
// understood (calcgpt/inference/spelling.py). expression.js reads expressions by these tables.

const TEN_DIGITS = "0123456789";
/** Typed character -> the usual one, so that positions in the text do not change.
 * @type {Map<string, string>} */
const NORMAL = new Map([
  // East Asian keyboards type full-width characters.
  ...pairs("０１２３４５６７８９＋－＊／＾％（）．，＝？", `${TEN_DIGITS}+-*/^%().,=?`),
  // Digits of Arabic, Persian and Hindi, and the Arabic signs of numbers.
  ...pairs("٠١٢٣٤٥٦٧٨٩", TEN_DIGITS),
  ...pairs("۰۱۲۳۴۵۶۷۸۹", TEN_DIGITS),
  ...pairs("०१२३४५६७८९", TEN_DIGITS),
  ...pairs("٫٬٪", ".,%"),
  ...pairs("−–‐‑‒﹣➖➕", "-------+"),
  ...pairs("[]{}［］｛｝", "()()()()"), // as school books write them
  // Marks that nobody sees, for example around a number that was copied.
  ...pairs("\u200b\u200c\u200d\u200e\u200f\u202a\u202b\u202c\u202d\u202e", " ".repeat(10)),
  ...pairs("\u2060\u2066\u2067\u2068\u2069\ufe0e\ufe0f\ufeff", " ".repeat(8)),
]);

/**
 * Returns usual characters for typed ones, one for one.
 * @param {string[]} typed
 */
export function normalize(typed) {
  return typed.map((character) => NORMAL.get(character) ?? character);
}

const PRODUCT_SIGNS = ["*", "×", "✕", "✖", "⨯", "∗", "·", "⋅", "∙", "•", ..."xｘＸхХ"]; // the last two are Cyrillic
/** The operations by their spellings. */
export const OPERATIONS = new Map(
  Object.entries({
    "+": ["+", "plus"],
    "-": ["-", "minus"],
    "*": [...PRODUCT_SIGNS, "times", "multiplied by", "of"],
    "/": ["/", "÷", "∕", "➗", "over", "divided by"],
    "^": ["^", "**"],
  }).flatMap(([operation, spellings]) => spellings.map((typed) => [typed, operation])),
);
export const SEPARATORS = ",_'’\u00a0\u202f\u2009"; // between thousands; the last three are spaces
const THOUSANDS = `[1-9][0-9]{0,2}(?<mark>[${SEPARATORS}])[0-9]{3}(?:\\k<mark>[0-9]{3})*(?![0-9])`;
const INDIAN = "[1-9][0-9]?(?:,[0-9]{2})+,[0-9]{3}(?![0-9])"; // 12,34,567
export const NUMBER = new RegExp(`(?:${THOUSANDS}|${INDIAN}|[0-9]+)(?:\\.[0-9]*)?|(?<![0-9.])\\.[0-9]+`, "uy");
export const WORD = /[A-Za-z]{2,}/y;
export const FRACTION = /[0-9]+[^\S\ufeff]*\//y;
export const SPACE = /^[^\S\ufeff]$/u;
export const OPERATION = new RegExp([...OPERATIONS.keys()].sort((a, b) => b.length - a.length).map(pattern).join("|"), "iy");
export const PREFIX = /[-+]|(?:minus|plus)(?![A-Za-z])/iy;
export const PERCENT = /%|per ?cent(?![A-Za-z])/iy;
export const AFTER_PERCENT = /(?:%|per ?cent)$/i;
export const SUPERSCRIPT = /[⁰¹²³⁴⁵⁶⁷⁸⁹]+/y;
export const ONLY = "this calculator has only numbers, + - * / ^ % and parentheses";
/** Hints for characters that are not understood, wherever they stand.
 * @type {Record<string, string>} */
const COMMON_HINTS = {
  ...hint("$€£¥₹₽°", "; write numbers without units"),
  ...hint("½¼¾⅓⅔", "; write 0.5 or (1/2), for example"),
  "—": "; to subtract, write -",
};
/** The same, where a number is expected.
 * @type {Record<string, string>} */
export const HINTS = { ...COMMON_HINTS, ...hint("√∛∜!πΠ∞∑∏∫|", `; ${ONLY}`) };
/** The same, where an operation is expected.
 * @type {Record<string, string>} */
export const HINTS_AFTER_NUMBER = {
  ...COMMON_HINTS,
  ...hint("kKmM", "; write numbers without units"),
  ...hint("xX", "; to multiply, write *"),
  ...hint("eE", "; write a number with all its digits"),
  ":": "; to divide, write /",
  "·": "; a decimal point is written .",
  ".": "; a number has one decimal point, and a comma separates thousands",
  ...hint("_'’", "; it may only separate thousands"),
};

/** Returns the pattern of an operation as it is typed.
 * @param {string} typed */
function pattern(typed) {
  if (!/^[a-z]/.test(typed)) return typed.replace(/[*+^]/g, "\\$&");
  return `${typed.replace(" ", "[ \\t\\n\\r\\f\\v]+")}(?![A-Za-z])`;
}

/** Returns the pairs of two texts' characters.
 * @param {string} typed
 * @param {string} usual
 * @returns {[string, string][]} */
function pairs(typed, usual) {
  return [...typed].map((character, index) => [character, usual[index]]);
}

/** Returns a hint by each of some characters.
 * @param {string} characters
 * @param {string} text */
function hint(characters, text) {
  return Object.fromEntries([...characters].map((character) => [character, text]));
}
