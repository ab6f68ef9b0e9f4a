"""How people write calculations: characters, words and numbers, and messages about the rest.

Everything here is data. `calcgpt.inference.expression` reads by these tables, and so does the page:
`make tables` writes them to `api/static/engine/tables.js`. So patterns use only what regular
expressions of Python and JavaScript have in common. They match normal text, which has lower case
and one kind of space.
"""

import re
from collections.abc import Iterable

from calcgpt.inference import functions
from datagen import operations

MAX_LENGTH = 10_000  # characters of an expression
MAX_OPERATIONS = 1_000  # of an expression, and of its plan
MAX_DIGITS = 10_000  # of an exact value, numerator or denominator
MAX_EXPONENT = 10_000  # of a power, and of a power of ten such as 1e5
MAX_FACTORIAL = 10**9
MAX_SHOWN = 60  # characters of an expression that is repeated to the user
MAX_READINGS = 8  # that are repeated to the user

_TEN_DIGITS = "0123456789"
_SPACES = "\t\n\v\f\r\u00a0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a"
_SPACES += "\u2028\u2029\u202f\u205f\u3000"
SPACES = f" {_SPACES}"
DIGITS = frozenset(_TEN_DIGITS)
# Marks that nobody sees, for example around a number that was copied.
_INVISIBLE = "\u200b\u200c\u200d\u200e\u200f\u2060\ufe0e\ufe0f\ufeff"
# These change the order in which others are seen.
_DIRECTIONS = "\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069"
# Typed character -> the usual one. Both have length 1, so positions in the text do not change.
NORMAL: dict[str, str] = {
    typed: usual
    for many, usuals in (
        ("ABCDEFGHIJKLMNOPQRSTUVWXYZ", "abcdefghijklmnopqrstuvwxyz"),
        # East Asian keyboards type full-width characters.
        ("０１２３４５６７８９＋－＊／＾％（）．，＝？！｜", f"{_TEN_DIGITS}+-*/^%().,=?!|"),
        # Digits of Arabic, Persian and Hindi, and the Arabic signs of numbers.
        ("٠١٢٣٤٥٦٧٨٩", _TEN_DIGITS),
        ("۰۱۲۳۴۵۶۷۸۹", _TEN_DIGITS),
        ("०१२३४५६७८९", _TEN_DIGITS),
        ("٫٬٪", ".,%"),
        ("−–‐‑‒﹣➖➕", "-------+"),
        ("[]{}［］｛｝", "()()()()"),  # as school books write them
        ("’‘：＄￥￡", "'':$¥£"),
        (_SPACES, " " * len(_SPACES)),
        (_INVISIBLE, " " * len(_INVISIBLE)),
    )
    for typed, usual in zip(many, usuals, strict=True)
}
_NORMAL = str.maketrans(NORMAL)

OPERATIONS = {  # by their spellings
    **{spelling: op.spellings[0] for op in operations.OPERATIONS for spelling in op.spellings},
    "//": "//",
    **dict.fromkeys(("mod", "modulo"), "mod"),
    **{"choose": "binomial", "ncr": "binomial", "npr": "perm"},
    **dict.fromkeys(("^", "**", "to the power of", "raised to the power of", "raised to"), "^"),
}
CONSTANTS = functions.CONSTANT_SPELLINGS
# Rank of a sign between two operands, the weakest first; those of prefixes and powers follow.
RANKS = {
    **{op.spellings[0]: op.rank for op in operations.OPERATIONS},
    **{"//": 2, "mod": 2, "^": 3, "binomial": 3, "perm": 3},
}
# Spellings of operations that the reading repeats as they were understood.
SAID = ("—", ":", "choose", "ncr", "npr")
POSTFIXES = {
    **{"squared": "^2", "cubed": "^3", "factorial": "!", "!": "!"},
    **dict.fromkeys(("°", "degrees", "degree", "deg"), "°"),
}
FUNCTIONS = {
    spelling: name for name, spellings in functions.SPELLINGS.items() for spelling in spellings
}
FACTORS = {  # words before a number that multiply it
    **dict.fromkeys(("half of", "half", "a half of", "one half of"), "1/2"),
    **dict.fromkeys(("third of", "a third of", "one third of"), "1/3"),
    "two thirds of": "2/3",
    **dict.fromkeys(("quarter of", "a quarter of", "one quarter of"), "1/4"),
    **{"three quarters of": "3/4", "a fifth of": "1/5", "a tenth of": "1/10"},
    **{"double": "2", "twice": "2", "triple": "3"},
}
# Words before two numbers: the operation, the word between them, whether the second comes first.
PAIRS = {
    f"{words} {between}": (operation.spellings[0], between, is_reversed)
    for operation in operations.OPERATIONS
    for words, between, is_reversed in operation.pairs
}
LEADING = (  # what people say before a calculation
    *("please", "hey", "hi", "hello", "ok", "okay", "so", "and", "now", "then"),
    *("can you", "could you"),
    *("tell me", "give me", "show me", "what is", "what's", "whats", "what are", "what does"),
    *("how much is", "how much are", "how much", "how many", "calculate", "compute", "evaluate"),
    *("solve", "simplify", "work out", "figure out", "find", "the value of", "the result of"),
    *("the answer to", "the", "result of", "value of", "calc", "calcgpt"),
)
TRAILING = (  # and after it
    *("?", "please", "equals", "equal", "is equal to", "equal to", "is", "makes", "gives", "make"),
    *("what", "how much", "how many", "thanks", "thank you", "come to", "be"),
)

_ONES = "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen"
_ONES += " fifteen sixteen seventeen eighteen nineteen"
_TENS = "twenty thirty forty fifty sixty seventy eighty ninety"
NUMBER_WORDS = {
    **{word: n for n, word in enumerate(_ONES.split())},
    **{word: 10 * n for n, word in enumerate(_TENS.split(), start=2)},
}
SCALES = {"hundred": 100, "thousand": 10**3, "million": 10**6, "billion": 10**9, "trillion": 10**12}
NEAREST = {  # decimal places, by what a result is rounded to
    **dict.fromkeys(("integer", "whole number", "whole", "unit", "one"), 0),
    **{"tenth": 1, "hundredth": 2, "cent": 2, "thousandth": 3},
}
VULGAR = {  # character -> numerator and denominator
    **{"½": (1, 2), "⅓": (1, 3), "⅔": (2, 3), "¼": (1, 4), "¾": (3, 4), "⅕": (1, 5), "⅖": (2, 5)},
    **{"⅗": (3, 5), "⅘": (4, 5), "⅙": (1, 6), "⅚": (5, 6), "⅐": (1, 7), "⅛": (1, 8), "⅜": (3, 8)},
    **{"⅝": (5, 8), "⅞": (7, 8), "⅑": (1, 9), "⅒": (1, 10)},
}
SUPERSCRIPTS = dict(zip("⁰¹²³⁴⁵⁶⁷⁸⁹⁺⁻", f"{_TEN_DIGITS}+-", strict=True))
CURRENCIES = "$€£¥₹₽₩₺₴₪฿¢"

_MORE = r"(?![0-9])"
_COMMAS = rf"[1-9][0-9]{{0,2}}(?:,[0-9]{{3}})+{_MORE}|[1-9][0-9]?(?:,[0-9]{{2}})+,[0-9]{{3}}{_MORE}"
_MARKS = "|".join(rf"[1-9][0-9]{{0,2}}(?:{mark}[0-9]{{3}})+{_MORE}" for mark in "_' ")
_POINTS = rf"[1-9][0-9]{{0,2}}(?:\.[0-9]{{3}})+{_MORE}"
_NO_LIST = r"(?![0-9,.])"
_PLAIN = r"[0-9]+(?:\.[0-9]*)?|(?<![0-9.])\.[0-9]+"
# Forms of a number and their decimal mark. The first that matches is taken. Only groups of three
# digits are thousands; in India, further groups have two digits.
_COMMA_FORMS = (
    (rf"(?:{_POINTS}),[0-9]+{_NO_LIST}", ","),  # 1.234,5
    (rf"(?:{_MARKS}),[0-9]+{_NO_LIST}", ","),  # 1 000,50
)
_COMMON_FORMS = (
    *_COMMA_FORMS,
    (rf"(?:{_COMMAS}|{_MARKS})(?:\.[0-9]*)?", "."),
    (rf"[1-9][0-9]{{0,2}}(?:\.[0-9]{{3}}){{2,}}{_NO_LIST}", ","),  # 1.000.000
    (rf"[0-9]+,[0-9]+{_NO_LIST}", ","),  # 12,5
    (_PLAIN, "."),
)
POINT, COMMA, LIST = range(3)  # how numbers are written
NUMBERS = (
    _COMMON_FORMS,
    (  # where decimals are written with a comma
        *_COMMA_FORMS,
        (rf"[0-9]+,[0-9]+{_NO_LIST}", ","),
        (rf"(?:{_POINTS}){_NO_LIST}", ","),
        *_COMMON_FORMS,
    ),
    ((_PLAIN, "."),),  # between commas: max(1,2)
)
PATTERNS = {
    "exponent": r"e([+-]?[0-9]+)(?![0-9a-z.])",
    "fraction": r"([0-9]{1,40})⁄([0-9]{1,40})(?![0-9⁄])",
    "after_whole": r" +([0-9]{1,40})[/⁄]([0-9]{1,40})(?![0-9.,/⁄^!%])",  # 1 1/2
    "after_grouped": r" *[/⁄] *([0-9]{1,40})(?![0-9.,])",  # 1 100/200
    "in_parentheses": r"\( *([0-9]{1,40}) */ *([0-9]{1,40}) *\)",  # 3(3/4)
    "superscript": "[⁺⁻]?[⁰¹²³⁴⁵⁶⁷⁸⁹]{1,6}(?![⁰¹²³⁴⁵⁶⁷⁸⁹])",
    "percent": "%|per ?cent(?![a-z])|pct(?![a-z])",
    "remainder": "% *[0-9." + "".join(VULGAR) + "]",  # 10 % 3
    "spaced_percent": " % [-+][0-9(.]",  # 10 % -3
    "product_of_percent": r"% *\(",
    "no_product": "(?<![0-9.])0[x·]",  # 0x10 is hexadecimal, 0·5 a British 0.5
    "date": " *[0-9]{4}-[0-9]{2}-[0-9]{2} *$",
    "time": "[0-9]{1,2}:[0-5][0-9](?![0-9])",
    "word": "[a-z]{2,}",
    "unknown": "[a-z][a-z0-9_]+",
    "token": "[0-9][0-9.]*|[a-z]{2,}",
    "the": "the(?![a-z])",
    "grouped": " ([0-9]{3})$",
    "joint": "(?: +and +| +|-)?",  # between the words of a number
    "name": "[a-z_][a-z0-9_]*",
    "separator": "[,;](?: *and(?![a-z]))?|and(?![a-z])",
    "function_of": "(?: +of(?![a-z]))? *",  # after the name of a function
    "log": r"log(?:_| +)?([0-9]{1,40}) *(?=\()",  # log 2(8)
    "called": r"[0-9_][a-z0-9_]*\(",  # after the name of a function: sin2(3)
    "constant": "(?:" + "|".join(functions.CONSTANT_SPELLINGS) + ")(?![a-z0-9_])",
    "thousands": "(?<=[0-9]),[0-9]{3}(?![0-9])",
    "prefix": "[-+—]|(?:minus|plus|negative)(?![a-z])",
    "of": "of(?![a-z])",
    "off": "off(?![a-z])",
    "between": "(?:and|to|from|by)(?![a-z])",
    "places": r"(?:rounded )?(?:to|with) ([0-9]{1,4}|[a-z]+) "
    r"(?:decimal places?|decimals?|places?|dp|d\.p\.)$",
    "nearest": r"(?:rounded )?to the nearest ([a-z]+(?: number)?)$",
    "ends_in_percent": "(?:%|per ?cent|pct)$",
    "ends_in_fraction": "(?:^|[^0-9./,])[0-9]+ ?[/⁄] ?[0-9]+$|[" + "".join(VULGAR) + "]$",
    "ends_in_factor": r"[0-9.)" + "".join(VULGAR) + r"]$",
}
ONLY = (
    "this calculator has numbers, + - * / ^ % ! mod, | |, functions such as sqrt, and parentheses"
)
MESSAGES = {
    "too-long": f"longer than {MAX_LENGTH:,} characters",
    "operations": f"more than {MAX_OPERATIONS:,} operations",
    "places": "more than {n} decimal places",
    "asked-places": "an answer has at most {n} decimal places",
    "digits": f"a number of more than {MAX_DIGITS:,} digits",
    "value": f"the exact value has more than {MAX_DIGITS:,} digits",
    "undecided": "undecided: no theorem says whether this is 0 or at a boundary of rounding, and "
    "{n} digits do not show it",
    "effort": "this takes too long to plan",
    "power": "a number below 0 has no power that is not whole",
    "even-root": "a number below 0 has no such root",
    "root": "a root is the second, third, ..., up to the 1,000th",
    "logarithm": "only numbers above 0 have a logarithm",
    "base": "1 is not the base of a logarithm",
    "arc": "only for numbers from -1 to 1",
    "tangent": "the tangent is not defined there",
    "whole": "only for whole numbers",
    "round-places": "a number of places is whole, from -30 to 30",
    "binomial": "only for whole numbers n and k, k from 0 to n, without too many factors",
    "gamma": "only for whole numbers above 0 and for halves, not too large ones",
    "origin": "(0, 0) has no angle",
    "arguments": "{name} takes {n}, not {m}",
    "no-plan": "no number of places was found with which this comes out right",
    "direct": "a model without worked steps has no functions",
    "large-exponent": f"an exponent must be from -{MAX_EXPONENT:,} to {MAX_EXPONENT:,}",
    "factorial": f"a factorial needs a whole number from 0 to {MAX_FACTORIAL:,}",
    "division": "division by zero",
    "comma": "write decimals with a point, like 12.5; a comma may only separate thousands",
    "one": "one expression at a time",
    "time": "{typed} looks like a time; to divide, write /",
    "date": "{typed} looks like a date",
    "scripts": "{typed} has digits of several scripts",
    "word": "{typed} is not known: {only}",
    "unit": "{typed} is not known: write numbers without units; {only}",
    "of": "'of' may only follow a percentage or a fraction that is not a divisor: 20% of 50",
    "off": "'off' may only follow a percentage: 20% off 50",
    "operand": "a number is expected, not {typed}{hint}",
    "the-end": "the end",
    "end": "nothing may follow the =",
    "no-operation": "an operation is missing: one of + - * / ^{hint}",
    "percent-of": "; write 20% of (50), or 20 mod (50)",
    "factor": "; 6{sign}2(3) is (6{sign}2)*3 to some and 6{sign}(2*3) to others",
    "argument": "; {name} 2(3) is {name}(2)*3 to some and {name}(2*3) to others",
    "grouped": "{typed} is {grouped} to some and {mixed} to others",
    "closing": "a ) without its (",
    "bar": "a | is missing: the | at position {n} is not closed",
    "sign": "{typed} is not an operation; valid are + - * / ^{hint}",
    "pair": "the word {word} is missing",
    "no-answer": "there is no answer yet",
}
READINGS = {
    "all": "{typed} as {read}",
    "of": "{left}{sign}({percent} of {of})",
    "mod": "a remainder with the sign of {b}",
    "//": "{a}/{b} rounded down",
    "radians": "an angle of {x} radians",
    "root": "{root}, the real root; the principal one is complex",
}
# Hints by a character that is not understood where a number is expected, and an operation.
_OF_DIRECTIONS = dict.fromkeys(_DIRECTIONS, "; it changes the order in which others are seen")
HINTS = {
    **_OF_DIRECTIONS,
    **{**dict.fromkeys("∜Π∞∑∏∫", f"; {ONLY}"), "i": "; complex numbers are not known"},
}
HINTS_AFTER_NUMBER = {
    **_OF_DIRECTIONS,
    **dict.fromkeys("kmgs", "; write numbers without units"),
    "x": "; to multiply, write *",
    "e": "; write 12e3 for 12 times 1,000, and 12*e",
    "·": "; a decimal point is written .",
    ".": "; a number has one decimal point, and a comma separates thousands",
    **dict.fromkeys("_'", "; it may only separate thousands"),
}


def normalize(text: str) -> str:
    """Returns a text of the same length with usual characters in lower case."""
    return text.translate(_NORMAL)


def single_spaced(words: str) -> str:
    """Returns words with one space between them."""
    return " ".join(words.split())


def is_free_name(name: str) -> bool:
    """Returns whether a value may have this name: no word of these tables, except x."""
    tables: tuple[Iterable[str], ...] = (OPERATIONS, POSTFIXES, FACTORS, PAIRS, LEADING, TRAILING)
    tables += (FUNCTIONS, CONSTANTS)
    spellings = [spelling for table in tables for spelling in table]
    words = {word for spelling in [*spellings, *NUMBER_WORDS, *SCALES] for word in spelling.split()}
    return name == "x" or name not in words | {"ans", "of", "off", "percent", "negative"}


def longest_first(spellings: Iterable[str]) -> re.Pattern[str]:
    """Returns the pattern of any of these spellings, the longest first: `**` before `*`."""
    ordered = sorted(set(spellings), key=lambda spelling: (-len(spelling), spelling))
    return re.compile("|".join(map(_pattern, ordered)))


def _pattern(spelling: str) -> str:
    escaped = re.sub(r"[*+^?|]", r"\\\g<0>", spelling).replace(" ", " +")
    if spelling[-1].isdigit():  # log100 is log(100), not log10(0)
        return escaped + "(?![a-z0-9])"
    return escaped + ("(?![a-z])" if spelling[-1].isalpha() else "")
