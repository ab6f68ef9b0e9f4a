// Formats numbers, probabilities and expressions for display.

const SIGNS = { "*": "×", "/": "÷", "-": "−" };
/** From here on the model is sure of a whole answer, and of a character. */
export const SURE = 0.97;
export const SURE_CHARACTER = 0.99;

/** `(1-2)*3` -> `(1−2)×3`; also an answer: `-5` -> `−5`, which screen readers do not pass over. */
export function pretty(expression) {
  return expression.replace(/[*/-]/g, (sign) => SIGNS[sign]);
}

/** Numbers as people write them: `4.0*31.0` -> `4×31` */
export function plain(expression) {
  return pretty(expression.replace(/\.0+(?!\d)/g, ""));
}

/** 1234567 -> `1,234,567` */
export function count(number) {
  return number.toLocaleString("en");
}

/** A probability with enough digits to differ from 100%, rounded down: 0.99987 -> `99.98%`. */
export function percent(probability) {
  if (probability >= 1 - 1e-6) return "99.9999%";
  if (probability < 1e-4) return "< 0.01%";
  const places = Math.max(2, Math.ceil(-Math.log10(1 - probability)) - 2);
  const digits = (Math.floor(probability * 10 ** (places + 2)) / 10 ** places).toFixed(places);
  return `${probability > 0.99 ? digits : Number(digits)}%`;
}

/** A share of tests, rounded down: 0.99996 -> `99.99%`; `100.00%` only for all. */
export function share(part) {
  return `${(Math.floor(part * 10000 + 1e-9) / 100).toFixed(2)}%`;
}

/** A confidence in words. */
export function inWords(probability) {
  if (probability >= 0.999) return "very sure";
  if (probability >= SURE) return "sure";
  if (probability >= 0.8) return "fairly sure";
  return probability >= 0.5 ? "unsure" : "guessing";
}

/** The shade of a probability, from 0, which is none, to 1. It grows with the nines that are missing. */
export function doubt(probability) {
  if (probability >= SURE_CHARACTER) return 0;
  return Math.sqrt(1 + Math.log10(1 - probability) / 2);
}

/** An element with a class and text. */
export function element(tag, className = "", text = "") {
  const made = document.createElement(tag);
  if (className) made.className = className;
  made.textContent = text;
  return made;
}
