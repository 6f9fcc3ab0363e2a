"""What a person writes as an answer, read as a number in base units: with units in words, separators, nouns and both µ.

Nothing is guessed: what could mean two numbers is refused, with the forms that this question takes.
"""

import math
import re
from types import EllipsisType

from mlsysim import units
from mlsysim.errors import InputError

_MAX_TEXT = 120
_SPACES = dict.fromkeys(map(ord, "\u00a0\u2007\u2008\u2009\u200a\u202f\t"), " ")
_SIGNS = {
    ord("\u03bc"): "µ",
    ord("\u2212"): "-",
    ord("\u00d7"): "x",
    ord("\u22c5"): "*",
    ord("\u00b7"): "*",
    ord("\u2019"): "'",
}
# Words for units, singular; plurals end in s.
_WORDS = {
    "second": "s", "sec": "s", "minute": "min", "hour": "h", "hr": "h", "day": "day", "year": "year", "yr": "year",
    "millisecond": "ms", "microsecond": "µs", "nanosecond": "ns", "percent": "%", "hertz": "Hz",
    "kilobyte": "kB", "megabyte": "MB", "gigabyte": "GB", "terabyte": "TB", "petabyte": "PB",
    "kibibyte": "KiB", "mebibyte": "MiB", "gibibyte": "GiB", "tebibyte": "TiB", "bit": "bit", "byte": "byte",
    "watt": "W", "kilowatt": "kW", "megawatt": "MW", "joule": "J", "kilojoule": "kJ", "megajoule": "MJ", "gigajoule": "GJ",
    "gram": "g", "kilogram": "kg", "tonne": "t", "litre": "L", "liter": "L", "dollar": "USD", "usd": "USD", "flop": "FLOP",
    "token": "token", "kilowatt-hour": "kWh", "kilowatthour": "kWh", "megawatt-hour": "MWh",
}  # fmt: skip
_SUPERSCRIPTS = str.maketrans("⁰¹²³⁴⁵⁶⁷⁸⁹⁻", "0123456789-")
_MULTIPLES = {"thousand": 3, "million": 6, "billion": 9, "trillion": 12}
_ALWAYS = {"gpu", "device", "time", "x"}  # nouns that any count may have
_NUMBER = re.compile(
    r"([+-]?)\s*(\d{1,3}(?:[ ,'_]\d{3})+(?:\.\d+)?(?!\d)|\d{1,3}(?:\.\d{3}){2,}(?!\d)|\d[\d_]*(?:[.,]\d*)?|[.,]\d+)"
    r"(?:[eE]([+-]?\d{1,3})|\s*[x*]\s*10\s*(?:\^|\*\*)?\s*([+-]?\d{1,2}))?"
)
FORMS = {
    "s": "'3.5 ms', '2 hours', or a number of seconds",
    "byte": "'12 GB', '11.2 GiB', or a number of bytes",
    "byte/s": "'1.2 TB/s', or a number of bytes per second",
    "FLOP": "'3.2 PFLOP', or a number of FLOP",
    "FLOP/s": "'120 TFLOP/s', or a number of FLOP/s",
    "FLOP/byte": "'8 FLOP/byte', or the number alone",
    "1/s": "'13.8 per second', '13.8/s', or the number alone",
    "J": "'3.5 GJ', '970 kWh', or a number of joules",
    "W": "'3.5 kW', or a number of watts",
    "kg": "'3.5 t', '35 kg', or a number of kilograms",
    "L": "'35 L', or a number of litres",
    "USD": "'35 USD', '$35', or the number alone",
    "USD/s": "'2.5 USD/h', or a number of dollars per second",
    "USD/token": "'2.5 USD/Mtoken', or a number of dollars per token",
    "J/token": "'0.5 J/token', or the number alone",
    "kg/J": "'400 g/kWh', or a number of kilograms per joule",
}  # fmt: skip


def forms(unit: str, share: bool = False, whole: bool = False) -> str:
    """How an answer in a unit may be written, as a share, or as a whole number.

    >>> forms("1", share=True)
    "a fraction, as in 0.25, or '25 %'"
    """
    if unit == "1" and whole:
        return "a whole number, as in 12"
    if unit == "1":
        return "a fraction, as in 0.25, or '25 %'" if share else "a number without a unit, as in 12 or 1.5e9"
    return FORMS.get(unit, f"a number of {unit}")


def is_given(answer: object) -> bool:
    """Whether something stands there: no dots, no empty text."""
    return not (
        answer is None or isinstance(answer, EllipsisType) or (isinstance(answer, str) and not answer.strip(" .…"))
    )


def describe(answer: object) -> str:
    """An answer as an error quotes it."""
    if isinstance(answer, str):
        return repr(answer if len(answer) <= 40 else answer[:40] + "…")
    if isinstance(answer, (bool, int, float)):
        return "a very large number" if isinstance(answer, int) and answer.bit_length() > 256 else repr(answer)
    return f"a value of type {type(answer).__name__}"


def read(answer: object, unit: str, prompt: str = "", whole: bool = False) -> float:
    """An answer in base units.

    Parameters
    ----------
    answer : str, float or anything with the value of one number
        A bare number is in base units. An array or a list of one number is that number.
    unit : str
        Of the question.
    prompt : str
        Of the question: a count may have a noun that stands in it.
    whole : bool
        Whether a refusal asks for a whole number.

    Raises
    ------
    InputError
        With the forms that this question takes.

    >>> read("78 hours", "s"), read("96,636,764,160 bytes", "byte"), read("38 requests", "1", "How many requests?")
    (280800.0, 96636764160.0, 38.0)
    """
    share = "fraction" in prompt or "share" in prompt.casefold()
    wanted = forms(unit, share, whole)
    if isinstance(answer, str):
        return _text(answer, unit, prompt, wanted)
    value = _alone(answer)
    if value is None:
        raise InputError(f"{describe(answer)} is not a number: give {wanted}.")
    if not math.isfinite(value):
        raise InputError(f"{value} is not a finite number: give {wanted}.")
    return value * units.unit(unit).factor


def _alone(answer: object) -> float | None:
    """The one number that an object is or holds."""
    try:
        if isinstance(answer, (bool, bytes, bytearray, dict, set)):
            return None
        if isinstance(answer, (list, tuple)) and len(answer) == 1:
            return _alone(answer[0])
        if getattr(answer, "size", None) == 1 and callable(getattr(answer, "item", None)):
            return float(answer.item())  # type: ignore[attr-defined]
        return float(answer)  # type: ignore[arg-type]
    except OverflowError:
        return math.inf
    except Exception:  # an answer may be any object; its conversion may fail in any way
        return None


def _digits(text: str, quoted: str, wanted: str) -> str:
    """A number without separators of thousands; a comma that could be a point is refused."""
    if re.fullmatch(r"[1-9]\d{0,2},\d{3}", text):
        raise InputError(
            f"{quoted} can be {text.replace(',', '')} or {text.replace(',', '.')}: write one of them, or {wanted}."
        )
    if text.count(".") > 1:
        return text.replace(".", "")
    if re.fullmatch(r"\d*,\d*", text) and not re.fullmatch(r"\d{1,3}(,\d{3}){2,}", text):
        return text.replace(",", ".")  # 96,6: no group of three, so a decimal comma
    return re.sub(r"[ ,'_]", "", text)


def _text(answer: str, unit: str, prompt: str, wanted: str) -> float:
    quoted = describe(answer)
    refusal = InputError(f"{quoted} is not read: give {wanted}.")
    if len(answer) > _MAX_TEXT:
        raise refusal
    text = answer.translate(_SPACES).translate(_SIGNS).strip().rstrip(".;,").strip()
    text = re.sub(r"10([⁰¹²³⁴⁵⁶⁷⁸⁹⁻]+)", lambda m: f"10^{m[1].translate(_SUPERSCRIPTS)}", text)
    if text.startswith("$"):
        text = f"{text[1:]} USD"
    match = _NUMBER.match(text)
    if match is None:
        raise refusal
    rest = text[match.end() :].strip()
    number = match[1] + _digits(match[2], quoted, wanted)
    power = int(match[3] or match[4] or 0)
    first, _, after = rest.partition(" ")
    if first.casefold() in _MULTIPLES:
        power, rest = power + _MULTIPLES[first.casefold()], after.strip()
    try:
        float(number)
    except ValueError:
        raise refusal from None
    known = _unit(rest, unit, prompt)
    if known is None:
        raise refusal
    value = f"{number}e{power}" if power else number
    if known == unit:  # also where a bare number is all that can be written, as with rates
        return units.parse(value, "1", "answer") * units.unit(unit).factor
    return units.parse(value if known == "1" else f"{value} {known}", unit, "answer")


def _unit(rest: str, unit: str, prompt: str) -> str | None:
    """The unit that words stand for; None where they stand for none that this question could mean."""
    if not rest:
        return unit
    text = re.sub(r"\s*\bper\s+cent\b", "%", rest)
    text = re.sub(r"\s*\bper\b\s*", "/", text)
    text = re.sub(r"\s*([/*])\s*", r"\1", text)
    text = re.sub(r"^(?:an?|the)\s+|/(?:an?|the|one)\s+", lambda m: "/" if m[0].startswith("/") else "", text)
    parts = [p if p in "/*" else _symbol(p) for p in re.split(r"([/*])", text)]
    joined = "".join(parts)
    if unit == "1/s":
        head, slash, tail = joined.partition("/")
        known = joined == "Hz" or (slash and tail == "s" and _is_noun(head, prompt))
        return "Hz" if known else None
    try:
        have = units.unit(joined)
    except InputError as error:
        if re.fullmatch(r"[kMGTPE]?FLOPS(/s)?", joined):  # work or rate: its own sentence says which to write
            raise error from None
        return "1" if unit == "1" and _is_noun(rest, prompt) else None
    if have.dimension == units.unit(unit).dimension:
        return joined
    return "1" if unit == "1" and _is_noun(rest, prompt) else None


def _symbol(word: str) -> str:
    """A word as the symbol of a unit; what is no such word stays."""
    plain = word.strip()
    folded = plain.casefold().replace(" ", "-") if " " in plain else plain.casefold()
    for name in (folded, folded.removesuffix("s")):
        if name in _WORDS and (len(plain) > 1):
            return _WORDS[name]
    if re.fullmatch(r"[kMGTPE]?FLOPs", plain):
        return plain[:-1]
    return plain


def _is_noun(words: str, prompt: str) -> bool:
    """Whether a count is of things that the question speaks of."""
    if not words or words == "1":
        return True
    stems = {_stem(w) for w in re.findall(r"[A-Za-z][A-Za-z-]*", prompt)} | _ALWAYS
    given = words.replace("/", " ").split()
    return len(given) <= 4 and all(re.fullmatch(r"[A-Za-z][A-Za-z-]*", w) and _stem(w) in stems for w in given)


def _stem(word: str) -> str:
    folded = word.casefold()
    return folded[:-3] + "y" if folded.endswith("ies") else folded[:-1] if folded.endswith("s") else folded
