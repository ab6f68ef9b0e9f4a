"""Errors of expressions: what is not understood at a position, in plain words."""

import re

from calcgpt.errors import ExpressionError, ExpressionErrorKind
from calcgpt.inference import spelling
from calcgpt.inference.expression_tree import shorten
from calcgpt.inference.spelling import DIGITS, MESSAGES

NAMES = set(spelling.FUNCTIONS.values()) - set(spelling.OPERATIONS.values())
_UNKNOWN = re.compile(spelling.PATTERNS["unknown"])
_WORD = re.compile(spelling.PATTERNS["word"])
_FUNCTION = spelling.longest_first(spelling.FUNCTIONS)
_CONSTANT = re.compile(spelling.PATTERNS["constant"])
_TOKEN = re.compile(spelling.PATTERNS["token"])


def error_at(
    start: int, text: str, normal: str, is_operand: bool, last_sign: str, opening: tuple[str, int]
) -> ExpressionError:
    """Returns the error for what is at `start`. `is_operand` says that an operand is expected, not
    an operation; `last_sign` stands before the last operand, "" for none; `opening` is the last
    parenthesis, bar or pair of words that is open, and its position."""
    end = end_of_token(normal, start)
    character, typed = normal[start : start + 1], text[start:end]
    if character == "," and normal[start + 1 : start + 2] in DIGITS:
        return ExpressionError(ExpressionErrorKind.DECIMAL_COMMA, MESSAGES["comma"], start)
    is_function = _FUNCTION.match(normal, start) or _CONSTANT.match(normal, start)
    if is_function and not is_operand and character != "e":
        return missing_operation(normal, start, _factor_hint(last_sign))
    if is_operand and (unknown := _UNKNOWN.match(normal, start)):
        return unknown_word(text, *unknown.span())
    if _WORD.match(normal, start):
        word = normal[start:end]
        name = word if word in ("of", "off") else "unit"
        reason = MESSAGES[name].format(typed=repr(shorten(typed)), only=spelling.ONLY)
    elif is_operand:
        shown = repr(typed) if typed else MESSAGES["the-end"]
        hint = spelling.HINTS.get(character, "")
        reason = MESSAGES["operand"].format(typed=shown, hint=hint)
    elif character in DIGITS or character in ("(", "|"):
        hint = "" if character in DIGITS else _factor_hint(last_sign)
        return missing_operation(normal, start, hint)
    elif character in (",", ";"):
        reason = MESSAGES["one"]
    elif character == ")":
        reason = MESSAGES["closing"]
    elif character in ("", "="):
        reason = _not_closed(*opening)
    else:
        hint = spelling.HINTS_AFTER_NUMBER.get(character, "")
        reason = MESSAGES["sign"].format(typed=repr(typed), hint=hint)
    return ExpressionError(ExpressionErrorKind.SYNTAX, reason, start, end)


def unknown_word(text: str, start: int, end: int) -> ExpressionError:
    """Returns the error for text[start:end], a word that is not known."""
    typed = repr(shorten(text[start:end]))
    reason = MESSAGES["word"].format(typed=typed, only=spelling.ONLY)
    return ExpressionError(ExpressionErrorKind.SYNTAX, reason, start, end)


def _factor_hint(last_sign: str) -> str:
    """Returns why a product needs its sign after these: 6/2(3), sin 2(3)."""
    if last_sign in ("/", "^"):
        return MESSAGES["factor"].format(sign=last_sign)
    return MESSAGES["argument"].format(name=last_sign) if last_sign in NAMES else ""


def missing_operation(normal: str, start: int, hint: str) -> ExpressionError:
    """Returns the error for an operand where an operation is expected."""
    reason, end = MESSAGES["no-operation"].format(hint=hint), end_of_token(normal, start)
    return ExpressionError(ExpressionErrorKind.NO_OPERATION, reason, start, end)


def _not_closed(opening: str, position: int) -> str:
    if opening == "|":
        return MESSAGES["bar"].format(n=position)
    words = spelling.single_spaced(opening)
    between = [pair.rpartition(" ")[2] for pair in spelling.PAIRS if pair.startswith(words)]
    return MESSAGES["pair"].format(word=repr(" or ".join(between)))


def end_of_token(normal: str, start: int) -> int:
    """Returns the end of the number, word or character at `start`."""
    token = _TOKEN.match(normal, start)
    return token.end() if token else min(start + 1, len(normal))
