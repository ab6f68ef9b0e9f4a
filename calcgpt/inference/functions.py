"""Functions as programs over the four operations, which are all that the model knows.

A program is a list of rows. The planner runs it on right numbers, and notes each operation for the
model (`calcgpt.inference.programs`). A row is one of

    d = (x/z - z)/2         operations that the model is asked
    k := y - 1              a number that the planner works out: a constant, a count
    a ~ x y                 x, rounded by the model to y places
    a @ n//2                an argument by its index, from 0
    z guess x y             the yth root of x to three digits
    k binary x              the whole number k for which x / 2^k is from 3/4 to 3/2
    if(e, rows, others)     the rows if e is above 0, else the others
    each(a, rows)           the rows for each argument a
    repeat(e, rows)         the rows until e is 0 at the places of the work
    scaled(e, rows)         the rows, to more places: their errors are multiplied by e afterwards

x and y are the first arguments, n is their number, j counts the turns of a `repeat`, and `result`
is the value. The page has the same table: `make tables`.

Sources: Muller, Elementary Functions (3rd edition, 2016); Abramowitz and Stegun, Handbook of
Mathematical Functions (1964), A&S below.
"""

from typing import Any, NamedTuple

Rows = list[Any]  # texts, and lists of "if", "each" or "repeat" with their parts


class Function(NamedTuple):
    """A function of `least` to `most` numbers; `most` is 0 if there is no limit. `is_exact` says
    that its program gives the exact value of fractions; others only approach theirs."""

    rows: Rows
    source: str
    least: int = 1
    most: int = 1
    is_exact: bool = False


def _if(condition: str, rows: Rows, others: Rows) -> Rows:
    return ["if", condition, rows, others]


def _each(name: str, rows: Rows) -> Rows:
    return ["each", name, rows]


def _repeat(until: str, rows: Rows) -> Rows:
    return ["repeat", until, rows]


def _scaled(factor: str, rows: Rows) -> Rows:
    return ["scaled", factor, rows]


# Newton's method for z^y = x. Each turn doubles the right digits.
_NEWTON: Rows = [
    "z guess x y",
    _repeat("m*d*d/z", ["d = (x/z^m - z)/y", "z = z + d"]),
    "result = z",
]
_OF_NEGATIVE: Rows = ["a = root(0 - x, y)", "result = 0 - a"]
_ROOT: Rows = [
    "m := y - 1",
    _if("x", _NEWTON, [_if("0 - x", _OF_NEGATIVE, ["result := 0"])]),
]
# sin or cos of r, |r| <= pi/4, by Taylor's series, in the quadrant q.
_TAYLOR: Rows = [
    "c := a*(a + 1)",
    "t = t*w/c",
    _if("j mod 2", ["s = s - t"], ["s = s + t"]),
    "a := a + 2",
]
_CIRCLE: Rows = [
    "g := 1 - 2*(q//2)",
    "w = r*r",
    _if("q mod 2", ["t := g", "a := 1"], ["t = r", "a := 2"]),
    "s = t",
    _repeat("t", _TAYLOR),
    "result = s",
]


def _circle(quadrant: str) -> Rows:
    """Reduces an angle by multiples of pi/2. The sign of the result is that of r, or of g."""
    return [
        "k := (2*x/pi + 1/2)//1",
        f"q := {quadrant}",
        "h := k/2",
        _if("q//2", ["r = h*pi - x"], ["r = x - h*pi"]),
        *_CIRCLE,
    ]


def _degrees(quadrant: str) -> Rows:
    """Reduces an angle by multiples of 90 degrees, exactly."""
    return [
        "k := (x/90 + 1/2)//1",
        f"q := {quadrant}",
        "h := 90*k",
        "p := pi/180",
        _if("q//2", ["r = (h - x)*p"], ["r = (x - h)*p"]),
        *_CIRCLE,
    ]


_POWER_OF_E: Rows = [
    "b := ln(2)",
    "k := (x/b + 1/2)//1",
    "t := 1",
    "s := 1",
    _scaled(
        "2^k",
        ["r = (x - k*b)/8", _repeat("t", ["t = t*r/j", "s = s + t"]), *["s = s*s"] * 3],
    ),
    "p := 2^|k|",
    _if("k", ["result = s*p"], ["result = s/p"]),
]
# Below, the value is less than 10^-10,000, and no number has so many places.
_EXP: Rows = [_if("0 - 23100 - x", ["result := 0"], _POWER_OF_E)]
_LN: Rows = [
    "k binary x",
    "p := 2^|k|",
    "b := ln(2)",
    _if("k", ["m = x/p"], ["m = x*p"]),
    "z = (m - 1)/(m + 1)",
    "w = z*z",
    "t = z",
    "s = z",
    _repeat("u", ["c := 2*j + 1", "t = t*w", "u = t/c", "s = s + u"]),
    "result = 2*s + k*b",
]
_ARCTAN: Rows = [
    "c := 2*j + 1",
    "t = t*w",
    "u = t/c",
    _if("j mod 2", ["s = s - u"], ["s = s + u"]),
]
_ATAN: Rows = [
    _if(
        "|x| - 1",
        ["u = 1/x", _if("x", ["h := pi/2"], ["h := 0 - pi/2"]), "result = h - atan(u)"],
        [
            "c := ((4*x + 1/2)//1)/4",
            "h := atan(c)",
            "t = (x - c)/(1 + x*c)",
            "w = t*t",
            "s = t",
            _repeat("u", _ARCTAN),
            "result = s + h",
        ],
    )
]
_ASIN: Rows = [
    _if("1 - x*x", ["result = atan(x/sqrt((1 - x)*(1 + x)))"], ["result := x*pi/2"]),
]
_TANH: Rows = [
    "a = exp(0 - 2*|x|)",
    _if("x", ["result = (1 - a)/(1 + a)"], ["result = (a - 1)/(1 + a)"]),
]
_LOG: Rows = ["b := ln(10)", _if("n - 1", ["result = ln(x)/ln(y)"], ["result = ln(x)/b"])]
_POWER: Rows = [
    _if(
        "x",
        [_scaled("x^y", [_scaled("y", ["t = ln(x)"]), "t = y*t"]), "result = exp(t)"],
        ["result := 0"],
    )
]
_REMAINDER_OF_POWER: Rows = [  # from the lowest binary digit of the exponent on
    "c @ 2",
    "a = x mod c",
    "k := y",
    "result := 1",
    _repeat(
        "k",
        [
            _if("k mod 2", ["result = (result*a) mod c"], []),
            "k := k//2",
            _if("k", ["a = (a*a) mod c"], []),
        ],
    ),
]
# B(2k) / (2k (2k - 1)) for k = 10, ..., 1: the terms of Stirling's series.
_STIRLING_TERMS = (
    "0 - 174611/125400",
    "43867/244188",
    "0 - 3617/122400",
    "1/156",
    "0 - 691/360360",
    "1/1188",
    "0 - 1/1680",
    "1/1260",
    "0 - 1/360",
    "1/12",
)
_STIRLING: Rows = [  # of a whole number that is not small
    "u = 1/x",
    "w = u*u",
    "s := 0",
    *(row for term in _STIRLING_TERMS for row in (f"c := {term}", "s = s*w + c")),
    "h := ln(2*pi)/2",
    _scaled("x", ["t = ln(x)"]),
    "result = (x + 1/2)*t - x + h + s*u",
]
_TRUNC: Rows = [_if("x", ["result = x//1"], ["result = 0 - (0 - x)//1"])]
_SIGN: Rows = [_if("x", ["result := 1"], [_if("0 - x", ["result := 0 - 1"], ["result := 0"])])]
_ROUND: Rows = [
    _if("n - 1", [], ["y := 0"]),
    "p := 10^|y|",
    _if("0 - y", ["a = x/p", "a ~ a 0", "result = a*p"], ["result ~ x y"]),
]
_ATAN2: Rows = [
    _if("0 - x", ["h := 0 - pi"], ["h := pi"]),
    _if(
        "|y|",
        [_if("y", ["result = atan(x/y)"], ["result = atan(x/y) + h"])],
        ["result := h/2"],
    ),
]
_GAMMA: Rows = [
    "m := x//1",
    _if(
        "x - m",
        [
            "s = sqrt(pi)",
            _if("m", [_repeat("m - j", ["c := j - 1/2", "s = s*c"])], []),
            _if("0 - m", [_repeat("m + j", ["c := 1/2 - j", "s = s/c"])], []),
            "result = s",
        ],
        ["a = x - 1", "result = a!"],
    ),
]
_BINOMIAL: Rows = [
    "k := min(y, x - y)",
    "result := 1",
    _if("k", [_repeat("k - j", ["c := x - k + j", "result = result*c/j"])], []),
]
_PERM: Rows = [
    "result := 1",
    _if("y", [_repeat("y - j", ["c := x - y + j", "result = result*c"])], []),
]
_SUM: Rows = ["s := 0", _each("a", ["s = s + a"])]
_STDEV: Rows = [
    *_SUM,
    "m = s/n",
    "s := 0",
    _each("a", ["d = a - m", "s = s + d*d"]),
    "c := n - 1",
    "result = sqrt(s/c)",
]
_HYPOT: Rows = ["s := 0", _each("a", ["s = s + a*a"]), "result = sqrt(s)"]
_EUCLID: Rows = [_repeat("a", ["b = result mod a", "result = a", "a = b"])]
_GCD: Rows = [
    "result := 0",
    _each("a", ["a = |a|", _if("a", [_if("result", _EUCLID, ["result = a"])], [])]),
]
_LCM: Rows = [
    "result := 1",
    _each("a", [_if("|a|", ["b = gcd(result, a)", "result = |result*a|/b"], ["result := 0"])]),
]
_MEDIAN: Rows = [
    "a @ (n - 1)//2",
    "b @ n//2",
    _if("n mod 2", ["result = a"], ["result = (a + b)/2"]),
]


def _extreme(difference: str) -> Rows:
    return ["result @ 0", _each("a", [_if(difference, ["result = a"], [])])]


#: The functions by their names in expressions. `sin°` is the sine of a number of degrees.
FUNCTIONS: dict[str, Function] = {
    "sqrt": Function(["y := 2", *_ROOT], "Newton: Muller, section 5.2"),
    "cbrt": Function(["y := 3", *_ROOT], "Newton: Muller, section 5.2"),
    "root": Function(_ROOT, "Newton: Muller, section 5.2", 2, 2),
    "exp": Function(_EXP, "x = k ln 2 + 8 r, Taylor: A&S 4.2.1"),
    "ln": Function(_LN, "x = 2^k m, series of artanh: A&S 4.1.27"),
    "log": Function(_LOG, "A&S 4.1.18", most=2),
    "log2": Function(["b := ln(2)", "result = ln(x)/b"], "A&S 4.1.18"),
    "sin": Function(_circle("k mod 4"), "x = k pi/2 + r, Taylor: A&S 4.3.65"),
    "cos": Function(_circle("(k + 1) mod 4"), "x = k pi/2 + r, Taylor: A&S 4.3.66"),
    "tan": Function(["result = sin(x)/cos(x)"], "A&S 4.3.3"),
    "sin°": Function(_degrees("k mod 4"), "x = 90 k + r, Taylor: A&S 4.3.65"),
    "cos°": Function(_degrees("(k + 1) mod 4"), "x = 90 k + r, Taylor: A&S 4.3.66"),
    "tan°": Function(["result = sin(x°)/cos(x°)"], "A&S 4.3.3"),
    "asin": Function(_ASIN, "A&S 4.4.39"),
    "acos": Function(["h := pi/2", "result = h - asin(x)"], "A&S 4.4.2"),
    "atan": Function(_ATAN, "from the nearest quarter: A&S 4.4.34, 4.4.42"),
    "atan2": Function(_ATAN2, "the angle of the point (y, x)", 2, 2),
    "sinh": Function(["a = exp(x)", "result = (a - 1/a)/2"], "A&S 4.5.1"),
    "cosh": Function(["a = exp(x)", "result = (a + 1/a)/2"], "A&S 4.5.2"),
    "tanh": Function(_TANH, "A&S 4.5.3"),
    "^": Function(_POWER, "A&S 4.2.7", 2, 2),
    "^mod": Function(_REMAINDER_OF_POWER, "square and reduce", 3, 3, is_exact=True),
    "ln!": Function(_STIRLING, "A&S 6.1.41"),
    "degrees": Function(["p := 180/pi", "result = x*p"], ""),
    "°": Function(["p := pi/180", "result = x*p"], ""),
    "abs": Function(["result = |x|"], "", is_exact=True),
    "floor": Function(["result = x//1"], "", is_exact=True),
    "ceil": Function(["result = 0 - (0 - x)//1"], "", is_exact=True),
    "trunc": Function(_TRUNC, "", is_exact=True),
    "round": Function(_ROUND, "ties to even", most=2),
    "sign": Function(_SIGN, "", is_exact=True),
    "gamma": Function(_GAMMA, "of whole numbers and halves: A&S 6.1.6, 6.1.12"),
    "binomial": Function(_BINOMIAL, "", 2, 2, is_exact=True),
    "perm": Function(_PERM, "", 2, 2, is_exact=True),
    "gcd": Function(_GCD, "Euclid, Elements, VII.2", most=0, is_exact=True),
    "lcm": Function(_LCM, "", most=0, is_exact=True),
    "min": Function(_extreme("result - a"), "", most=0, is_exact=True),
    "max": Function(_extreme("a - result"), "", most=0, is_exact=True),
    "sum": Function([*_SUM, "result = s"], "", most=0, is_exact=True),
    "mean": Function([*_SUM, "result = s/n"], "", most=0, is_exact=True),
    "median": Function(_MEDIAN, "", most=0, is_exact=True),
    "stdev": Function(_STDEV, "of a sample", 2, 0),
    "hypot": Function(_HYPOT, "", most=0),
}
ANGLED = ("sin", "cos", "tan")  # functions of an angle
ARCS = ("asin", "acos", "atan", "atan2")  # and those whose value is one
CONSTANTS = ("pi", "e", "tau", "phi")
SORTED = ("median",)  # functions whose arguments are put in order
#: Functions that stand for an expression of x: a sign and its operands.
DEFINITIONS: dict[str, Any] = {
    "exp2": ("^", 2, "x"),
    "log1p": ("ln", ("+", 1, "x")),
    "expm1": ("-", ("exp", "x"), 1),
    "frac": ("-", "x", ("trunc", "x")),
}

#: Function -> what people write for it.
SPELLINGS: dict[str, tuple[str, ...]] = {
    **{name: (name,) for name in (*FUNCTIONS, *DEFINITIONS) if name.isalnum()},
    "sqrt": ("sqrt", "√", "square root", "squareroot"),
    "cbrt": ("cbrt", "∛", "cube root"),
    "log": ("log", "lg", "log10"),
    "log2": ("log2", "lb"),
    "sin": ("sin", "sine"),
    "cos": ("cos", "cosine"),
    "tan": ("tan", "tangent", "tg"),
    "asin": ("asin", "arcsin"),
    "acos": ("acos", "arccos"),
    "atan": ("atan", "arctan", "arctg"),
    "atan2": ("atan2", "arctan2"),
    "^": ("pow",),
    "gamma": ("gamma", "Γ"),
    "binomial": ("binomial", "binom", "ncr", "comb"),
    "perm": ("perm", "npr"),
    "ceil": ("ceil", "ceiling"),
    "sign": ("sign", "sgn"),
    "gcd": ("gcd", "gcf", "hcf"),
    "mean": ("mean", "average", "avg"),
    "stdev": ("stdev", "stddev", "standard deviation"),
    "mod": ("mod",),
    "°": ("radians",),
    "!": ("factorial", "fact"),
}
CONSTANT_SPELLINGS = {
    "pi": "pi",
    "π": "pi",
    "e": "e",
    "tau": "tau",
    "τ": "tau",
    "phi": "phi",
    "φ": "phi",
}
