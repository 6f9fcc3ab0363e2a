"""Write a lecturer's kit from the exercise definitions: keys, worked solutions, question banks, and the tests before and after.

    python scripts/make_kit.py OUT                     all of it, for the seeds demo, 1, 2 and 3
    python scripts/make_kit.py OUT --seeds ada bob     for these students
    python scripts/make_kit.py OUT --no-slides         without the slides, which take half a minute
    python scripts/make_kit.py --book                  book/_solutions.qmd: the worked solutions of the public seed, folded

OUT gets ``keys/SEED.csv`` and ``solutions/SEED.md`` (not for students), ``bank-moodle.xml``, ``bank-canvas.zip``, ``bank-qti21.zip``, ``prairielearn/``,
``slides/`` of every chapter, ``tests/`` (twenty questions before and after the course, keys, a consent form) and a README that begins on Monday.
"""

import argparse
import csv
import hashlib
import io
import json
import re
import subprocess
import sys
import zipfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from xml.sax.saxutils import escape, quoteattr

import course_plan
from build_lab import package_files
from live.engine import LEFT_OUT

import mlsysim
from mlsysim import catalog, units
from mlsysim.course.exercises import OBJECTIVES, Exercise, assignment, exercise, worked

ROOT = Path(__file__).resolve().parent.parent
BOOK = ROOT / "book" / "_solutions.qmd"
# Twenty misconceptions of twenty objectives: what a course about machines for learning should have changed.
TWENTY = (
    *("01.2", "01.7", "02.3", "03.2", "03.6", "04.4", "04.5", "05.3", "05.8", "06.8", "06.11"),
    *("07.5", "07.9", "08.4", "09.2", "09.4", "10.7", "11.2", "11.9", "12.2"),
)


def asked() -> Iterator[Exercise]:
    """Every exercise in order."""
    for slug in OBJECTIVES:
        yield from assignment(slug)


def prompt(e: Exercise, seed: str) -> str:
    """The text of a question with a seed's numbers."""
    return e.prompt.format_map(e.draw(seed).texts())


def key(seed: str) -> list[list[str]]:
    """The answer sheet of a seed: id, title, kind, points, the answer, and what wrong answers tell."""
    rows = [["exercise", "title", "kind", "difficulty", "minutes", "points", "answer", "in base units", "mistakes"]]
    for e in asked():
        g, made = e.draw(seed), worked(e.id, seed)
        exact = f"{e.solve(g):.12g}" if e.form == "number" else ""
        wrong = [f"{m.name}: {units.format(m.ways[0](g), e.unit)}" for m in e.mistakes] if e.form == "number" else []
        rows.append(
            [
                e.id,
                e.title,
                e.kind,
                str(e.difficulty),
                str(e.minutes),
                str(e.points),
                made.answer,
                exact,
                "; ".join(wrong),
            ]
        )
    return rows


def solution(e: Exercise, seed: str, fence: str = "python") -> str:
    """One worked solution: question, relations, steps with their numbers, answer."""
    made = worked(e.id, seed)
    relations = "".join(f"- `{r}`\n" for r in made.relations)
    steps = "\n".join(map(repr, made.steps))
    rubric = "".join(f"- {line}\n" for line in e.rubric)
    parts = [
        prompt(e, seed),
        f"*How to begin.* {e.nudge.format_map(e.draw(seed).texts())}",
        f"*Relations.*\n\n{relations.rstrip()}" if relations else "",
        f"```{fence}\n{steps}\n```",
        f"*Answer:* `{made.answer}`",
        f"*What a reason should say.*\n\n{rubric.rstrip()}" if rubric else "",
    ]
    return "\n\n".join(p for p in parts if p)


def solutions(seed: str) -> str:
    """All worked solutions of a seed as one text."""
    parts = [f"# Worked solutions for the seed {seed!r}\n\nFor lecturers: these are a student's numbers."]
    for slug in OBJECTIVES:
        parts.append(f"## {slug}")
        parts += [f"### {e.id} {e.title}\n\n{solution(e, seed)}" for e in assignment(slug)]
    return "\n\n".join(parts) + "\n"


def folded() -> str:
    """The worked solutions of the public seed for the book, each folded."""
    parts = ["<!-- Written by scripts/make_kit.py --book; change the exercises, not this file. -->"]
    for slug in OBJECTIVES:
        parts.append(f"## {slug[:2]} {slug[3:].replace('-', ' ').capitalize()} {{.unnumbered}}")
        for e in assignment(slug):
            text = solution(e, "demo")
            parts.append(f"<details>\n<summary>{escape(f'{e.id} {e.title}')}</summary>\n\n{text}\n\n</details>")
    return "\n\n".join(parts) + "\n"


# Question banks


def _numeric(seeds: Sequence[str]) -> Iterator[tuple[Exercise, str]]:
    for e in asked():
        if e.form in ("number", "word"):
            for seed in seeds:
                yield e, seed


def moodle(seeds: Sequence[str]) -> str:
    """The bank as Moodle XML: a question per exercise and seed; named mistakes have their hints as feedback."""
    parts, slug = ['<?xml version="1.0" encoding="UTF-8"?>', "<quiz>"], ""
    for e, seed in _numeric(seeds):
        if e.slug != slug:
            slug = e.slug
            parts.append(
                f"<question type='category'><category><text>$course$/mlsysim/{slug}</text></category></question>"
            )
        g, word = e.draw(seed), e.form == "word"
        head = f"<name><text>{escape(e.id)} {escape(seed)}</text></name><questiontext format='markdown'><text>{escape(bare(e, seed))}</text></questiontext>"
        head += f"<defaultgrade>{e.points}</defaultgrade><generalfeedback format='markdown'><text>{escape(e.ask.format_map(g.texts()))}</text></generalfeedback>"
        if word:
            body = "<single>true</single>" + "".join(
                f"<answer fraction='{100 if a == e.solve(g) else 0}' format='plain_text'><text>{a}</text></answer>"
                for a in e.answers
            )
        else:
            right = float(e.solve(g))
            body = _answer(right, 100, e.tolerance if not e.whole else 1e-9, "")
            for m in e.mistakes:
                body += "".join(_answer(float(way(g)), 0, 0.002, m.hint.format_map(g.texts())) for way in m.ways)
        kind = "multichoice" if word else "numerical"
        parts.append(f"<question type='{kind}'>{head}{body}</question>")
    return "\n".join([*parts, "</quiz>"]) + "\n"


_SMALLER = {3: "ms", 6: "µs", 9: "ns"}


def bare(e: Exercise, seed: str, power: int = 0) -> str:
    """A question as a bank asks it, which reads numbers only: without the ways to write an answer that the library reads.

    With a power, the number is asked for times ten to that power, or in a smaller unit of time.
    """
    text = prompt(e, seed)
    if e.form == "word":
        return text
    unit = _SMALLER[power] if power and e.unit == "s" else e.unit
    times = f" times 10^{power}" if power and unit == e.unit else ""
    alone = f"(Give the number alone{times}{'' if unit == '1' else f', in {unit}'}.)"
    return f"{without_ways(text)} {alone}"


def without_ways(text: str) -> str:
    """A prompt without the ways to write an answer that the library reads."""
    text = re.sub(r",? or (?:as )?a percentage,? such as '[^']*'", "", text)
    return " ".join(s for s in re.split(r"(?<=[.?]) (?=[A-Z(])", text) if "text with a unit" not in s)


def _answer(value: float, fraction: int, tolerance: float, feedback: str) -> str:
    said = f"<feedback format='markdown'><text>{escape(feedback)}</text></feedback>" if feedback else ""
    return f"<answer fraction='{fraction}'><text>{value:.10g}</text><tolerance>{abs(value) * tolerance:.6g}</tolerance>{said}</answer>"


_ITEM = """<?xml version="1.0" encoding="UTF-8"?>
<assessmentItem xmlns="http://www.imsglobal.org/xsd/imsqti_v2p1" identifier={id} title={title} adaptive="false" timeDependent="false">
<responseDeclaration identifier="RESPONSE" cardinality="single" baseType="{base}"><correctResponse><value>{right}</value></correctResponse></responseDeclaration>
<outcomeDeclaration identifier="SCORE" cardinality="single" baseType="float"><defaultValue><value>0</value></defaultValue></outcomeDeclaration>
<itemBody><p>{text}</p>{field}</itemBody>
<responseProcessing><responseCondition><responseIf>{test}<setOutcomeValue identifier="SCORE"><baseValue baseType="float">{points}</baseValue></setOutcomeValue></responseIf></responseCondition></responseProcessing>
</assessmentItem>
"""


def qti(seeds: Sequence[str]) -> bytes:
    """The bank as a QTI 2.1 package: a zip of items with their manifest."""
    files: dict[str, str] = {}
    for e, seed in _numeric(seeds):
        g, word = e.draw(seed), e.form == "word"
        right = e.solve(g)
        mark = f"i{e.id.replace('.', '-')}-{hashlib.sha256(seed.encode()).hexdigest()[:6]}"
        if word:
            choices = "".join(f'<simpleChoice identifier="{a}">{a}</simpleChoice>' for a in e.answers)
            field = f'<choiceInteraction responseIdentifier="RESPONSE" shuffle="false" maxChoices="1">{choices}</choiceInteraction>'
            test = '<match><variable identifier="RESPONSE"/><correct identifier="RESPONSE"/></match>'
        else:
            field = '<p><textEntryInteraction responseIdentifier="RESPONSE" expectedLength="20"/></p>'
            percent = f"{100 * (1e-9 if e.whole else e.tolerance):g}"
            test = f'<equal toleranceMode="relative" tolerance="{percent} {percent}"><variable identifier="RESPONSE"/><correct identifier="RESPONSE"/></equal>'
        files[f"{mark}.xml"] = _ITEM.format(
            id=quoteattr(mark),
            title=quoteattr(f"{e.id} {e.title}"),
            base="identifier" if word else "float",
            right=right if word else f"{right:.10g}",
            text=escape(bare(e, seed)),
            field=field,
            test=test,
            points=e.points,
        )
    return _package(files, "imsqti_item_xmlv2p1", "QTIv2.1 Package")


def _package(files: dict[str, str], kind: str, schema: str) -> bytes:
    """A zip of these files with their manifest; two runs give the same bytes."""
    resources = "".join(
        f'<resource identifier="{n[:-4]}" type="{kind}" href="{n}"><file href="{n}"/></resource>' for n in files
    )
    files["imsmanifest.xml"] = (
        '<?xml version="1.0" encoding="UTF-8"?>\n<manifest xmlns="http://www.imsglobal.org/xsd/imscp_v1p1" identifier="mlsysim">'
        f"<metadata><schema>{schema}</schema><schemaversion>1.0.0</schemaversion></metadata><organizations/>"
        f"<resources>{resources}</resources></manifest>\n"
    )
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED) as archive:
        for name in sorted(files):
            archive.writestr(zipfile.ZipInfo(name, (1980, 1, 1, 0, 0, 0)), files[name])
    return made.getvalue()


_CANVAS = """<item ident={id} title={title}><itemmetadata><qtimetadata>
<qtimetadatafield><fieldlabel>question_type</fieldlabel><fieldentry>{kind}</fieldentry></qtimetadatafield>
<qtimetadatafield><fieldlabel>points_possible</fieldlabel><fieldentry>{points}</fieldentry></qtimetadatafield>
</qtimetadata></itemmetadata>
<presentation><material><mattext texttype="text/plain">{text}</mattext></material>{field}</presentation>
<resprocessing><outcomes><decvar maxvalue="100" minvalue="0" varname="SCORE" vartype="Decimal"/></outcomes>
<respcondition continue="No"><conditionvar>{test}</conditionvar><setvar action="Set" varname="SCORE">100</setvar></respcondition></resprocessing></item>
"""


def canvas(seeds: Sequence[str]) -> bytes:
    """The bank for Canvas: QTI 1.2 as Canvas writes it, a question bank per chapter.

    Of QTI 2.1 Canvas reads no tolerance, and it rounds what a student types to four decimals, so no number is below one.
    """
    banks: dict[str, list[str]] = {}
    for e, seed in _numeric(seeds):
        right, power = e.solve(e.draw(seed)), 0
        if e.form == "word":
            labels = "".join(
                f'<response_label ident="{i}"><material><mattext texttype="text/plain">{a}</mattext></material></response_label>'
                for i, a in enumerate(e.answers, 1)
            )
            field = f'<response_lid ident="response1" rcardinality="Single"><render_choice>{labels}</render_choice></response_lid>'
            test = f'<varequal respident="response1">{e.answers.index(right) + 1}</varequal>'
        else:
            while 0 < abs(right) * 10**power < 1:
                power += 3
            right, around = right * 10**power, abs(right) * 10**power * (1e-9 if e.whole else e.tolerance)
            field = '<response_str ident="response1" rcardinality="Single"><render_fib fibtype="Decimal"><response_label ident="answer1"/></render_fib></response_str>'
            test = f'<vargte respident="response1">{right - around:.12g}</vargte><varlte respident="response1">{right + around:.12g}</varlte>'
        made = _CANVAS.format(
            id=quoteattr(f"{e.id}-{seed}"),
            title=quoteattr(f"{e.id} {e.title}"),
            kind="multiple_choice_question" if e.form == "word" else "numerical_question",
            points=e.points,
            text=escape(bare(e, seed, power)),
            field=field,
            test=test,
        )
        banks.setdefault(e.slug, []).append(made)
    files = {
        f"mlsysim-{slug}.xml": '<?xml version="1.0" encoding="UTF-8"?>\n<questestinterop xmlns="http://www.imsglobal.org/xsd/ims_qtiasiv1p2">'
        f'<objectbank ident="mlsysim-{slug}"><qtimetadata><qtimetadatafield><fieldlabel>bank_title</fieldlabel><fieldentry>mlsysim {slug}'
        f"</fieldentry></qtimetadatafield></qtimetadata>\n{''.join(items)}</objectbank></questestinterop>\n"
        for slug, items in banks.items()
    }
    return _package(files, "imsqti_xmlv1p2", "IMS Content")


_SERVER = '''\
"""Draws a student's numbers and grades with the library, which lies in serverFilesCourse; Python 3.11 or newer."""

from mlsysim.course import check, inputs, question

ID = {id!r}


def generate(data):
    seed = str(data["variant_seed"])
    data["params"]["seed"] = seed
    data["params"]["prompt"] = question(ID, seed)


def grade(data):
    given = data["raw_submitted_answers"].get("answer", "")
    found = check(ID, given, data["params"]["seed"])
    data["score"] = 1.0 if found.correct else found.points / {points}
    data["feedback"]["hint"] = found.message
'''
_HTML = """<pl-question-panel><markdown>{{{{{{params.prompt}}}}}}</markdown></pl-question-panel>
<pl-string-input answers-name="answer" label="Answer"></pl-string-input>
<pl-submission-panel>{{{{feedback.hint}}}}</pl-submission-panel>
"""


def prairielearn() -> dict[str, str]:
    """The bank for PrairieLearn: a folder per question, with numbers of its own for each variant."""
    files = {}
    for e in asked():
        if e.form not in ("number", "word"):
            continue
        name = f"questions/mlsysim-{e.id.replace('.', '-')}"
        mark = hashlib.md5(f"mlsysim {e.id}".encode(), usedforsecurity=False).hexdigest()
        info = {
            "uuid": f"{mark[:8]}-{mark[8:12]}-{mark[12:16]}-{mark[16:20]}-{mark[20:]}",
            "title": f"{e.id} {e.title}",
            "topic": e.slug,
            "tags": [e.kind, f"difficulty-{e.difficulty}"],
            "type": "v3",
        }
        files[f"{name}/info.json"] = json.dumps(info, indent=1) + "\n"
        files[f"{name}/question.html"] = _HTML.format()
        files[f"{name}/server.py"] = _SERVER.format(id=e.id, points=e.points)
    return files


def library() -> dict[str, bytes]:
    """Our package as files of a PrairieLearn course, whose questions find there what they import."""
    parts = ((p.relative_to(ROOT).as_posix(), p) for p in package_files() if (ROOT / "mlsysim") in p.parents)
    return {f"serverFilesCourse/{name}": p.read_bytes() for name, p in parts if not any(x in name for x in LEFT_OUT)}


# Before and after


def choices(id: str, seed: str) -> tuple[list[str], int]:
    """Four answers to choose from, by size: the right one and what three named mistakes give; and where the right one stands."""
    e = exercise(id)
    g = e.draw(seed)
    right = units.format(e.solve(g), e.unit)
    wrong = dict.fromkeys(units.format(m.ways[0](g), e.unit) for m in e.mistakes)
    texts = [right, *[w for w in wrong if w != right][:3]]
    texts.sort(key=lambda t: float(units.parse(t, e.unit, "choice")) if e.unit != "1" else float(t))
    return texts, texts.index(right)


def twenty(seed: str) -> tuple[str, list[list[str]]]:
    """A test of twenty questions, and its key: what each asks for, and what each choice says about who makes it."""
    parts = [
        f"# Twenty questions ({seed} the course)\n\nOne answer each, forty minutes, no computer but a pocket calculator. A guess tells us nothing: leave out what you do not know."
    ]
    rows = [["question", "exercise", "objective", "choice", "right", "misconception"]]
    for number, id in enumerate(TWENTY, 1):
        e, g = exercise(id), exercise(id).draw(seed)
        texts, at = choices(id, seed)
        names = {units.format(m.ways[0](g), e.unit): m.name for m in reversed(e.mistakes)}
        listed = "\n".join(f"{'abcd'[i]}. {t}" for i, t in enumerate(texts))
        printed = ""  # a room without computers has no datasheets either
        if "device" in g:
            d = catalog.device(g["device"])
            peak, memory = units.format(d.peak_flops["bf16"], "FLOP/s"), units.format(d.memory_bandwidth, "byte/s")
            printed = f" ({d.name}: dense bf16 peak {peak}, memory {memory}.)"
        parts.append(f"## {number}. {e.title}\n\n{without_ways(prompt(e, seed))}{printed}\n\n{listed}")
        rows += [
            [str(number), id, e.objective, "abcd"[i], str(int(i == at)), "" if i == at else names.get(t, "")]
            for i, t in enumerate(texts)
        ]
    return "\n\n".join(parts) + "\n", rows


_README = """# The lecturer's kit of mlsysim {version}

Keep this folder from students: it holds their answers.

| what | for what |
| :-- | :-- |
| `keys/SEED.csv`, `solutions/SEED.md` | answers and worked solutions of a student's numbers; `make_kit.py OUT --seeds THAT-ID` writes others |
| `bank-canvas.zip` | Canvas: Settings, Import Course Content, QTI .zip file; a bank per chapter, with tolerances |
| `bank-moodle.xml` | Moodle: Question bank, Import, Moodle XML; hints are the feedback |
| `bank-qti21.zip` | other systems that read QTI 2.1 |
| `prairielearn/` | copy `questions` and `serverFilesCourse` into a PrairieLearn course |
| `slides/` | a deck of each chapter, with its drawings; open `NN-slug.html`, S shows what to say |
| `tests/` | twenty questions before and after the course, their keys, and a consent form |

## Monday

1. Put `exercises/NN-slug/student.ipynb` where your course lives. Students write their id into `STUDENT` and hand the notebook in.
2. Unpack what your course system lets you download, and grade it:
   `sudo .venv/bin/mlsysim grade exercises/NN-slug DOWNLOAD -o grades.csv --roster course.csv --progress`
   (without root: `--insecure`, for code that you trust). `--jobs N` takes N at a time, `--import-to moodle` (or canvas, gradescope)
   writes the file that your gradebook imports, `--feedback FOLDER` a page for each student.
3. Look at `grades.html` (the class without names), at the rows of `grades.csv` whose status is not `ok`, and at the list of pairs.
4. A capstone is checked in its own notebook (`exercises/capstones/NAME/master.ipynb` has an example of each grade); a person marks the page.

## What was learned

Print `tests/before.md` in the first week and `tests/after.md` in the last, with `tests/consent.md` where your university asks for it.
A point for each right choice, none for a wrong or a missing one. Write a file `scores.csv` with the columns student, before and
after, and run `python scripts/course_plan.py scores.csv`. It prints Hedges' g of the change and the mean normalised gain, (after - before) over
(20 - before), each with a 95 % range over students. Who missed a test is left out. Without a group that had no course the change is no proof of its
cause. The keys name the misconception behind every wrong choice: count those before and after. One that one in five still holds deserves another hour.

## Fourteen weeks

{fourteen}
## Six weeks

{six}"""
_CONSENT = """# Consent

We want to know what this course teaches. Before and after it you answer twenty questions. They are no part of your grade, and who
grades you does not see your answers until the grades are out.

- What we keep: your choices in both tests, under a random word in place of your name. The list of names and words is kept apart, by
  ____________________, and destroyed on ____________.
- What we publish: figures of the whole class, never of one person, and none if fewer than ten take part.
- You may say no, or stop at any time until that list is destroyed, without a reason and without a disadvantage. Then your answers are deleted.
- Who is responsible, and whom to ask: ____________________. Approved by (ethics board, number): ____________________.

I have read this and had my questions answered. I am at least 18 years old.  yes / no: I take part.

Place, date, signature: ________________________________________
"""


def _csv(rows: Sequence[Sequence[str]]) -> str:
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(rows)
    return text.getvalue()


def kit(seeds: Sequence[str]) -> dict[str, str | bytes]:
    """Every file of the kit by its path."""
    files: dict[str, str | bytes] = {
        "bank-moodle.xml": moodle(seeds),
        "bank-canvas.zip": canvas(seeds),
        "bank-qti21.zip": qti(seeds),
        "README.md": _README.format(
            version=mlsysim.__version__,
            fourteen=course_plan.syllabus(course_plan.FOURTEEN, links=False),
            six=course_plan.syllabus(course_plan.SIX, links=False),
        ),
        "tests/consent.md": _CONSENT,
    }
    files |= {f"prairielearn/{name}": data for name, data in (prairielearn() | library()).items()}
    for seed in seeds:
        files[f"keys/{seed}.csv"] = _csv(key(seed))
        files[f"solutions/{seed}.md"] = solutions(seed)
    for when in ("before", "after"):
        text, rows = twenty(when)
        files |= {f"tests/{when}.md": text, f"tests/{when}-key.csv": _csv(rows)}
    return files


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path, nargs="?", help="folder of the kit; keep it from students")
    parser.add_argument("--seeds", nargs="+", default=["demo", "1", "2", "3"], help="student ids")
    parser.add_argument("--book", action="store_true", help="write book/_solutions.qmd")
    parser.add_argument("--no-slides", action="store_true", help="leave the slides out")
    args = parser.parse_args()
    if not args.book and args.out is None:
        parser.error("give a folder, or --book")
    if args.book:
        BOOK.write_text(folded(), encoding="utf-8")
        print(f"wrote {BOOK.relative_to(ROOT)}")
    if args.out is not None:
        for name, data in kit(args.seeds).items():
            path = args.out / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data if isinstance(data, bytes) else data.encode())
        if (
            not args.no_slides
            and subprocess.run([sys.executable, str(ROOT / "scripts" / "slides"), str(args.out / "slides")]).returncode
        ):
            return 1
        print(f"wrote the kit into {args.out}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
