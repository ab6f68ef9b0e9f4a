"""How people write numbers and operations: characters, words, separators, and hints for what is not
understood. `calcgpt.inference.expression` reads expressions by these tables."""

from __future__ import annotations

import re

_TEN_DIGITS = "0123456789"
# Typed character -> the usual one. Both have length 1, so positions in the text do not change.
NORMAL: dict[int, int | str] = {
    # East Asian keyboards type full-width characters.
    **str.maketrans("０１２３４５６７８９＋－＊／＾％（）．，＝？", f"{_TEN_DIGITS}+-*/^%().,=?"),
    # Digits of Arabic, Persian and Hindi, and the Arabic signs of numbers.
    **str.maketrans("٠١٢٣٤٥٦٧٨٩", _TEN_DIGITS),
    **str.maketrans("۰۱۲۳۴۵۶۷۸۹", _TEN_DIGITS),
    **str.maketrans("०१२३४५६७८९", _TEN_DIGITS),
    **str.maketrans("٫٬٪", ".,%"),
    **str.maketrans("−–‐‑‒﹣➖➕", "-------+"),
    **str.maketrans("[]{}［］｛｝", "()()()()"),  # as school books write them
    # Marks that nobody sees, for example around a number that was copied.
    **dict.fromkeys(map(ord, "\u200b\u200c\u200d\u200e\u200f\u202a\u202b\u202c\u202d\u202e"), " "),
    **dict.fromkeys(map(ord, "\u2060\u2066\u2067\u2068\u2069\ufe0e\ufe0f\ufeff"), " "),
}
_PRODUCT_SIGNS = "*×✕✖⨯∗·⋅∙•xｘＸхХ"  # the last two are Cyrillic
OPERATIONS = {  # by their spellings
    **dict.fromkeys(("+", "plus"), "+"),
    **dict.fromkeys(("-", "minus"), "-"),
    **dict.fromkeys((*_PRODUCT_SIGNS, "times", "multiplied by", "of"), "*"),
    **dict.fromkeys(("/", "÷", "∕", "➗", "over", "divided by"), "/"),
    **dict.fromkeys(("^", "**"), "^"),
}
_SEPARATORS = ",_'’\u00a0\u202f\u2009"  # between thousands; the last three are spaces
NO_SEPARATORS = str.maketrans("", "", _SEPARATORS)

# Only groups of three digits are thousands: `12,5` is read as 12, then a comma. In India, further
# groups have two digits: `12,34,567`.
_THOUSANDS = (
    rf"[1-9][0-9]{{0,2}}(?P<mark>[{_SEPARATORS}])[0-9]{{3}}(?:(?P=mark)[0-9]{{3}})*(?![0-9])"
    r"|[1-9][0-9]?(?:,[0-9]{2})+,[0-9]{3}(?![0-9])"
)
NUMBER = re.compile(rf"(?:{_THOUSANDS}|[0-9]+)(?:\.[0-9]*)?|(?<![0-9.])\.[0-9]+")
_SPACE = r"[^\S\x1c-\x1f\x85]"  # as JavaScript's \s
SPACE = re.compile(f"{_SPACE}*")
DIGITS = re.compile("[0-9]*")
WORD = re.compile("[A-Za-z]{2,}")
_ANY_CASE = re.IGNORECASE | re.ASCII  # without ASCII, ı is an i
OPERATION = re.compile(
    "|".join(  # the longest first: ** before *
        f"{_SPACE}+".join(map(re.escape, typed.split()))
        + ("(?![A-Za-z])" if typed[0].isalpha() else "")
        for typed in sorted(OPERATIONS, key=len, reverse=True)
    ),
    _ANY_CASE,
)
PREFIX = re.compile("[-+]|(?:minus|plus)(?![A-Za-z])", _ANY_CASE)
PERCENT = re.compile("%|per ?cent(?![A-Za-z])", _ANY_CASE)
AFTER_PERCENT = re.compile(r"(?:%|per ?cent)\Z", _ANY_CASE)
NO_PRODUCT = re.compile("(?<![0-9.])0[x·]", _ANY_CASE)  # 0x10 is hexadecimal, 0·5 a British 0.5
FRACTION = re.compile(f"[0-9]+{_SPACE}*/")
QUESTION = re.compile(rf"\?(?={_SPACE}*\Z)")
SUPERSCRIPT = re.compile("[⁰¹²³⁴⁵⁶⁷⁸⁹]+")
NO_SUPERSCRIPT = str.maketrans("⁰¹²³⁴⁵⁶⁷⁸⁹", "0123456789")
_HINTS = {  # by a character that is not understood, wherever it stands
    **dict.fromkeys("$€£¥₹₽°", "; write numbers without units"),
    **dict.fromkeys("½¼¾⅓⅔", "; write 0.5 or (1/2), for example"),
    "—": "; to subtract, write -",
}
ONLY = "this calculator has only numbers, + - * / ^ % and parentheses"
HINTS = {**_HINTS, **dict.fromkeys("√∛∜!πΠ∞∑∏∫|", f"; {ONLY}")}  # where a number is expected
HINTS_AFTER_NUMBER = {  # the same, where an operation is expected
    **_HINTS,
    **dict.fromkeys("kKmM", "; write numbers without units"),
    **dict.fromkeys("xX", "; to multiply, write *"),
    **dict.fromkeys("eE", "; write a number with all its digits"),
    ":": "; to divide, write /",
    "·": "; a decimal point is written .",
    ".": "; a number has one decimal point, and a comma separates thousands",
    **dict.fromkeys("_'’", "; it may only separate thousands"),
}
