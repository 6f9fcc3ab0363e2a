"""What a page of the book asks of the library: to move a view, run a listing, ask a question and check an answer.

A worker in the reader's browser calls :func:`answer` with a request in JSON and gets JSON back. The build calls the same
functions for what a page shows before anybody has touched it, so that a page never shows anything else.
"""

import ast
import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, redirect_stdout
from html import escape
from io import StringIO
from types import MappingProxyType
from typing import Any

from mlsysim.course import exercises, machine, sizing
from mlsysim.course.exercises.routes import route
from mlsysim.course.readings import Reading
from mlsysim.course.sizing import answers, exports, showing
from mlsysim.course.sliders import Choice, Control, LogSlider, check_presets
from mlsysim.drawing.style import Drawing, collected, display, moving
from mlsysim.errors import InputError

MOST_TEXT = 20_000  # characters that a listing may show
HINTS = 3
NOT_HERE = ("numpy", "matplotlib", "pandas", "jax")  # a page brings the standard library and ours


class _Bounded(StringIO):
    """Text that stops growing."""

    def __init__(self) -> None:
        super().__init__()
        self.left_out = 0

    def write(self, text: str) -> int:
        room = max(MOST_TEXT - self.tell(), 0)
        self.left_out += len(text[room:])
        super().write(text[:room])
        return len(text)

    def taken(self) -> str:
        text = self.getvalue()
        self.seek(0)
        self.truncate()
        return text


@contextmanager
def _shown() -> Iterator[list[str]]:
    """What is printed and displayed inside, in order, as HTML."""
    parts: list[str] = []
    printed = _Bounded()

    def flush() -> None:
        if text := printed.taken():
            shown = _TITLE.sub(r"<strong>\1</strong>", escape(text.rstrip()))
            parts.append(f'<pre class="live-text">{shown}</pre>')

    def take(thing: Any) -> None:
        flush()
        parts.append(as_html(thing))

    with redirect_stdout(printed), moving(), collected(take):
        try:
            yield parts
        finally:
            flush()
            if printed.left_out:
                parts.append(f'<p class="live-cut">{printed.left_out:,} more characters were printed.</p>')


_TITLE = re.compile(r"^\*\*(\d\d\.\d+ [^*\n]+)\*\*", re.M)  # of a question, as a notebook shows it
_DIGITS = re.compile(r"(?<![\w.])\d+\.\d+(?:e[-+]?\d+)?(?![\w.])")
_LABEL = re.compile(r"(?<![\w/#.@\"-])(eq-[a-z][\w-]*)(?![^<]*</code>)")


def as_html(thing: Any) -> str:
    """A value as a page shows it."""
    if isinstance(thing, Drawing):
        return f'<figure class="live-figure">{thing.svg()}</figure>'
    for method in ("_repr_html_", "_repr_svg_"):
        if callable(made := getattr(type(thing), method, None)):
            html = _LABEL.sub(r"[@\1]", made(thing))  # as in explain()'s text: a page puts the number there
            return f'<div class="live-html">{html}</div>'
    text = repr(thing)
    if isinstance(thing, (float, tuple, list, dict)):  # six digits are more than any number of this book deserves
        text = _DIGITS.sub(lambda m: f"{float(m[0]):.6g}", text)
    more = f" … ({len(text):,} characters)" if len(text) > MOST_TEXT else ""
    return f'<pre class="live-text">{escape(text[:MOST_TEXT])}{more}</pre>'


# Views


class View:
    """A view under its sliders, made by the ``explore`` call of the chapter's own notebook."""

    def __init__(
        self,
        function: Callable[..., Reading | None],
        presets: Mapping[str, Mapping[str, Any]] | None = None,
        **sliders: Control,
    ) -> None:
        check_presets(presets or {}, sliders)
        self.function, self.presets, self.sliders = function, presets or {}, sliders
        self.values = {name: slider.values() for name, slider in sliders.items()}
        self._start = {name: slider.position for name, slider in sliders.items()}
        self.to_prepare = [
            {name: at}
            for name, slider in sliders.items()
            if isinstance(slider, Choice)
            for at in range(len(self.values[name]))
            if at != self._start[name]
        ]

    def start(self) -> dict[str, int]:
        """The positions of the sliders at the beginning."""
        return dict(self._start)

    def spec(self) -> dict[str, Any]:
        """What a page needs to draw the controls."""
        presets = {
            text: {name: self.sliders[name].nearest(value) for name, value in chosen.items()}
            for text, chosen in self.presets.items()
        }
        sentence, _, rest = " ".join((self.function.__doc__ or "").split()).partition(": ")
        objective, title = (sentence, rest) if re.fullmatch(r"Objectives? [\d, and]+", sentence) else ("", "")
        title = title or " ".join((self.function.__doc__ or "").split())
        return {
            "title": (title[:1].upper() + title[1:]).rstrip(".") or self.function.__name__,
            "objective": objective,
            "sliders": {name: self._control(name) for name in self.sliders},
            "presets": presets,
        }

    def _control(self, name: str) -> dict[str, Any]:
        slider, values = self.sliders[name], self.values[name]
        made: dict[str, Any] = {"label": slider.words(name), "position": slider.position, "unit": slider.unit}
        if isinstance(slider, Choice):
            return made | {"kind": "choice", "values": list(values), "texts": [slider.text(v) for v in values]}
        if isinstance(slider, LogSlider) or len(values) < 3:
            return made | {"kind": "range", "n": len(values), "values": list(values)}
        return made | {"kind": "range", "n": len(values), "low": values[0], "step": slider.step}  # type: ignore[attr-defined]

    def move(self, positions: Mapping[str, int]) -> dict[str, Any]:
        """The reading at these positions, and how each slider's value is written."""
        at = self.start() | dict(positions)
        chosen = {name: self.values[name][at[name]] for name in self.sliders}
        made: dict[str, Any] = {"texts": {name: self.sliders[name].text(v) for name, v in chosen.items()}}
        try:
            with _shown() as parts:
                reading = self.function(**chosen)
        except (ValueError, KeyError) as error:
            return made | {"error": _sentence(error)}
        if reading is None:  # a view that prints and draws for itself
            return made | {"figure": "", "rows": [], "note": "", "shown": "".join(parts)}
        figure = reading.drawing.svg() if reading.drawing is not None else ""
        return made | {"figure": figure, "rows": reading.rows(), "note": reading.meaning, "shown": "".join(parts)}


def _sentence(error: BaseException) -> str:
    """An error as the library says it."""
    return str(error.args[0]) if isinstance(error, KeyError) and error.args else str(error) or type(error).__name__


def open_view(code: str) -> View:
    """The view that a notebook's cells make: definitions, and one call of ``explore``."""
    made: list[View] = []
    space: dict[str, Any] = {"__name__": "__live__"}

    def explore(view: Callable[..., Reading | None], presets: Any = None, **sliders: Control) -> None:
        made.append(View(view, presets, **sliders))

    from mlsysim import course

    before, course.explore = getattr(course, "explore"), explore  # noqa: B009
    try:
        exec(compile(code, "<notebook>", "exec"), space)
    finally:
        course.explore = before
    if len(made) != 1:
        raise InputError(f"the cells call explore {len(made)} times; give one call")
    return made[0]


def read_only(mapping: dict[Any, Any]) -> Mapping[Any, Any]:
    """A mapping that cannot be changed, as the build ships one that takes long to make."""
    return MappingProxyType(mapping)


# Listings


def run(code: str, space: dict[str, Any]) -> dict[str, Any]:
    """Run a listing: what it prints, the value of every bare expression, and an error as the library says it."""
    error = ""
    space.setdefault("input", _no_keyboard)
    with _shown() as parts:
        try:
            tree = ast.parse(code)
            for node in tree.body:
                if isinstance(node, ast.Expr):
                    value = eval(compile(ast.Expression(node.value), "<listing>", "eval"), space)
                    if value is not None:
                        display(value)
                else:
                    exec(compile(ast.Module([node], []), "<listing>", "exec"), space)
        except BaseException as problem:
            error = _problem(problem)
    return {"shown": "".join(parts), "error": error}


def _no_keyboard(prompt: object = "") -> str:
    raise InputError("input: a listing in a page reads no keyboard; write the value into the code")


def _problem(problem: BaseException) -> str:
    if isinstance(problem, SyntaxError):
        return f"line {problem.lineno}: {problem.msg}"
    if isinstance(problem, ModuleNotFoundError) and problem.name in NOT_HERE:
        return f"this needs {problem.name}, which a page has not: open the chapter's notebook in the lab, in Colab or at home"
    step, line = problem.__traceback__, 0
    while step is not None:
        if step.tb_frame.f_code.co_filename == "<listing>":
            line = step.tb_lineno
        step = step.tb_next
    where = f"line {line}: " if line else ""
    return f"{where}{type(problem).__name__}: {_sentence(problem)}"


# Questions


def question(id: str, seed: str = "") -> dict[str, Any]:
    """A question with a reader's numbers, as a page prints it."""
    exercise = exercises.exercise(id)
    prompt = exercise.prompt.format_map(exercise.draw(seed).texts())
    return {
        "id": id,
        "title": exercise.title,
        "points": exercise.points,
        "prompt": marked(prompt),
        "answers": list(exercise.answers),
        "form": exercise.form,
        "kind": exercise.kind,
        "starter": exercise.starter + ('\nreason = "Why? A few sentences, with numbers."' if exercise.rubric else ""),
        "unit": exercise.unit,
    }


def marked(text: str) -> str:
    """The little Markdown that prompts and hints use, as HTML."""
    text = escape(text, quote=False)
    text = re.sub(r"`([^`]+)`", r"<code>\1</code>", text)
    text = re.sub(r"\*\*([^*]+)\*\*", r"<strong>\1</strong>", text)
    return re.sub(r"(?<![\w*])\*([^*\s][^*]*)\*(?![\w*])", r"<em>\1</em>", text)


def checked(id: str, text: str, seed: str = "", attempt: int = 1) -> dict[str, Any]:
    """What the library says to an answer as somebody types it: a number, a word, or code for what is made."""
    try:
        made = exercises.exercise(id).form in ("function", "data")
        found = exercises.check(id, built(text) if made else literal(text), seed, attempt)
    except InputError as error:
        return {"correct": False, "message": marked(str(error)), "mistake": "not-read", "points": 0}
    said = marked(found.message)
    return {"correct": found.correct, "message": said, "mistake": found.mistake, "points": found.points}


def built(text: str) -> Any:
    """What code assigns to ``answer``, or else the last function that it defines; other text is read as Python data.

    >>> built("def twice(x):\\n    return 2 * x")(4), built("{'tp': 8}")
    (8, {'tp': 8})
    """
    space: dict[str, Any] = {"__name__": "__answer__"}
    try:
        tree = ast.parse(text)
        if len(tree.body) == 1 and isinstance(tree.body[0], ast.Expr):
            return eval(compile(ast.Expression(tree.body[0].value), "<listing>", "eval"), space)
        exec(compile(tree, "<listing>", "exec"), space)
    except BaseException as problem:
        raise InputError(_problem(problem)) from None
    functions = [n.name for n in tree.body if isinstance(n, ast.FunctionDef)]
    return space.get("answer", space[functions[-1]] if functions else None)


def literal(text: str) -> float | str:
    """An answer as Python takes it: a number where it is one, else the text.

    >>> literal(" 3e-3 "), literal("3.5 ms"), literal("memory")
    (0.003, '3.5 ms', 'memory')
    """
    try:
        return float(text)
    except ValueError:
        return text.strip()


def hint(id: str, stage: int, seed: str = "") -> str:
    """The hints of a question, by stages: a question back, the relation to use, and the worked route but its last step."""
    exercise = exercises.exercise(id)
    given = exercise.draw(seed)
    if stage == 1:
        return f"<p>{marked(exercise.ask.format_map(given.texts()))}</p>"
    if stage == 2:
        rows = "".join(
            f"<tr><th scope='row'><code>{escape(n)}</code></th><td>{escape(str(g))}</td><td><code>{escape(repr(g.value))}</code></td><td>{escape(g.meaning)}</td></tr>"
            for n, g in given.given.items()
        )
        head = "<tr><th scope='col'>input</th><th scope='col'>value</th><th scope='col'>in SI units</th><th scope='col'>meaning</th></tr>"
        return (
            f"<p>{marked(exercise.nudge.format_map(given.texts()))}</p>"
            f"<table class='live-inputs'><caption>Your numbers, as <code>inputs(\"{id}\")</code> gives them</caption><thead>{head}</thead><tbody>{rows}</tbody></table>"
        )
    steps = route(exercise, given, whole=False)
    if not steps.steps:
        return "<p>It is one line of code, and that line is yours.</p>"
    return f'<p>One way goes so; the last step is yours.</p><pre class="live-text">{escape(str(steps))}</pre>'


def handed_in(notebook: str, seed: str, answers: Mapping[str, str]) -> str:
    """A chapter's student notebook with a reader's name and answers in it, as ``mlsysim grade`` takes it."""
    document = json.loads(notebook)
    for cell in document["cells"]:
        if cell["cell_type"] != "code":
            continue
        text = "".join(cell["source"])
        text = text.replace('STUDENT = "your-id"', f"STUDENT = {seed!r}")
        for id, answer in answers.items():
            name = f"answer_{id.partition('.')[2]}"
            if exercises.exercise(id).form in ("function", "data"):  # code stands in the cell as it was written
                if f"{name} = " in text:
                    text = (
                        f"{answer}\n{name} = answer" if "answer =" in answer else f"{answer}\n{name} = {_last(answer)}"
                    )
                elif f"{name.replace('answer', 'reason')} = " in text and (why := _reason(answer)):
                    text = f"{name.replace('answer', 'reason')} = {why!r}"
            else:
                text = text.replace(f"{name} = ...", f"{name} = {literal(answer)!r}")
        cell["source"] = text.splitlines(keepends=True)
    return json.dumps(document, indent=1, ensure_ascii=False, sort_keys=True) + "\n"


def _reason(code: str) -> str:
    """What was written beside a design, as in ``reason = "..."``; it is read, not run."""
    try:
        nodes = ast.parse(code).body
    except SyntaxError:
        return ""
    said = [
        n.value.value
        for n in nodes
        if isinstance(n, ast.Assign)
        and isinstance(n.value, ast.Constant)
        and any(isinstance(t, ast.Name) and t.id == "reason" for t in n.targets)
    ]
    return str(said[-1]).strip() if said else ""


def _last(code: str) -> str:
    """The name of the last function that a code defines; its text, where it is data."""
    found = re.findall(r"^def (\w+)", code, re.M)
    return found[-1] if found else "..."


# The door of the worker


class Page:
    """What one page has open: its views, and the names that its listings share."""

    def __init__(self) -> None:
        self.views: dict[str, View] = {}
        self.space: dict[str, Any] = {"__name__": "__main__"}

    def open(self, name: str, code: str) -> dict[str, Any]:
        """Open a view; its controls."""
        if name not in self.views:
            self.views[name] = open_view(code)
        return self.views[name].spec()

    def move(self, name: str, positions: Mapping[str, int]) -> dict[str, Any]:
        """Move a view's sliders; what it shows."""
        return self.views[name].move(positions)

    def prepare(self, name: str) -> bool:
        """Move a view, unseen, to a choice that it has not been prepared for; whether more are left.

        A choice may need a program or a table that is read once. A page asks for it while the reader looks at something.
        """
        if left := self.views[name].to_prepare:
            self.views[name].move(left.pop(0))
        return bool(left)

    def run(self, code: str) -> dict[str, Any]:
        """Run a listing."""
        return run(code, self.space)

    def ask(self, ids: Sequence[str], seed: str) -> list[dict[str, Any]]:
        """Several questions with a reader's numbers."""
        exercises.normalise_seed(seed)
        return [question(id, seed) for id in ids]

    def check(self, id: str, text: str, seed: str, attempt: int = 1) -> dict[str, Any]:
        """Check an answer."""
        return checked(id, text, seed, attempt)

    def hint(self, id: str, stage: int, seed: str) -> str:
        """A hint."""
        return hint(id, stage, seed)

    def hand_in(self, notebook: str, seed: str, answers: Mapping[str, str]) -> str:
        """The notebook to hand in."""
        return handed_in(notebook, seed, answers)

    def size(self, form: Mapping[str, str]) -> dict[str, Any]:
        """The first numbers of an answer to the form of the page that sizes a job, as HTML and for a screen reader."""
        found = exports.asked(lambda f: exports.three(answers.first(f)), form)
        return found if "error" in found else {"html": showing.first(found), "heard": showing.heard(found)}

    def behind(self, form: Mapping[str, str]) -> dict[str, Any]:
        """The pictures and all else that stands behind them."""
        return exports.asked(lambda f: {"html": showing.behind(exports.whole(f))}, form)

    def beside(self, form: Mapping[str, str]) -> dict[str, Any]:
        """Other devices beside it, where the form names some."""
        return exports.asked(showing.side_by_side, form)

    def confirm(self, form: Mapping[str, str]) -> dict[str, Any]:
        """What the simulator says of it, which takes seconds."""
        return exports.asked(lambda f: {"text": answers.confirmed(f)}, form)

    def more(self, form: Mapping[str, str]) -> dict[str, Any]:
        """What would change that answer."""
        return exports.asked(lambda f: {"html": showing.listing(answers.changes(f))}, form)

    def machine(self, runs: Sequence[Mapping[str, Any]]) -> dict[str, str]:
        """What a page measured of the reader's machine, on a roofline."""
        return machine.shown(runs)

    def export(self, form: Mapping[str, str], kind: str) -> dict[str, str]:
        """That answer as a file."""
        return sizing.export(form, kind)

    def command(self, text: str) -> dict[str, Any]:
        """A command line as fields of that form."""
        return sizing.read_command(text)


_page = Page()
_DOORS = (
    "open",
    "move",
    "prepare",
    "run",
    "ask",
    "check",
    "hint",
    "hand_in",
    "size",
    "behind",
    "beside",
    "confirm",
    "more",
    "machine",
    "export",
    "command",
)


def answer(request: str) -> str:
    """Answer a request in JSON: ``{"do": "move", "with": [...]}``; an error is ``{"error": sentence}``."""
    asked = json.loads(request)
    if asked.get("do") not in _DOORS:
        return json.dumps({"error": f"{asked.get('do')!r} is none of {', '.join(_DOORS)}"})
    try:
        return json.dumps(getattr(_page, asked["do"])(*asked["with"]))
    except ModuleNotFoundError as error:  # a search among thousands of plans needs NumPy
        return json.dumps({"error": _problem(error)})
    except Exception as error:
        return json.dumps({"error": _sentence(error)})
