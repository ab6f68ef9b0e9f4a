// @ts-nocheck
// Written by `make tables` from calcgpt/inference/phrases.py. Do not edit.
import * as py from "./python.js";
import { ExpressionError } from "./errors.js";
import tables from "./tables.js";
import { longestFirst } from "./text.js";
const DIGITS = py.frozenset(["0", "1", "2", "3", "4", "5", "6", "7", "8", "9"]);
const _LEADING = longestFirst(tables.LEADING);
const _PLACES = py.re.compile(py.get(tables.PATTERNS, "places"));
const _NEAREST = py.re.compile(py.get(tables.PATTERNS, "nearest"));
const _LETTERS = py.frozenset("abcdefghijklmnopqrstuvwxyz");
const _TAIL = 60;
export function withoutPhrases(normal) { let asked, between, end, first, isChanged, leading, number, phrase, places, reason, start, tail; [start, end, places] = [0, py.len(normal), null]; while (py.truth((leading = _LEADING.match(normal, start)))) { start = leading.end(); while ([" ", ",", ":"].includes(py.slice(normal, start, py.add(start, 1)))) { start = py.iadd(start, 1); } } [isChanged, between] = [true, " "]; while (py.truth(isChanged)) { while ((py.gt(end, start) && py.contains(between, py.get(normal, py.sub(end, 1))))) { end = py.sub(end, 1); } [isChanged, between] = [false, " ,"]; for (phrase of py.each(tables.TRAILING)) { first = py.sub(end, py.len(phrase)); if ((py.truth(py.call(normal, "endswith", phrase, start, end)) && !(py.contains(_LETTERS, py.get(phrase, 0)) && py.gt(first, start) && py.contains(_LETTERS, py.get(normal, py.sub(first, 1)))))) { [end, isChanged] = [first, true]; break; } } tail = py.max(start, py.sub(end, _TAIL)); if (((places == null) && py.truth((asked = _PLACES.search(py.slice(normal, tail, end)))))) { number = py.get(asked, 1); places = (py.contains(DIGITS, py.get(number, 0)) ? py.int(number) : py.call(tables.NUMBER_WORDS, "get", number)); } else { if (((places == null) && py.truth((asked = _NEAREST.search(py.slice(normal, tail, end)))))) { places = py.call(tables.NEAREST, "get", py.get(asked, 1)); } else { continue; } } if ((places != null)) { [end, isChanged] = [py.add(tail, asked.start()), true]; } } if (((places != null) && py.gt(places, 30))) { reason = py.call(py.get(tables.MESSAGES, "asked-places"), "format", { n: 30 }); throw new ExpressionError("too-many-places", reason, end, py.len(normal)); } return [py.add(py.add(py.mul(" ", start), py.slice(normal, start, end)), py.mul(" ", py.sub(py.len(normal), end))), places]; }
