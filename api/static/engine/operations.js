// @ts-nocheck
// Written by `make tables` from datagen/operations. Do not edit.

export const LOWEST = 2;
export const NOWHERE = -1;
export const MIN_DIVISOR = 3;
/** The numbers of the kinds of slots, by name. @type {Record<string, number>} */
export const KIND = {"QUESTION": 0, "A_FIELD": 1, "B_FIELD": 2, "A_SIGN": 3, "A_DIGIT": 4, "A_ZERO": 5, "B_SIGN": 6, "B_SIGN_OF_SUM": 7, "B_DIGIT": 8, "B_ZERO": 9, "ADD_OR_SUBTRACT": 10, "SUM_LOWEST": 11, "SUM_DIGIT": 12, "ROW_MARK": 13, "MULTIPLIER": 14, "FIRST_DIGIT": 15, "FIRST_CARRY": 16, "PRODUCT_DIGIT": 17, "PRODUCT_CARRY": 18, "REMAINDER_MARK": 19, "REMAINDER_COPY": 20, "REMAINDER_ZERO": 21, "BROUGHT_DOWN": 22, "BROUGHT_ZERO": 23, "DIVIDEND_SIGN": 24, "QUOTIENT_DIGIT": 25, "REMAINDER_DIGIT": 26, "REMAINDER_CARRY": 27, "QUOTIENT_ROUNDING": 28, "EXACT_MARK": 29, "SUM_BELOW": 30, "SUM_HALF": 31, "SUM_KEPT": 32, "PRODUCT_BELOW": 33, "PRODUCT_HALF": 34, "PRODUCT_KEPT": 35, "ROUNDING": 36, "RESULT_MARK": 37, "SUM_RESULT": 38, "PRODUCT_RESULT": 39, "ROUNDED_RESULT": 40, "ROUNDED_TOP": 41, "QUOTIENT_RESULT": 42, "SUM_SIGN": 43, "SIGN": 44, "NAN": 45, "EQUALS": 46, "ANSWER_DIGIT": 47, "ANSWER_ZERO": 48, "ANSWER_POINT": 49, "ANSWER_MINUS": 50, "ANSWER_N": 51, "ANSWER_A": 52, "END": 53, "LAST_DIGIT": 54, "A_BELOW": 55};
export const FIELDS = new Set([1, 2]);
export const COPIES = new Set([4, 8, 55]);
export const ROW_ENDS = new Set([29, 37]);
export const FAR = new Map([[3, new Set([1])], [6, new Set([2])], [7, new Set([2])], [43, new Set([38, 40, 41])], [44, new Set([39, 40, 41, 42])]]);
const floorDivide = (a, b) => (b ? (a - modulo(a, b)) / b : b);
const modulo = (a, b) => (b ? ((a % b) + b) % b : b);


function exactSum(a, b, unit) {
  return [(a + b), unit];
}

function size(shape) {
  let d, drop, n;
  d = Math.max(shape.aPlaces, shape.bPlaces);
  drop = Math.max(0, (d - shape.places));
  n = Math.max(((shape.aDigits + d) - shape.aPlaces), ((shape.bDigits + d) - shape.bPlaces), drop);
  return [d, n, drop];
}

function positionOf(positions, index) {
  return ((0 <= index && index < positions.length) ? positions[index] : -1);
}

function copies(plan, operand, lowest, count, kinds, nBelow = 0) {
  let digit, index, query, row, source, sources, zero;
  [digit, zero] = kinds;
  row = [];
  for (index = 0; index < count; index += 1) {
    source = positionOf(operand.digits, ((lowest + index) + operand.places));
    query = [0, ((2 + source) - operand.field[0])];
    if (source === -1) {
      row.push(plan.put(zero, 0, (2 + index)));
    } else {
      if (index < nBelow) {
        sources = [source, ...row.slice(-1)];
        row.push(plan.put(KIND.A_BELOW, 0, (2 + index), query, sources));
      } else {
        row.push(plan.put(digit, 0, (2 + index), query, [source]));
      }
    }
  }
  return row;
}

function exactKind(kept, half, below, index, drop) {
  if (index >= drop) {
    return kept;
  }
  return ((index === (drop - 1)) ? half : below);
}

function rounded(plan, exact, drop, extra = 0) {
  let before, j, kind, query, result, rounding, sources;
  query = [0, ((drop - 1) + 2)];
  sources = [exact[(drop - 1)], positionOf(exact, drop), positionOf(exact, (drop - 2))];
  rounding = plan.put(KIND.ROUNDING, 0, 0, query, sources);
  plan.put(KIND.RESULT_MARK);
  result = [];
  for (j = drop; j < (exact.length + extra); j += 1) {
    before = ((j > drop) ? [exact[(j - 1)], result.at(-1)] : [-1, rounding]);
    kind = ((j < exact.length) ? KIND.ROUNDED_RESULT : KIND.ROUNDED_TOP);
    sources = [positionOf(exact, j), ...before];
    result.push(plan.put(kind, 0, (j + 2), [0, (j + 2)], sources));
  }
  return result;
}

function sumLayout(plan, shape, question) {
  let a, aSign, b, bSign, before, d, drop, j, kind, magnitude, n, operator, sources, total;
  [d, n, drop] = size(shape);
  aSign = plan.put(KIND.A_SIGN, undefined, undefined, undefined, question.a.field);
  a = copies(plan, question.a, -d, (n + 1), [4, 5]);
  bSign = plan.put(KIND.B_SIGN_OF_SUM, undefined, undefined, undefined, [...question.b.field, question.op]);
  b = copies(plan, question.b, -d, (n + 1), [8, 9]);
  operator = plan.put(KIND.ADD_OR_SUBTRACT, undefined, undefined, undefined, [aSign, bSign]);
  total = [];
  for (j = 0; j < (n + 1); j += 1) {
    kind = (j ? KIND.SUM_DIGIT : KIND.SUM_LOWEST);
    before = (j ? [a[(j - 1)], b[(j - 1)], total[(j - 1)]] : []);
    sources = [operator, a[j], b[j], ...before];
    total.push(plan.put(kind, 0, (j + 2), [0, (j + 2)], sources));
  }
  plan.put((drop ? KIND.EXACT_MARK : KIND.RESULT_MARK));
  magnitude = [];
  for (j = 0; j < (n + 1); j += 1) {
    before = (j ? [total[(j - 1)], magnitude[(j - 1)]] : []);
    kind = exactKind(KIND.SUM_KEPT, KIND.SUM_HALF, KIND.SUM_BELOW, j, drop);
    kind = (drop ? kind : KIND.SUM_RESULT);
    sources = [total[n], total[j], ...before];
    magnitude.push(plan.put(kind, 0, (j + 2), [0, (j + 2)], sources));
  }
  plan.result = (drop ? rounded(plan, magnitude, drop) : magnitude);
  plan.resultPlaces = Math.min(d, shape.places);
  sources = [aSign, total[n], ...plan.result];
  plan.sign = plan.put(KIND.SUM_SIGN, 0, 0, [0, (n + 2)], sources);
}

function resultLength(digits, drop, extra = 0) {
  return ((1 + digits) + (drop ? (((2 + digits) + extra) - drop) : 0));
}

function sumLength(shape) {
  let _, drop, n;
  [_, n, drop] = size(shape);
  return (((3 + (3 * (n + 1))) + resultLength((n + 1), drop)) + 1);
}

function exactDifference(a, b, unit) {
  return [(a - b), unit];
}

function exactProduct(a, b, unit) {
  return [(a * b), (unit * unit)];
}

function productLayout(plan, shape, question) {
  let a, aSign, b, bSign, before, carry, coordinates, digits, drop, j, k, kind, m, magnitude, multiplier, nA, nB, old, places, query, row, source, sources;
  [nA, nB] = [shape.aDigits, shape.bDigits];
  aSign = plan.put(KIND.A_SIGN, undefined, undefined, undefined, question.a.field);
  a = copies(plan, question.a, -shape.aPlaces, nA, [4, 5]);
  bSign = plan.put(KIND.B_SIGN, undefined, undefined, undefined, question.b.field);
  b = copies(plan, question.b, -shape.bPlaces, nB, [8, 9]);
  row = [];
  digits = [];
  for (k = 1; k < (nB + 1); k += 1) {
    plan.put(KIND.ROW_MARK, k);
    multiplier = plan.put(KIND.MULTIPLIER, k, 0, [0, ((k - 1) + 2)], [b[(k - 1)]]);
    [old, row, carry] = [row, [], -1];
    for (j = 0; j < nA; j += 1) {
      query = [k, (j + 2)];
      sources = [multiplier, a[j], positionOf(old, (j + 1)), carry];
      kind = ((k > 1) ? KIND.PRODUCT_DIGIT : KIND.FIRST_DIGIT);
      row.push(plan.put(kind, k, (j + 2), query, sources));
      kind = ((k > 1) ? KIND.PRODUCT_CARRY : KIND.FIRST_CARRY);
      carry = plan.put(kind, k, ((j + 1) + 2), query, sources);
    }
    row.push(carry);
    digits.push([row[0], [k, 2]]);
  }
  for (j = 1; j < (nA + 1); j += 1) {
    digits.push([row[j], [nB, (j + 2)]]);
  }
  places = (shape.aPlaces + shape.bPlaces);
  drop = Math.max(0, (places - shape.places));
  plan.resultPlaces = Math.min(places, shape.places);
  if (drop > digits.length) {
    plan.put(KIND.RESULT_MARK);
  } else {
    plan.put((drop ? KIND.EXACT_MARK : KIND.RESULT_MARK));
    magnitude = [];
    for ([m, [source, coordinates]] of digits.entries()) {
      kind = exactKind(KIND.PRODUCT_KEPT, KIND.PRODUCT_HALF, KIND.PRODUCT_BELOW, m, drop);
      kind = (drop ? kind : KIND.PRODUCT_RESULT);
      before = ((m < (drop - 1)) ? magnitude.slice(-1) : []);
      magnitude.push(plan.put(kind, 0, (m + 2), coordinates, [source, ...before]));
    }
    plan.result = (drop ? rounded(plan, magnitude, drop, 1) : magnitude);
  }
  plan.sign = plan.put(KIND.SIGN, undefined, undefined, undefined, [aSign, bSign, ...plan.result]);
}

function productLength(shape) {
  let drop, nA, nB, result;
  [nA, nB] = [shape.aDigits, shape.bDigits];
  drop = Math.max(0, ((shape.aPlaces + shape.bPlaces) - shape.places));
  result = ((drop > (nA + nB)) ? 1 : resultLength((nA + nB), drop, 1));
  return (((((2 + nA) + nB) + ((2 * nB) * (1 + nA))) + result) + 1);
}

function exactQuotient(a, b, unit) {
  return [a, b];
}

function rows(shape) {
  let beforePoint;
  beforePoint = ((shape.aDigits - shape.aPlaces) - (shape.bDigits - shape.bPlaces));
  return ((beforePoint + shape.places) + 3);
}

function firstRemainder(plan, a, width) {
  let j, query, row, source;
  plan.put(KIND.REMAINDER_MARK, 1);
  row = [];
  for (j = 0; j < (width + 1); j += 1) {
    source = ((a.length - (width - 2)) + j);
    if ((j < (width - 2)) && (source >= 0)) {
      query = [0, (source + 2)];
      row.push(plan.put(KIND.REMAINDER_COPY, 1, (j + 2), query, [a[source]]));
    } else {
      row.push(plan.put(KIND.REMAINDER_ZERO, 1, (j + 2)));
    }
  }
  return row;
}

function bringDown(plan, a, index, row) {
  if (index < 0) {
    return plan.put(KIND.BROUGHT_ZERO, row, (2 - 1));
  }
  return plan.put(KIND.BROUGHT_DOWN, row, (2 - 1), [0, (index + 2)], [a[index]]);
}

function divisionRow(plan, k, b, dividend, a, below) {
  let carry, digit, j, leading, mark, query, row, sign, sources, width;
  width = (b.length - 1);
  leading = [k, (width + 2)];
  sign = plan.put(KIND.DIVIDEND_SIGN, (k + 1), 0, leading, [dividend.at(-1)]);
  sources = [...dividend.slice((-3 - 1)), ...b.slice((width - 3), width)];
  digit = plan.put(KIND.QUOTIENT_DIGIT, (k + 1), 0, leading, sources);
  mark = ((below === null) ? -1 : bringDown(plan, a, below, (k + 1)));
  row = [];
  carry = -1;
  for (j = 0; j < (width + 1); j += 1) {
    query = [(k + 1), (j + 2)];
    if (j) {
      sources = [sign, digit, b[(j - 1)], dividend[(j - 1)], carry];
      carry = plan.put(KIND.REMAINDER_CARRY, (k + 1), (j + 2), query, sources);
    }
    sources = [sign, digit, b[j], dividend[j], carry];
    if (below === null) {
      row.push(plan.put(KIND.REMAINDER_DIGIT, (k + 1), (j + 2), query, sources));
    } else {
      mark = plan.put(KIND.LAST_DIGIT, (k + 1), (j + 2), query, [...sources, mark]);
      row.push(mark);
    }
  }
  return [[sign, digit], row];
}

function quotientResult(plan, quotient, rounding) {
  let before, last, m, slot, sources;
  plan.put(KIND.RESULT_MARK);
  last = (quotient.length - 2);
  for (m = 0; m < (last + 1); m += 1) {
    before = (m ? [...quotient[((last - m) + 1)], plan.result.at(-1)] : [-1, -1, rounding]);
    sources = [...quotient[(last - m)], ...before];
    slot = plan.put(KIND.QUOTIENT_RESULT, 0, (m + 2), [((last - m) + 2), 0], sources);
    plan.result.push(slot);
  }
}

function quotientLayout(plan, shape, question) {
  let a, aSign, b, bSign, below, down, k, nA, nB, nBelow, nRow, quotient, remainder, rounding, signDigit, sources, width;
  [nA, nB] = [shape.aDigits, shape.bDigits];
  width = Math.max(nB, 3);
  plan.resultPlaces = shape.places;
  nRow = rows(shape);
  nBelow = ((nRow > 1) ? ((nA - (width - 2)) - nRow) : 0);
  aSign = plan.put(KIND.A_SIGN, undefined, undefined, undefined, question.a.field);
  a = copies(plan, question.a, -shape.aPlaces, nA, [4, 5], nBelow);
  bSign = plan.put(KIND.B_SIGN, undefined, undefined, undefined, question.b.field);
  b = copies(plan, question.b, (-shape.bPlaces - (width - nB)), (width + 1), [8, 9]);
  if (shape.byZero) {
    plan.put(KIND.RESULT_MARK);
    plan.put(KIND.NAN);
    return;
  }
  if (nRow <= 1) {
    plan.put(KIND.RESULT_MARK);
    plan.sign = plan.put(KIND.SIGN, undefined, undefined, undefined, [aSign, bSign]);
    return;
  }
  remainder = firstRemainder(plan, a, width);
  quotient = [];
  for (k = 1; k < (nRow + 1); k += 1) {
    down = bringDown(plan, a, ((nA - (width - 2)) - k), k);
    below = ((k === nRow) ? (nBelow - 1) : null);
    [signDigit, remainder] = divisionRow(plan, k, b, [down, ...remainder], a, below);
    quotient.push(signDigit);
  }
  sources = [...quotient.at(-1), quotient.at(-2)[1], remainder.at(-1)];
  rounding = plan.put(KIND.QUOTIENT_ROUNDING, 0, 0, [(nRow + 1), (width + 2)], sources);
  quotientResult(plan, quotient, rounding);
  plan.sign = plan.put(KIND.SIGN, undefined, undefined, undefined, [aSign, bSign, ...plan.result]);
}

function quotientLength(shape) {
  let nRow, operands, width;
  width = Math.max(shape.bDigits, 3);
  nRow = rows(shape);
  operands = (((2 + shape.aDigits) + width) + 1);
  if (shape.byZero || (nRow <= 1)) {
    return (operands + 2);
  }
  return ((((((((operands + 1) + width) + 1) + (nRow * ((2 * width) + 4))) + 3) + nRow) - 1) + 1);
}


/** The operations by their signs (`Operation` of datagen/operations/base.py).
 * @type {Record<string, {name: string, symbol: string, spellings: string[], rank: number,
 * colour: string, marker: string, divides: boolean, has_point: boolean, exact: Function,
 * layout: Function, length: Function}>} */
export const OPERATIONS = {
  "+": { name: "addition", symbol: "+", spellings: ["+", "plus", "added to"], rank: 1, colour: "blue", marker: "s", divides: false, has_point: false, exact: exactSum, layout: sumLayout, length: sumLength },
  "-": { name: "subtraction", symbol: "\u2212", spellings: ["-", "\u2014", "minus", "less", "take away"], rank: 1, colour: "orange", marker: "D", divides: false, has_point: false, exact: exactDifference, layout: sumLayout, length: sumLength },
  "*": { name: "multiplication", symbol: "\u00d7", spellings: ["*", "\u00d7", "\u2715", "\u2716", "\u2a2f", "\u2217", "\u00b7", "\u22c5", "\u2219", "\u2022", "x", "\uff58", "\uff38", "\u0445", "\u0425", "times", "multiplied by"], rank: 2, colour: "green", marker: "^", divides: false, has_point: false, exact: exactProduct, layout: productLayout, length: productLength },
  "/": { name: "division", symbol: "\u00f7", spellings: ["/", "\u00f7", "\u2215", "\u2044", "\u2797", ":", "over", "divided by"], rank: 2, colour: "purple", marker: "v", divides: true, has_point: true, exact: exactQuotient, layout: quotientLayout, length: quotientLength },
};
