"""The page of the command line: every command and option with its default, from the parsers themselves."""

import argparse
import inspect
import re
from collections.abc import Iterator
from typing import Any

from mlsysim import cli
from reference import words

_DEFAULT = re.compile(r"\s*\(default: (.*?)\)\s*$")


def parsers() -> dict[str, argparse.ArgumentParser]:
    """Every command that can be run, with its parser, in the order of the help."""
    found: dict[str, argparse.ArgumentParser] = {}
    for name in cli.COMMANDS:
        found |= dict(_below(name, _choices(cli._parser(name))[name]))
    return found


def _choices(parser: argparse.ArgumentParser) -> dict[str, Any]:
    inner = [a for a in parser._actions if isinstance(a, argparse._SubParsersAction)]
    return dict(inner[0].choices) if inner else {}


def _below(name: str, parser: argparse.ArgumentParser) -> Iterator[tuple[str, argparse.ArgumentParser]]:
    inner = _choices(parser)
    if not inner:
        yield name, parser
    for word, one in inner.items():
        yield from _below(f"{name} {word}", one)


def options(parser: argparse.ArgumentParser) -> list[argparse.Action]:
    """What a command takes; old names, which only warn, are left out as in its help."""
    return [a for a in parser._actions if a.help is not argparse.SUPPRESS and not isinstance(a, argparse._HelpAction)]


def _plain(text: str) -> str:
    return words.prose(re.sub(r"(?<![\w`-])--[a-z][\w-]*", r"``\g<0>``", text), words.code)


def _help(parser: argparse.ArgumentParser, action: argparse.Action) -> str:
    text = action.help or ""
    if "%" in text:
        text = parser._get_formatter()._expand_help(action)
    return " ".join(text.split())


def _takes(action: argparse.Action) -> str:
    if action.choices is not None:
        return " ".join(words.code(str(c)) for c in action.choices)
    if action.nargs == 0 or isinstance(action, argparse.BooleanOptionalAction):
        return "–"
    name = action.metavar or action.dest.upper()
    text = " ".join(name) if isinstance(name, tuple) else str(name)
    return words.code(text) + (", several" if action.nargs in ("+", "*") else "")


def default(parser: argparse.ArgumentParser, action: argparse.Action) -> str:
    """What holds where the option is left out: of the parser, or as its help says."""
    said = _DEFAULT.search(_help(parser, action))
    if action.required or (not action.option_strings and action.nargs not in ("?", "*")):
        return "must be given"
    if action.default is not None and action.default is not argparse.SUPPRESS and action.default not in ("", [], False):
        return words.code(_value(action.default))
    return _plain(said[1]) if said else "–"


def _value(value: Any) -> str:
    if value is True:
        return "yes"
    return f"{value:g}" if isinstance(value, float) else str(value)


def _command(name: str, parser: argparse.ArgumentParser) -> str:
    label = name.replace(" ", "-")
    said = _about(name, parser)
    rows = []
    for action in options(parser):
        called = ", ".join(words.code(o) for o in action.option_strings) or words.code(action.dest)
        meaning = _DEFAULT.sub("", _help(parser, action))
        takes, left_out = _takes(action), default(parser, action)
        facts = ["" if takes == "–" else takes]
        facts.append(left_out if left_out == "must be given" else "" if left_out == "–" else f"default {left_out}")
        rows.append(words.term(called, facts, _plain(meaning)))
    usage = " ".join(parser.format_usage().removeprefix("usage: ").split())
    shown = f"```text\n{_wrapped(usage)}\n```\n\n"
    schema = (
        f"Its JSON is described [on the page of schemas](schemas.qmd#sec-schema-{label}).\n\n"
        if any("--json" in a.option_strings for a in options(parser))
        else ""
    )
    return f"## {name} {{#sec-command-{label} .unnumbered}}\n\n{said}{shown}{''.join(rows)}{schema}"


def _about(name: str, parser: argparse.ArgumentParser) -> str:
    text = parser.description or ""
    if not text:
        owner: Any = cli._parser(name.split()[0])
        for word in name.split():
            inner = next(a for a in owner._actions if isinstance(a, argparse._SubParsersAction))
            text = next((str(c.help) for c in inner._choices_actions if c.dest == word and c.help), "")
            owner = inner.choices[word]
    text = " ".join(text.split())
    return f"{_plain(text[:1].upper() + text[1:])}{'' if text.endswith('.') else '.'}\n\n" if text else ""


def _wrapped(usage: str) -> str:
    """Never in the middle of an option with its value."""
    pieces = re.findall(r"\[[^\[\]]*(?:\[[^\[\]]*\][^\[\]]*)*\]|\S+", usage)
    lines = [""]
    for piece in pieces:
        if len(lines[-1]) + len(piece) > 96:
            lines.append("       ")
        lines[-1] += (" " if lines[-1].strip() else "") + piece
    return "\n".join(lines)


def page() -> str:
    """The whole page."""
    said = inspect.getdoc(cli.main) or ""
    exits = said.partition("\n\n")[2]
    return (
        "# Command line {#sec-command-line}\n\n"
        "`mlsysim COMMAND` asks the same questions as the library. This page is made from the parsers of the commands, so that it "
        'lists what they take today. Quantities may carry a unit (`"450 ms"`, `"400 Gbit/s"`); a number alone is in SI units. '
        "An option may be shortened as far as it stays clear.\n\n"
        f"Exit status: {words.prose(' '.join(exits.split()), words.code)}\n\n"
        + "".join(_command(name, parser) for name, parser in parsers().items())
    )
