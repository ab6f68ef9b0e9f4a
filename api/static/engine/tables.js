// Written by `make tables` from calcgpt/inference/spelling.py. Do not edit.
export default {
 "MAX_LENGTH": 10000,
 "MAX_OPERATIONS": 1000,
 "MAX_DIGITS": 2000,
 "MAX_EXPONENT": 10000,
 "MAX_FACTORIAL": 1000,
 "MAX_SHOWN": 60,
 "MAX_READINGS": 8,
 "NORMAL": {
  "A": "a",
  "B": "b",
  "C": "c",
  "D": "d",
  "E": "e",
  "F": "f",
  "G": "g",
  "H": "h",
  "I": "i",
  "J": "j",
  "K": "k",
  "L": "l",
  "M": "m",
  "N": "n",
  "O": "o",
  "P": "p",
  "Q": "q",
  "R": "r",
  "S": "s",
  "T": "t",
  "U": "u",
  "V": "v",
  "W": "w",
  "X": "x",
  "Y": "y",
  "Z": "z",
  "\uff10": "0",
  "\uff11": "1",
  "\uff12": "2",
  "\uff13": "3",
  "\uff14": "4",
  "\uff15": "5",
  "\uff16": "6",
  "\uff17": "7",
  "\uff18": "8",
  "\uff19": "9",
  "\uff0b": "+",
  "\uff0d": "-",
  "\uff0a": "*",
  "\uff0f": "/",
  "\uff3e": "^",
  "\uff05": "%",
  "\uff08": "(",
  "\uff09": ")",
  "\uff0e": ".",
  "\uff0c": ",",
  "\uff1d": "=",
  "\uff1f": "?",
  "\uff01": "!",
  "\uff5c": "|",
  "\u0660": "0",
  "\u0661": "1",
  "\u0662": "2",
  "\u0663": "3",
  "\u0664": "4",
  "\u0665": "5",
  "\u0666": "6",
  "\u0667": "7",
  "\u0668": "8",
  "\u0669": "9",
  "\u06f0": "0",
  "\u06f1": "1",
  "\u06f2": "2",
  "\u06f3": "3",
  "\u06f4": "4",
  "\u06f5": "5",
  "\u06f6": "6",
  "\u06f7": "7",
  "\u06f8": "8",
  "\u06f9": "9",
  "\u0966": "0",
  "\u0967": "1",
  "\u0968": "2",
  "\u0969": "3",
  "\u096a": "4",
  "\u096b": "5",
  "\u096c": "6",
  "\u096d": "7",
  "\u096e": "8",
  "\u096f": "9",
  "\u066b": ".",
  "\u066c": ",",
  "\u066a": "%",
  "\u2212": "-",
  "\u2013": "-",
  "\u2010": "-",
  "\u2011": "-",
  "\u2012": "-",
  "\ufe63": "-",
  "\u2796": "-",
  "\u2795": "+",
  "[": "(",
  "]": ")",
  "{": "(",
  "}": ")",
  "\uff3b": "(",
  "\uff3d": ")",
  "\uff5b": "(",
  "\uff5d": ")",
  "\u2019": "'",
  "\u2018": "'",
  "\uff1a": ":",
  "\uff04": "$",
  "\uffe5": "\u00a5",
  "\uffe1": "\u00a3",
  "\t": " ",
  "\n": " ",
  "\u000b": " ",
  "\f": " ",
  "\r": " ",
  "\u00a0": " ",
  "\u1680": " ",
  "\u2000": " ",
  "\u2001": " ",
  "\u2002": " ",
  "\u2003": " ",
  "\u2004": " ",
  "\u2005": " ",
  "\u2006": " ",
  "\u2007": " ",
  "\u2008": " ",
  "\u2009": " ",
  "\u200a": " ",
  "\u2028": " ",
  "\u2029": " ",
  "\u202f": " ",
  "\u205f": " ",
  "\u3000": " ",
  "\u200b": " ",
  "\u200c": " ",
  "\u200d": " ",
  "\u200e": " ",
  "\u200f": " ",
  "\u202a": " ",
  "\u202b": " ",
  "\u202c": " ",
  "\u202d": " ",
  "\u202e": " ",
  "\u2060": " ",
  "\u2066": " ",
  "\u2067": " ",
  "\u2068": " ",
  "\u2069": " ",
  "\ufe0e": " ",
  "\ufe0f": " ",
  "\ufeff": " "
 },
 "OPERATIONS": {
  "+": "+",
  "plus": "+",
  "added to": "+",
  "-": "-",
  "\u2014": "-",
  "minus": "-",
  "less": "-",
  "take away": "-",
  "*": "*",
  "\u00d7": "*",
  "\u2715": "*",
  "\u2716": "*",
  "\u2a2f": "*",
  "\u2217": "*",
  "\u00b7": "*",
  "\u22c5": "*",
  "\u2219": "*",
  "\u2022": "*",
  "x": "*",
  "\uff58": "*",
  "\uff38": "*",
  "\u0445": "*",
  "\u0425": "*",
  "times": "*",
  "multiplied by": "*",
  "/": "/",
  "\u00f7": "/",
  "\u2215": "/",
  "\u2044": "/",
  "\u2797": "/",
  ":": "/",
  "over": "/",
  "divided by": "/",
  "//": "//",
  "mod": "mod",
  "modulo": "mod",
  "^": "^",
  "**": "^",
  "to the power of": "^",
  "raised to the power of": "^",
  "raised to": "^"
 },
 "SAID": [
  "\u2014",
  ":"
 ],
 "POSTFIXES": {
  "squared": "^2",
  "cubed": "^3",
  "factorial": "!",
  "!": "!"
 },
 "FACTORS": {
  "half of": "1/2",
  "half": "1/2",
  "a half of": "1/2",
  "one half of": "1/2",
  "third of": "1/3",
  "a third of": "1/3",
  "one third of": "1/3",
  "two thirds of": "2/3",
  "quarter of": "1/4",
  "a quarter of": "1/4",
  "one quarter of": "1/4",
  "three quarters of": "3/4",
  "a fifth of": "1/5",
  "a tenth of": "1/10",
  "double": "2",
  "twice": "2",
  "triple": "3"
 },
 "PAIRS": {
  "sum of and": [
   "+",
   "and",
   false
  ],
  "add and": [
   "+",
   "and",
   false
  ],
  "add to": [
   "+",
   "to",
   false
  ],
  "difference between and": [
   "-",
   "and",
   false
  ],
  "difference of and": [
   "-",
   "and",
   false
  ],
  "subtract from": [
   "-",
   "from",
   true
  ],
  "take from": [
   "-",
   "from",
   true
  ],
  "product of and": [
   "*",
   "and",
   false
  ],
  "multiply and": [
   "*",
   "and",
   false
  ],
  "multiply by": [
   "*",
   "by",
   false
  ],
  "quotient of and": [
   "/",
   "and",
   false
  ],
  "divide by": [
   "/",
   "by",
   false
  ]
 },
 "LEADING": [
  "please",
  "hey",
  "hi",
  "hello",
  "ok",
  "okay",
  "so",
  "and",
  "now",
  "then",
  "can you",
  "could you",
  "tell me",
  "give me",
  "show me",
  "what is",
  "what's",
  "whats",
  "what are",
  "what does",
  "how much is",
  "how much are",
  "how much",
  "how many",
  "calculate",
  "compute",
  "evaluate",
  "solve",
  "simplify",
  "work out",
  "figure out",
  "find",
  "the value of",
  "the result of",
  "the answer to",
  "the",
  "result of",
  "value of",
  "calc",
  "calcgpt"
 ],
 "TRAILING": [
  "?",
  "please",
  "equals",
  "equal",
  "is equal to",
  "equal to",
  "is",
  "makes",
  "gives",
  "make",
  "what",
  "how much",
  "how many",
  "thanks",
  "thank you",
  "come to",
  "be"
 ],
 "NUMBER_WORDS": {
  "zero": 0,
  "one": 1,
  "two": 2,
  "three": 3,
  "four": 4,
  "five": 5,
  "six": 6,
  "seven": 7,
  "eight": 8,
  "nine": 9,
  "ten": 10,
  "eleven": 11,
  "twelve": 12,
  "thirteen": 13,
  "fourteen": 14,
  "fifteen": 15,
  "sixteen": 16,
  "seventeen": 17,
  "eighteen": 18,
  "nineteen": 19,
  "twenty": 20,
  "thirty": 30,
  "forty": 40,
  "fifty": 50,
  "sixty": 60,
  "seventy": 70,
  "eighty": 80,
  "ninety": 90
 },
 "SCALES": {
  "hundred": 100,
  "thousand": 1000,
  "million": 1000000,
  "billion": 1000000000,
  "trillion": 1000000000000
 },
 "NEAREST": {
  "integer": 0,
  "whole number": 0,
  "whole": 0,
  "unit": 0,
  "one": 0,
  "tenth": 1,
  "hundredth": 2,
  "cent": 2,
  "thousandth": 3
 },
 "VULGAR": {
  "\u00bd": [
   1,
   2
  ],
  "\u2153": [
   1,
   3
  ],
  "\u2154": [
   2,
   3
  ],
  "\u00bc": [
   1,
   4
  ],
  "\u00be": [
   3,
   4
  ],
  "\u2155": [
   1,
   5
  ],
  "\u2156": [
   2,
   5
  ],
  "\u2157": [
   3,
   5
  ],
  "\u2158": [
   4,
   5
  ],
  "\u2159": [
   1,
   6
  ],
  "\u215a": [
   5,
   6
  ],
  "\u2150": [
   1,
   7
  ],
  "\u215b": [
   1,
   8
  ],
  "\u215c": [
   3,
   8
  ],
  "\u215d": [
   5,
   8
  ],
  "\u215e": [
   7,
   8
  ],
  "\u2151": [
   1,
   9
  ],
  "\u2152": [
   1,
   10
  ]
 },
 "SUPERSCRIPTS": {
  "\u2070": "0",
  "\u00b9": "1",
  "\u00b2": "2",
  "\u00b3": "3",
  "\u2074": "4",
  "\u2075": "5",
  "\u2076": "6",
  "\u2077": "7",
  "\u2078": "8",
  "\u2079": "9",
  "\u207a": "+",
  "\u207b": "-"
 },
 "CURRENCIES": "$\u20ac\u00a3\u00a5\u20b9\u20bd\u20a9\u20ba\u20b4\u20aa\u0e3f\u00a2",
 "NUMBERS": [
  [
   [
    "(?:[1-9][0-9]{0,2}(?:\\.[0-9]{3})+(?![0-9])),[0-9]+(?![0-9,.])",
    ","
   ],
   [
    "(?:[1-9][0-9]{0,2}(?:_[0-9]{3})+(?![0-9])|[1-9][0-9]{0,2}(?:'[0-9]{3})+(?![0-9])|[1-9][0-9]{0,2}(?: [0-9]{3})+(?![0-9])),[0-9]+(?![0-9,.])",
    ","
   ],
   [
    "(?:[1-9][0-9]{0,2}(?:,[0-9]{3})+(?![0-9])|[1-9][0-9]?(?:,[0-9]{2})+,[0-9]{3}(?![0-9])|[1-9][0-9]{0,2}(?:_[0-9]{3})+(?![0-9])|[1-9][0-9]{0,2}(?:'[0-9]{3})+(?![0-9])|[1-9][0-9]{0,2}(?: [0-9]{3})+(?![0-9]))(?:\\.[0-9]*)?",
    "."
   ],
   [
    "[1-9][0-9]{0,2}(?:\\.[0-9]{3}){2,}(?![0-9,.])",
    ","
   ],
   [
    "[0-9]+,[0-9]+(?![0-9,.])",
    ","
   ],
   [
    "[0-9]+(?:\\.[0-9]*)?|(?<![0-9.])\\.[0-9]+",
    "."
   ]
  ],
  [
   [
    "(?:[1-9][0-9]{0,2}(?:\\.[0-9]{3})+(?![0-9])),[0-9]+(?![0-9,.])",
    ","
   ],
   [
    "(?:[1-9][0-9]{0,2}(?:_[0-9]{3})+(?![0-9])|[1-9][0-9]{0,2}(?:'[0-9]{3})+(?![0-9])|[1-9][0-9]{0,2}(?: [0-9]{3})+(?![0-9])),[0-9]+(?![0-9,.])",
    ","
   ],
   [
    "[0-9]+,[0-9]+(?![0-9,.])",
    ","
   ],
   [
    "(?:[1-9][0-9]{0,2}(?:\\.[0-9]{3})+(?![0-9]))(?![0-9,.])",
    ","
   ],
   [
    "(?:[1-9][0-9]{0,2}(?:\\.[0-9]{3})+(?![0-9])),[0-9]+(?![0-9,.])",
    ","
   ],
   [
    "(?:[1-9][0-9]{0,2}(?:_[0-9]{3})+(?![0-9])|[1-9][0-9]{0,2}(?:'[0-9]{3})+(?![0-9])|[1-9][0-9]{0,2}(?: [0-9]{3})+(?![0-9])),[0-9]+(?![0-9,.])",
    ","
   ],
   [
    "(?:[1-9][0-9]{0,2}(?:,[0-9]{3})+(?![0-9])|[1-9][0-9]?(?:,[0-9]{2})+,[0-9]{3}(?![0-9])|[1-9][0-9]{0,2}(?:_[0-9]{3})+(?![0-9])|[1-9][0-9]{0,2}(?:'[0-9]{3})+(?![0-9])|[1-9][0-9]{0,2}(?: [0-9]{3})+(?![0-9]))(?:\\.[0-9]*)?",
    "."
   ],
   [
    "[1-9][0-9]{0,2}(?:\\.[0-9]{3}){2,}(?![0-9,.])",
    ","
   ],
   [
    "[0-9]+,[0-9]+(?![0-9,.])",
    ","
   ],
   [
    "[0-9]+(?:\\.[0-9]*)?|(?<![0-9.])\\.[0-9]+",
    "."
   ]
  ]
 ],
 "PATTERNS": {
  "exponent": "e([+-]?[0-9]+)(?![0-9a-z.])",
  "fraction": "([0-9]{1,40})\u2044([0-9]{1,40})(?![0-9\u2044])",
  "after_whole": " +([0-9]{1,40})[/\u2044]([0-9]{1,40})(?![0-9.,/\u2044^!%])",
  "after_grouped": " *[/\u2044] *([0-9]{1,40})(?![0-9.,])",
  "in_parentheses": "\\( *([0-9]{1,40}) */ *([0-9]{1,40}) *\\)",
  "superscript": "[\u207a\u207b]?[\u2070\u00b9\u00b2\u00b3\u2074\u2075\u2076\u2077\u2078\u2079]{1,6}(?![\u2070\u00b9\u00b2\u00b3\u2074\u2075\u2076\u2077\u2078\u2079])",
  "percent": "%|per ?cent(?![a-z])|pct(?![a-z])",
  "remainder": "% *[0-9.\u00bd\u2153\u2154\u00bc\u00be\u2155\u2156\u2157\u2158\u2159\u215a\u2150\u215b\u215c\u215d\u215e\u2151\u2152]",
  "spaced_percent": " % [-+][0-9(.]",
  "product_of_percent": "% *\\(",
  "no_product": "(?<![0-9.])0[x\u00b7]",
  "date": " *[0-9]{4}-[0-9]{2}-[0-9]{2} *$",
  "time": "[0-9]{1,2}:[0-5][0-9](?![0-9])",
  "word": "[a-z]{2,}",
  "token": "[0-9][0-9.]*|[a-z]{2,}",
  "the": "the(?![a-z])",
  "grouped": " ([0-9]{3})$",
  "joint": "(?: +and +| +|-)?",
  "name": "[a-z_][a-z0-9_]*",
  "prefix": "[-+\u2014]|(?:minus|plus|negative)(?![a-z])",
  "of": "of(?![a-z])",
  "off": "off(?![a-z])",
  "between": "(?:and|to|from|by)(?![a-z])",
  "places": " *,? *(?:rounded )?(?:to|with) ([0-9]{1,4}|[a-z]+) (?:decimal places?|decimals?|places?|dp|d\\.p\\.)$",
  "nearest": " *,? *(?:rounded )?to the nearest ([a-z]+(?: number)?)$",
  "ends_in_percent": "(?:%|per ?cent|pct)$",
  "ends_in_fraction": "(?:^|[^0-9./,])[0-9]+ ?[/\u2044] ?[0-9]+$|[\u00bd\u2153\u2154\u00bc\u00be\u2155\u2156\u2157\u2158\u2159\u215a\u2150\u215b\u215c\u215d\u215e\u2151\u2152]$",
  "ends_in_factor": "[0-9.)\u00bd\u2153\u2154\u00bc\u00be\u2155\u2156\u2157\u2158\u2159\u215a\u2150\u215b\u215c\u215d\u215e\u2151\u2152]$",
  "operation": "raised +to +the +power +of(?![a-z])|to +the +power +of(?![a-z])|multiplied +by(?![a-z])|divided +by(?![a-z])|raised +to(?![a-z])|take +away(?![a-z])|added +to(?![a-z])|modulo(?![a-z])|minus(?![a-z])|times(?![a-z])|less(?![a-z])|over(?![a-z])|plus(?![a-z])|mod(?![a-z])|\\*\\*|//|\\*|\\+|-|/|:|\\^|x(?![a-z])|\u00b7|\u00d7|\u00f7|\u0425(?![a-z])|\u0445(?![a-z])|\u2014|\u2022|\u2044|\u2215|\u2217|\u2219|\u22c5|\u2715|\u2716|\u2797|\u2a2f|\uff38(?![a-z])|\uff58(?![a-z])",
  "postfix": "factorial(?![a-z])|squared(?![a-z])|cubed(?![a-z])|!",
  "factor": "three +quarters +of(?![a-z])|one +quarter +of(?![a-z])|two +thirds +of(?![a-z])|a +quarter +of(?![a-z])|one +third +of(?![a-z])|one +half +of(?![a-z])|a +fifth +of(?![a-z])|a +tenth +of(?![a-z])|a +third +of(?![a-z])|quarter +of(?![a-z])|a +half +of(?![a-z])|third +of(?![a-z])|half +of(?![a-z])|double(?![a-z])|triple(?![a-z])|twice(?![a-z])|half(?![a-z])",
  "pair": "difference +between(?![a-z])|difference +of(?![a-z])|quotient +of(?![a-z])|product +of(?![a-z])|multiply(?![a-z])|subtract(?![a-z])|divide(?![a-z])|sum +of(?![a-z])|take(?![a-z])|add(?![a-z])",
  "leading": "the +answer +to(?![a-z])|the +result +of(?![a-z])|how +much +are(?![a-z])|the +value +of(?![a-z])|how +much +is(?![a-z])|figure +out(?![a-z])|calculate(?![a-z])|could +you(?![a-z])|result +of(?![a-z])|what +does(?![a-z])|evaluate(?![a-z])|how +many(?![a-z])|how +much(?![a-z])|simplify(?![a-z])|value +of(?![a-z])|what +are(?![a-z])|work +out(?![a-z])|calcgpt(?![a-z])|can +you(?![a-z])|compute(?![a-z])|give +me(?![a-z])|show +me(?![a-z])|tell +me(?![a-z])|what +is(?![a-z])|please(?![a-z])|what's(?![a-z])|hello(?![a-z])|solve(?![a-z])|whats(?![a-z])|calc(?![a-z])|find(?![a-z])|okay(?![a-z])|then(?![a-z])|and(?![a-z])|hey(?![a-z])|now(?![a-z])|the(?![a-z])|hi(?![a-z])|ok(?![a-z])|so(?![a-z])",
  "number_word": "seventeen(?![a-z])|eighteen(?![a-z])|fourteen(?![a-z])|nineteen(?![a-z])|thirteen(?![a-z])|fifteen(?![a-z])|seventy(?![a-z])|sixteen(?![a-z])|eighty(?![a-z])|eleven(?![a-z])|ninety(?![a-z])|thirty(?![a-z])|twelve(?![a-z])|twenty(?![a-z])|eight(?![a-z])|fifty(?![a-z])|forty(?![a-z])|seven(?![a-z])|sixty(?![a-z])|three(?![a-z])|five(?![a-z])|four(?![a-z])|nine(?![a-z])|zero(?![a-z])|one(?![a-z])|six(?![a-z])|ten(?![a-z])|two(?![a-z])",
  "scale": "thousand(?![a-z])|trillion(?![a-z])|billion(?![a-z])|hundred(?![a-z])|million(?![a-z])"
 },
 "ONLY": "this calculator has numbers, + - * / ^ % ! mod, | | and parentheses",
 "MESSAGES": {
  "too-long": "longer than 10,000 characters",
  "operations": "more than 1,000 operations",
  "places": "more than {n} decimal places",
  "asked-places": "an answer has at most {n} decimal places",
  "digits": "a number of more than 2,000 digits",
  "value": "the exact value has more than 2,000 digits",
  "exponent": "an exponent must be a whole number",
  "large-exponent": "an exponent must be from -10,000 to 10,000",
  "factorial": "a factorial needs a whole number from 0 to 1,000",
  "division": "division by zero",
  "comma": "write decimals with a point, like 12.5; a comma may only separate thousands",
  "one": "one expression at a time",
  "time": "{typed} looks like a time; to divide, write /",
  "date": "{typed} looks like a date",
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
  "grouped": "{typed} is {grouped} to some and {mixed} to others",
  "closing": "a ) without its (",
  "bar": "a | is missing: the | at position {n} is not closed",
  "sign": "{typed} is not an operation; valid are + - * / ^{hint}",
  "pair": "the word {word} is missing",
  "no-answer": "there is no answer yet"
 },
 "READINGS": {
  "all": "{typed} as {read}",
  "of": "{left}{sign}({percent} of {of})",
  "mod": "a remainder with the sign of {b}",
  "//": "{a}/{b} rounded down"
 },
 "HINTS": {
  "\u00b0": "; write numbers without units",
  "\u221a": "; this calculator has numbers, + - * / ^ % ! mod, | | and parentheses",
  "\u221b": "; this calculator has numbers, + - * / ^ % ! mod, | | and parentheses",
  "\u221c": "; this calculator has numbers, + - * / ^ % ! mod, | | and parentheses",
  "\u03c0": "; this calculator has numbers, + - * / ^ % ! mod, | | and parentheses",
  "\u03a0": "; this calculator has numbers, + - * / ^ % ! mod, | | and parentheses",
  "\u221e": "; this calculator has numbers, + - * / ^ % ! mod, | | and parentheses",
  "\u2211": "; this calculator has numbers, + - * / ^ % ! mod, | | and parentheses",
  "\u220f": "; this calculator has numbers, + - * / ^ % ! mod, | | and parentheses",
  "\u222b": "; this calculator has numbers, + - * / ^ % ! mod, | | and parentheses"
 },
 "HINTS_AFTER_NUMBER": {
  "\u00b0": "; write numbers without units",
  "k": "; write numbers without units",
  "m": "; write numbers without units",
  "g": "; write numbers without units",
  "s": "; write numbers without units",
  "x": "; to multiply, write *",
  "e": "; write 12e3 for 12 times 1,000",
  "\u00b7": "; a decimal point is written .",
  ".": "; a number has one decimal point, and a comma separates thousands",
  "_": "; it may only separate thousands",
  "'": "; it may only separate thousands"
 }
};
