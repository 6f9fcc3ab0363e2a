"""Grading: what a submission may not do, whose file is whose, what is late, copied, graded again, and what comes out."""

import csv
import json
import os
import platform
import random
import socket
import tomllib
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from sandboxed import usable_sandbox
from support import ROOT

from mlsysim.course.grading import (
    Graded,
    Late,
    class_page,
    collect,
    copies,
    feedback_page,
    merged,
    read_roster,
    read_rows,
    statistics,
    write_feedback,
    write_import,
    write_json,
    write_statistics,
)
from mlsysim.course.grading import (
    sandbox as box,
)
from mlsysim.course.grading.marks import Remark
from mlsysim.course.grading.submissions import latest, owner
from mlsysim.errors import InputError

ATTACKS = tomllib.loads((Path(__file__).parent / "attacks.toml").read_text(encoding="utf-8"))["attack"]
SLUG = "01-iron-law"


@pytest.fixture
def sandbox() -> None:
    usable_sandbox()


def numbers() -> str:
    """System calls by name, as libseccomp knows them on this machine."""
    import pyseccomp

    names = "add_key request_key keyctl shmget msgget ptrace process_vm_readv pidfd_getfd fsopen unshare clone clone3 setns open_by_handle_at"
    names += " bpf perf_event_open io_uring_setup userfaultfd init_module personality mincore fcntl inotify_init1 futex"
    native = pyseccomp.Arch.NATIVE
    return "\n".join(f"{n.upper()} = {pyseccomp.resolve_syscall(native, n)}" for n in names.split())


def probe(attacks: list[Mapping[str, Any]], given: Mapping[str, object]) -> dict[str, object]:
    """Run attacks in one sandbox, a cell each, and give back what each found."""
    head = "import ctypes, fcntl, mlsysim, os, resource, signal, socket, subprocess, sys, time\n" + numbers()
    head += "\nlibc = ctypes.CDLL(None, use_errno=True)\nsyscall = libc.syscall\n"
    head += "\n".join(f"{name} = {value!r}" for name, value in given.items())
    cells = [head]
    for i, attack in enumerate(attacks):
        body = "\n".join("        " + line for line in attack["code"].split("; "))
        cells.append(
            f"def attack():\n    try:\n{body}\n    except BaseException as e:\n        return type(e).__name__\nfound_{i} = attack()"
        )
    values = box.execute(cells, [f"found_{i}" for i in range(len(attacks))], 300)["values"]
    return {a["name"]: values[f"found_{i}"] for i, a in enumerate(attacks)}


@pytest.mark.sandbox
@pytest.mark.usefixtures("sandbox")
def test_what_a_submission_cannot_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert len(ATTACKS) >= 69
    secret, outside = tmp_path / "in" / "zoe.ipynb", tmp_path / "written-by-a-submission"
    secret.parent.mkdir()
    secret.write_text("answer_1 = 42")
    monkeypatch.setenv("COURSE_PASSWORD", "hunter2")
    hidden = f"mlsysim-{os.getpid()}"
    with socket.create_server(("127.0.0.1", 0)) as server, socket.socket(socket.AF_UNIX) as quiet:
        quiet.bind("\0" + hidden)
        quiet.listen()
        given = {
            "SECRET": str(secret),
            "OUTSIDE": str(outside),
            "ROOT": str(ROOT),
            "PORT": server.getsockname()[1],
            "HIDDEN": hidden,
        }
        filling = [a for a in ATTACKS if a["name"].startswith(("fill", "many"))]
        seen = probe([a for a in ATTACKS if a not in filling], given)
        for attack in filling:  # each in a sandbox of its own, since the first would stand in the way of the next
            seen |= probe([attack], given)
    wrong = {a["name"]: seen[a["name"]] for a in ATTACKS if seen[a["name"]] not in a["allowed"]}
    assert wrong == {}
    assert not outside.exists()
    assert not (ROOT / "mlsysim" / "written-by-a-submission").exists()


@pytest.mark.sandbox
@pytest.mark.usefixtures("sandbox")
def test_the_attacks_would_be_seen_without_a_sandbox(tmp_path: Path) -> None:
    """Otherwise the list above could pass by itself: as oneself, many of them get what they ask for."""
    names = (
        "read the password file",
        "put a key into the user's ring",
        "a file in memory",
        "see processes",
        "a socket of the host without a name",
        "a lock on a file that all see",
        "which pages somebody has read",
    )
    few = [a for a in ATTACKS if a["name"] in names]
    code = [
        f"import ctypes, fcntl, mlsysim, os, socket\nlibc = ctypes.CDLL(None)\nsyscall = libc.syscall\nHIDDEN = 'x'\n{numbers()}",
        *[
            "def attack():\n    try:\n"
            + "\n".join("        " + line for line in a["code"].split("; "))
            + f"\n    except OSError as e:\n        return type(e).__name__\nfound_{i} = attack()"
            for i, a in enumerate(few)
        ],
    ]
    values = box.execute(code, [f"found_{i}" for i in range(len(few))], 300, sandboxed=False)["values"]
    got = [a["name"] for i, a in enumerate(few) if values[f"found_{i}"] not in a["allowed"]]
    assert {"read the password file", "a file in memory", "see processes", *names[-2:]} <= set(got)


@pytest.mark.sandbox
@pytest.mark.usefixtures("sandbox")
def test_what_notebooks_do_works_inside() -> None:
    """Threads wait for each other by the futexes that stay open; a program is started, and a file is read by parts."""
    code = """import concurrent.futures, os, subprocess, threading, time
def slow(i):
    time.sleep(0.01)
    return i
threads = [threading.Thread(target=slow, args=(i,)) for i in range(8)]
for t in threads: t.start()
for t in threads: t.join()
with concurrent.futures.ThreadPoolExecutor(4) as pool:
    total = sum(pool.map(slow, range(8)))
said = subprocess.run(["echo", "hi"], capture_output=True, text=True).stdout
read = os.preadv(os.open(os.__file__, os.O_RDONLY), [bytearray(64)], 0)"""
    found = box.execute([code], ["total", "said", "read"], 60)["values"]
    assert found == {"total": 28, "said": "hi\n", "read": 64}


@pytest.mark.sandbox
@pytest.mark.usefixtures("sandbox")
def test_a_submission_leaves_nothing_to_the_next() -> None:
    """The attack that scored 18 of 18: a text in the user's keyring, read by who is graded later."""
    put = f"import ctypes\n{numbers()}\nlibc = ctypes.CDLL(None)\nfound = libc.syscall(ADD_KEY, b'user', b'gift', b'answer_1 = 42', 13, -4)"
    get = f"import ctypes, os\n{numbers()}\nlibc = ctypes.CDLL(None)\nkey = libc.syscall(REQUEST_KEY, b'user', b'gift', None, 0)\nfound = key\nuser = os.getuid()"
    first = box.execute([put], ["found"], 60)["values"]
    second, third = (box.execute([get], ["found", "user"], 60)["values"] for _ in range(2))
    assert first["found"] == second["found"] == -1
    assert second["user"] != third["user"]


@pytest.mark.sandbox
@pytest.mark.usefixtures("sandbox")
def test_memory_counts_over_all_processes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each of eight children stays below the limit of one process; together they do not."""
    monkeypatch.setattr(box, "MAX_MEMORY", 600_000_000)
    grow = "import os, time\nfor i in range(8):\n    if os.fork() == 0:\n        x = bytearray(os.urandom(1000)) * 150_000\n        time.sleep(60)\n        os._exit(0)\ntime.sleep(60)"
    with pytest.raises(box.Failure, match="GiB together"):
        box.execute([grow], [], 60)
    assert box.execute(["x = bytearray(100_000_000)\nfound = len(x)"], ["found"], 60)["values"]["found"] == 100_000_000


@pytest.mark.sandbox
@pytest.mark.usefixtures("sandbox")
def test_the_python_inside_is_the_one_outside() -> None:
    code = "import platform, mlsysim, numpy\nversion = platform.python_version()\npackage = mlsysim.__version__\nother = numpy.__version__"
    import numpy

    import mlsysim

    found = box.execute([code], ["version", "package", "other"], 60)["values"]
    assert found == {"version": platform.python_version(), "package": mlsysim.__version__, "other": numpy.__version__}


# Whose file it is


def put(folder: Path, *names: str) -> Path:
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text('{"cells": []}', encoding="utf-8")
    return folder


def test_downloads_of_course_systems_are_read(tmp_path: Path) -> None:
    canvas = put(
        tmp_path / "canvas",
        "doejane_LATE_123_456_student-1.ipynb",
        "doejane_123_455_student.ipynb",
        "roeric_77_9_01-iron-law.ipynb",
    )
    found = {(s.student, s.name, s.late, s.number) for s in collect(canvas)}
    assert found == {("123", "doejane", True, 1), ("123", "doejane", False, 0), ("77", "roeric", False, 0)}
    current, replaced = latest(collect(canvas))
    assert ([s.number for s in current if s.student == "123"], [s.number for s in replaced]) == ([1], [0])
    moodle = put(
        tmp_path / "moodle",
        "Jane Doe_1234_assignsubmission_file_/student.ipynb",
        "Eric Roe_99_assignsubmission_file_/a.txt",
    )
    assert {(s.student, s.name, s.system) for s in collect(moodle)} == {
        ("1234", "Jane Doe", "moodle"),
        ("99", "Eric Roe", "moodle"),
    }
    scope = put(tmp_path / "scope", "submission_555/student.ipynb")
    assert [(s.student, s.system) for s in collect(scope)] == [("555", "gradescope")]
    plain = put(tmp_path / "plain", "jdoe.ipynb", ".hidden", "__MACOSX/x.ipynb", "deep/er/x.ipynb")
    assert sorted(s.student for s in collect(plain)) == ["jdoe", "x"]


def test_what_cannot_be_collected_is_said(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="cannot be listed"):
        collect(tmp_path / "nowhere")
    (tmp_path / "empty").mkdir()
    with pytest.raises(InputError, match="holds no file"):
        collect(tmp_path / "empty")
    with pytest.raises(InputError, match="folders deep"):
        collect(put(tmp_path / "deep", "a/b/c/d/e/f.ipynb"))


ROSTERS = {
    "canvas": 'Student,ID,SIS User ID,SIS Login ID,Section\n    Points Possible,,,,\n"Doe, Jane",123,,jdoe,S\n"Roe, Eric",77,,eroe,S\n',
    "moodle": "First name,Last name,ID number,Email address\nJane,Doe,jdoe,jane@u.example\nEric,Roe,eroe,eric@u.example\n",
    "own": "student,name\njdoe,Jane Doe\neroe,Eric Roe\n",
}


@pytest.mark.parametrize("system", ROSTERS)
def test_rosters_of_course_systems_are_read(system: str, tmp_path: Path) -> None:
    path = tmp_path / "roster.csv"
    path.write_text(ROSTERS[system], encoding="utf-8")
    roster = read_roster(path)
    assert [s.id for s in roster] == ["jdoe", "eroe"]
    moodle = collect(put(tmp_path / "in", "Jane Doe_1234_assignsubmission_file_/s.ipynb"))[0]
    assert (found := owner(moodle, roster)) is not None
    assert found.id == "jdoe"
    stranger = collect(put(tmp_path / "other", "Jan Doe_1_assignsubmission_file_/s.ipynb"))[0]
    assert owner(stranger, roster) is None
    if system == "canvas":
        assert owner(collect(put(tmp_path / "c", "doejane_123_1_student.ipynb"))[0], roster) == roster[0]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("name,section\nJane,1\n", "no column of ids"),
        ("student\njdoe\njdoe\n", "line 3: 'jdoe' stands there twice"),
        ("student\n", "nobody"),
    ],
)
def test_a_roster_that_cannot_be_used_is_said(text: str, says: str, tmp_path: Path) -> None:
    path = tmp_path / "roster.csv"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(InputError, match=says):
        read_roster(path)


# Late, again, alike


def row(student: str, *points: float, status: str = "ok", **more: Any) -> Graded:
    given = {f"01.{i + 1}": p for i, p in enumerate(points)}
    return Graded(student, sum(points), 10, given, status, more.pop("message", ""), **more)


@pytest.mark.independent
@pytest.mark.parametrize(
    ("hours", "left"), [(-1, 1.0), (0, 1.0), (1, 0.9), (24, 0.9), (25, 0.8), (119, 0.5), (121, 0.0)]
)
def test_lateness_costs_a_share_for_each_day_begun(hours: int, left: float) -> None:
    due = datetime(2026, 11, 22, 12, tzinfo=UTC)
    at = datetime.fromtimestamp(due.timestamp() + 3600 * hours, tz=UTC)
    assert Late(due, 0.1, 5).factor(at) == pytest.approx(left)


def test_a_date_without_a_zone_is_refused() -> None:
    with pytest.raises(InputError, match="no time zone"):
        Late(datetime(2026, 11, 22))


def test_grading_again_keeps_the_better_of_each_question() -> None:
    before = [row("ada", 2, 0), row("bob", 1, 1), row("cy", 3, 3)]
    now = [row("ada", 0, 3), row("bob", 2, 2), row("dee", 1, 0), row("cy", 0, 0, status="missing")]
    found = {r.student: (r.points["01.1"], r.points["01.2"], r.status) for r in merged(before, now)}
    assert found == {"ada": (2, 3, "ok"), "bob": (2, 2, "ok"), "cy": (3, 3, "ok"), "dee": (1, 0, "ok")}
    assert "2 points kept from before" in next(r.message for r in merged(before, now) if r.student == "ada")


def test_grades_survive_their_file(tmp_path: Path) -> None:
    rows = [row("ada", 2, 1, remarks={"01.1": Remark(False, "half", "a hint")}), row("=1+1", 0, 0)]
    write_json(rows, tmp_path / "g.json")
    again = read_rows(tmp_path / "g.json")
    assert [(r.student, r.points, r.status) for r in again] == [(r.student, r.points, r.status) for r in rows]
    (tmp_path / "bad.json").write_text("[" * 100_000)
    with pytest.raises(InputError, match="no file of grades"):
        read_rows(tmp_path / "bad.json")


def test_copies_are_named_and_short_answers_are_not() -> None:
    long = "flops=2*g['m']*g['n']*g['k'];rate=device.peak_flops['bf16']*g['efficiency'];answer_1=flops/rate"
    other = "seconds=float(kernel_time(device,2*m*n*k,2*(m*k+k*n+m*n)).time);answer_1=round(seconds*1e6)/1e6"
    rows = [
        row("ada", 1, texts={"01.1": long}),
        row("bob", 1, texts={"01.1": long}),
        row("cy", 1, texts={"01.1": other}),
        row("dee", 1, texts={"01.1": "answer_1=3"}),
        row("eve", 1, texts={"01.1": "answer_1=3"}),
    ]
    assert [(c.first, c.second) for c in copies(rows)] == [("ada", "bob")]
    stolen = row("fay", 1, status="seed-mismatch", message="STUDENT is 'ada'", texts={"01.1": other[::-1]})
    assert [(c.first, c.second, c.why) for c in copies([rows[0], stolen])] == [
        ("fay", "ada", "uses the other's inputs")
    ]


# One submission neither ends nor holds up the grading of the others


def notebook(student: str, *cells: str) -> str:
    code = [f"STUDENT = {student!r}", *cells]
    return json.dumps({"cells": [{"cell_type": "code", "source": c} for c in code]})


FORGED = """import os
for handle in range(3, 12):
    try: os.write(handle, {text!r})
    except OSError: pass
os._exit(0)"""


@pytest.mark.regression
@pytest.mark.slow
def test_every_file_is_a_row_whatever_it_holds(tmp_path: Path) -> None:
    from mlsysim.course.grading import grade

    folder = tmp_path / "in"
    folder.mkdir()
    long = "a" * 12_000
    made = {
        "newlines": notebook("newlines", "\n" * 60_000, "answer_1 = 1"),
        "alike1": notebook("alike1", f"answer_1 = 1; x = {long!r}"),
        "alike2": notebook("alike2", f"answer_1 = 1; x = {long + 'b'!r}"),
        "null": notebook("null", FORGED.format(text=b'{"values":{"STUDENT":"null","answer_10":{"results":null}}}')),
        "five": notebook("five", FORGED.format(text=b'{"values":{"STUDENT":"five","answer_10":{"results":5}}}')),
        "huge": notebook(
            "huge",
            FORGED.format(
                text=json.dumps({"values": {"STUDENT": "huge", "answer_10": {"results": [10**400] * 15}}}).encode()
            ),
        ),
        "doejane_123_456_student": notebook("\ud800b", "answer_1 = 1"),
        "good": notebook("good", "answer_1 = 1"),
    }
    for name, text in made.items():
        (folder / f"{name}.ipynb").write_text(text, encoding="utf-8")
    with open(os.fsencode(folder) + b"/a\xff.ipynb", "w", encoding="utf-8") as file:
        file.write(notebook("x", "answer_1 = 1"))
    rows, alike = grade(
        "02-counting", folder, tmp_path / "g.csv", timeout=300, insecure=True, feedback=tmp_path / "pages"
    )
    assert {r.student: r.status for r in rows} == {
        "newlines": "ok", "alike1": "ok", "alike2": "ok", "good": "ok", "\\ud800b": "ok", "a\\udcff": "seed-mismatch",
        "null": "not-compared", "five": "not-compared", "huge": "not-compared",
    }  # fmt: skip
    assert all("02.10 could not be compared" in r.message for r in rows if r.status == "not-compared")
    assert [(a.first, a.second) for a in alike if a.why == "the same text in the answers"] == [("alike1", "alike2")]
    assert len(list((tmp_path / "pages").iterdir())) == len(rows)
    assert read_rows(tmp_path / "g.json")
    again = grade("02-counting", folder, tmp_path / "h.csv", timeout=300, insecure=True, before=tmp_path / "g.json")[0]
    assert [(r.student, r.status) for r in again] == [(r.student, r.status) for r in rows]


@pytest.mark.regression
def test_what_takes_too_long_to_compare_is_a_row(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from mlsysim.course.exercises import assignment
    from mlsysim.course.grading import clerk, marks
    from mlsysim.course.grading.submissions import Submission

    (tmp_path / "ada.ipynb").write_text(notebook("ada", "answer_1 = 1"), encoding="utf-8")
    monkeypatch.setattr(clerk, "LEAST_SECONDS", 0.01)
    monkeypatch.setattr(marks, "execute", lambda *given: {"values": {"STUDENT": "ada"}})
    found = marks.grade_one(Submission(tmp_path / "ada.ipynb", "ada"), assignment(SLUG), timeout=0.01)
    assert (found.status, found.score) == ("not-compared", 0.0)
    assert "within 0.01 s" in found.message
    monkeypatch.setattr(marks, "execute", lambda *given: {"nothing": 1})
    found = marks.grade_one(Submission(tmp_path / "ada.ipynb", "ada"), assignment(SLUG), timeout=0.01)
    assert (found.status, found.student) == ("not-compared", "ada")
    assert "KeyError" in found.message


@pytest.mark.regression
@pytest.mark.parametrize("code", ["\n" * 400_000, " " * 400_000, "x=1;" * 100_000, "answer_1" * 50_000])
def test_texts_are_read_in_linear_time(code: str) -> None:
    import time

    from mlsysim.course.exercises import assignment
    from mlsysim.course.grading import clerk, reasons

    start = time.process_time()
    clerk.own_texts([code, "answer_1 = 2"], assignment(DESIGN))
    reasons.written([f"{code}\nreason_12 = 'x' )"], assignment(DESIGN))
    assert time.process_time() - start < 10  # the square of its length took an hour


@pytest.mark.regression
def test_likeness_takes_no_longer_for_texts_that_repeat() -> None:
    import time

    rows = [row(f"s{i}", 1, texts={"01.1": "a" * 20_000 + "b" * i}) for i in range(12)]
    start = time.process_time()
    copies(rows)
    assert time.process_time() - start < 5


@pytest.mark.regression
def test_what_stood_in_the_notebook_before_is_nobody_s_text() -> None:
    from mlsysim.course.exercises import assignment
    from mlsysim.course.grading import clerk

    for slug in ("02-counting", "11-reliability", DESIGN):
        document = json.loads((ROOT / "exercises" / slug / "student.ipynb").read_text(encoding="utf-8"))
        code = ["".join(c["source"]) for c in document["cells"] if c["cell_type"] == "code"]
        found = clerk.own_texts(code, assignment(slug))
        assert {t for t in found.values() if not t.startswith("answer_")} <= {""}, slug
        assert copies([row(n, 0, texts=found) for n in ("ada", "bob")]) == []


# A second file


@pytest.mark.regression
@pytest.mark.parametrize(
    "names",
    [
        ("Jane Doe_1_assignsubmission_file_/02 (final).ipynb", "Jane Doe_1_assignsubmission_file_/notes.pdf"),
        ("submission_123/hw.ipynb", "submission_123/notes.pdf"),
        ("doejane_123_3003_student.ipynb", "doejane_123_3004_reasons.pdf"),
        ("doejane_123_3004_student.ipynb", "doejane_123_3003_reasons.pdf"),
        ("jdoe.ipynb", "jdoe.pdf"),
        ("Jane Doe/hw.ipynb", "Jane Doe/notes.pdf"),
        ("doejane_123_3003_student-1.ipynb", "doejane_123_3004_reasons-2.pdf"),
    ],
)
def test_a_second_file_is_not_the_grade(
    names: tuple[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from mlsysim.course.exercises import assignment
    from mlsysim.course.grading import clerk, grade, marks

    right = {id: [2.0, True, "", "Correct.", ""] for id in (e.id for e in assignment(SLUG))}
    monkeypatch.setattr(marks, "check_sandbox", lambda insecure: None)
    monkeypatch.setattr(marks, "execute", lambda *given: {"values": {"STUDENT": "jdoe"}})
    monkeypatch.setattr(clerk, "look", lambda *given: {"marks": right, "texts": {}, "reasons": {}})
    (tmp_path / "r.csv").write_text(ROSTERS["canvas"], encoding="utf-8")
    put(tmp_path / "in", *names)
    full = 2.0 * len(right)
    for system in ("canvas", "moodle", "gradescope"):
        rows, _ = grade(
            SLUG, tmp_path / "in", tmp_path / "g.csv", roster=tmp_path / "r.csv", import_to=system, before=None
        )
        assert {(r.file, r.score, r.status) for r in rows if r.student == "jdoe" and r.file.endswith("ipynb")} == {
            (Path(names[0]).name, full, "ok")
        }
        imported = list(csv.reader((tmp_path / f"g.{system}.csv").open(encoding="utf-8")))
        assert [f"{full:g}" in line for line in imported if any("jdoe" in c or "Jane" in c for c in line)] == [True]
    (tmp_path / "in" / names[0]).unlink()  # what was handed in is gone: a file beside it is all there is
    again, _ = grade(
        SLUG,
        tmp_path / "in",
        tmp_path / "h.csv",
        roster=tmp_path / "r.csv",
        import_to="moodle",
        before=tmp_path / "g.json",
    )
    assert [(r.score, r.status) for r in again if r.student == "jdoe" and r.status != "replaced"] == [(full, "ok")]
    assert f",{full:g}," in (tmp_path / "h.moodle.csv").read_text(encoding="utf-8")


@pytest.mark.regression
def test_grading_again_loses_no_points() -> None:
    failed = {"status": "not-a-notebook"}
    before = [row("ada", 2, 2), row("ada", 0, 0, **failed), row("bob", 0, 0, status="crashed"), row("bob", 1, 1)]
    for again in ([row("ada", 0, 0, **failed)], [row("ada", 0, 0, status="missing")], []):
        assert {r.student: (r.score, r.status) for r in merged(before, again)} == {"ada": (4, "ok"), "bob": (2, "ok")}
    stranger = merged(before, [row("ada", 1, 0, status="unknown-student")])
    assert {(r.student, r.score, r.status) for r in stranger} >= {("ada", 4, "ok"), ("ada", 1, "unknown-student")}
    decided = merged(before, [row("ada", 0, 3, status="seed-mismatch")])
    assert (decided[0].score, decided[0].status) == (5, "seed-mismatch")


# What comes out


@pytest.mark.parametrize(
    ("system", "head", "first"),
    [
        ("canvas", "Student,ID,SIS User ID,SIS Login ID,Section,Chapter 1", "    Points Possible,,,,,10"),
        ("moodle", "ID number,Email address,Chapter 1,Feedback comments", "jdoe,,3,"),
        ("gradescope", "SID,Name,Total Score,Max Points", 'jdoe,"Doe, Jane",3,10'),
    ],
)
def test_scores_in_each_system_s_own_format(system: str, head: str, first: str, tmp_path: Path) -> None:
    path = tmp_path / "roster.csv"
    path.write_text(ROSTERS["canvas"], encoding="utf-8")
    roster = read_roster(path)
    write_import(
        [row("jdoe", 2, 1), row("eroe", 0, 0, status="missing")], roster, tmp_path / "out.csv", system, "Chapter 1"
    )
    lines = (tmp_path / "out.csv").read_text(encoding="utf-8").splitlines()
    assert (lines[0], lines[1]) == (head, first)
    assert len(lines) == 3 + (system == "canvas")


def test_an_import_of_strangers_is_refused(tmp_path: Path) -> None:
    (tmp_path / "r.csv").write_text(ROSTERS["own"], encoding="utf-8")
    with pytest.raises(InputError, match="no row is a student"):
        write_import([row("zoe", 1)], read_roster(tmp_path / "r.csv"), tmp_path / "o.csv", "canvas", "x")
    with pytest.raises(InputError, match="unknown; use one of canvas"):
        write_import([row("jdoe", 1)], read_roster(tmp_path / "r.csv"), tmp_path / "o.csv", "blackboard", "x")


def test_a_page_for_each_student_and_nothing_in_it_runs(tmp_path: Path) -> None:
    evil = row(
        "<script>x</script>", 0, remarks={"01.1": Remark(False, "half", "<img src=x onerror=alert(1)>")}, message="<b>"
    )
    page = feedback_page(evil, SLUG)
    assert "<script" not in page
    assert "<img" not in page
    assert "&lt;img" in page
    paths = write_feedback(
        [evil, row("../../up", 1), row("ada", 2), row("ada", 1), row("gone", 0, status="missing")],
        tmp_path / "out",
        SLUG,
    )
    assert [p.name for p in paths] == ["_script_x__script_.html", "______up.html", "ada.html", "ada-2.html"]
    assert {p.parent for p in paths} == {tmp_path / "out"}


def test_which_mistakes_were_made_how_often() -> None:
    slips = {"a": ("half", False), "b": ("half", False), "c": ("", True), "d": ("bits", False)}
    rows = [row(n, 1.0, remarks={"01.1": Remark(ok, slip, "")}) for n, (slip, ok) in slips.items()]
    (found,) = statistics([*rows, replace(rows[0], status="replaced")])  # a student counts once
    assert found == {
        "question": "01.1", "answers": 4, "right": 0.25, "discrimination": None, "mistakes": {"half": 2, "bits": 1}
    }  # fmt: skip


@pytest.mark.independent
def test_a_question_is_compared_with_the_others_alone(tmp_path: Path) -> None:
    right = {"ada-l": (1, 1, 1), "bob-m": (1, 1, 0), "cy-n": (1, 0, 0), "dee-o": (0, 0, 1)}
    rows = [
        row(
            n,
            *map(float, said),
            remarks={f"01.{i + 1}": Remark(bool(x), "" if x else "half", "") for i, x in enumerate(said)},
        )
        for n, said in right.items()
    ]
    # by hand: 01.1 is 1 1 1 0 and the others together 2 1 0 1: means 3/4 and 1, covariance 0, so it tells nothing;
    # 01.2 is 1 1 0 0 beside 2 1 1 1: covariance 1/8 over 1/2 and sqrt(3)/4; 01.3 is 1 0 0 1 beside
    # 2 2 1 0: covariance -1/8 over 1/2 and sqrt(11)/4
    told = [s["discrimination"] for s in statistics(rows)]
    assert told == pytest.approx([0.0, 1 / 3**0.5, -0.25 / 0.6875**0.5], abs=1e-12)
    write_statistics(rows, [], tmp_path / "m.csv")
    table = list(csv.DictReader((tmp_path / "m.csv").open(encoding="utf-8")))
    assert [r["discrimination"] for r in table][:2] == ["0.00", "0.58"]
    page = class_page([*rows, row("eve-p <b>", 0.0, status="crashed", message="eve-p left")], SLUG)
    assert page.index("01.3 ") < page.index("01.1 ") < page.index("01.2 ")  # the one that misleads comes first
    assert page.count("<svg") == 2
    assert "50% of 4 right, discrimination 0.58" in page
    assert "1 crashed, 4 ok" in page
    assert not any(name in page for name in (*right, "eve-p", "<b>"))
    assert "0 students" in class_page([], SLUG)


@pytest.mark.independent
@pytest.mark.parametrize("least", [0.5, 0.9])
def test_no_pair_that_is_alike_is_passed_over(least: float) -> None:
    drawn, texts = random.Random(5), []
    for i in range(60):
        text = list(texts[drawn.randrange(i)]) if i > 5 else drawn.choices("abcdef", k=400)
        for _ in range(drawn.randrange(12)):
            text[drawn.randrange(len(text))] = drawn.choice("uvwxyz")
        texts.append("".join(text)[: 400 - drawn.randrange(60)])
        texts[-1] = texts[-1].ljust(400, drawn.choice("ABC"))
    rows = [row(f"s{i}", 1.0, texts={"01.1": text}) for i, text in enumerate(texts)]
    runs = [{text[k : k + 6] for k in range(len(text) - 5)} for text in texts]
    brute = {
        (f"s{j}", f"s{i}")
        for i in range(60)
        for j in range(i)
        if 2 * len(runs[i] & runs[j]) >= least * (len(runs[i]) + len(runs[j]))
    }
    assert {(c.first, c.second) for c in copies(rows, least)} == brute
    assert 20 < len(brute) < 1770


def class_of(folder: Path, n: int) -> Path:
    folder.mkdir()
    for i in range(n):
        (folder / f"s{i}.ipynb").write_text(notebook(f"s{i}", f"answer_1 = {i}"), encoding="utf-8")
    return folder


@pytest.mark.regression
def test_a_run_that_was_stopped_goes_on_and_one_broken_submission_is_a_row(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from mlsysim.course import grading
    from mlsysim.course.grading import marks

    folder, out = class_of(tmp_path / "in", 4), tmp_path / "g.csv"
    asked: list[tuple[str, str]] = []

    def execute(code: list[str], *how: Any) -> dict[str, Any]:
        student = code[0].partition("'")[2].partition("'")[0]
        asked.append((student, how[-1].get("answer_12") and str(how[-1]["answer_12"])))
        if len(asked) == 3 and student == "s2":
            raise KeyboardInterrupt
        if student == "s1":
            raise box.Failure("crashed", "it ended")
        return {"values": {"STUDENT": student, "answer_1": 1.0}}

    monkeypatch.setattr(marks, "execute", execute)
    with pytest.raises(KeyboardInterrupt):
        grading.grade(SLUG, folder, out, insecure=True)
    journal = tmp_path / "g.partial.jsonl"
    assert journal.is_file() and not out.exists()
    journal.write_text(journal.read_text() + '{"key": "cut', encoding="utf-8")  # the machine went down in a line
    (folder / "s3.ipynb").write_text(notebook("s3", "answer_1 = 33"), encoding="utf-8")
    rows, _ = grading.grade(SLUG, folder, out, insecure=True)
    assert {r.student: r.status for r in rows} == {"s0": "ok", "s1": "crashed", "s2": "ok", "s3": "ok"}
    done = [student for student, _ in asked]
    assert done.count("s0") == 1 and done.count("s2") == 2  # what ran is not run again, what failed is
    assert len({cases for _, cases in asked}) == 1  # and all are tried on the same cases
    assert not journal.exists() and out.with_suffix(".html").is_file()
    grading.grade(SLUG, folder, out, insecure=True)
    assert [student for student, _ in asked].count("s0") == 2  # a finished run leaves nothing to go on from


@pytest.mark.slow
def test_a_cluster_gives_the_same_grades(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("dask.distributed")
    from mlsysim.cli import main

    folder = class_of(tmp_path / "in", 3)
    (folder / "broken.ipynb").write_text("{", encoding="utf-8")
    found = []
    for more in ([], ["--cluster", "local:2", "--progress"]):
        out = tmp_path / f"g{len(more)}.csv"
        assert main(["grade", SLUG, str(folder), "-o", str(out), "--insecure", "--timeout", "300 s", *more]) == 0
        found.append(out.read_text(encoding="utf-8"))
    assert found[0] == found[1]
    assert "not-a-notebook" in found[0]
    assert "4/4" in capsys.readouterr().err.replace("4.00/4.00", "4/4")
    assert main(["grade", SLUG, str(folder), "-o", str(out), "--cluster", "local:2", "--jobs", "2"]) == 2
    assert "jobs" in capsys.readouterr().err


@pytest.mark.slow
def test_a_moodle_folder_through_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from mlsysim.cli import main

    def notebook(student: str, answer: str = "...") -> str:
        cells = [f"STUDENT = {student!r}", f"answer_1 = {answer}"]
        return json.dumps({"cells": [{"cell_type": "code", "source": c} for c in cells]})

    (tmp_path / "roster.csv").write_text(ROSTERS["moodle"], encoding="utf-8")
    folder = tmp_path / "in"
    for name, text in {
        "Jane Doe_1_assignsubmission_file_": notebook("jdoe", "1.0"),
        "Nobody Known_2_assignsubmission_file_": notebook("nk"),
    }.items():
        (folder / name).mkdir(parents=True)
        (folder / name / "student.ipynb").write_text(text, encoding="utf-8")
    out = tmp_path / "grades.csv"
    options = [
        "--roster",
        str(tmp_path / "roster.csv"),
        "--import-to",
        "moodle",
        "--feedback",
        str(tmp_path / "pages"),
        "--insecure",
        "--timeout",
        "300 s",
    ]
    assert main(["grade", SLUG, str(folder), "-o", str(out), *options]) == 0
    said = capsys.readouterr().out
    with out.open(newline="", encoding="utf-8") as file:
        status = {r["student"]: r["status"] for r in csv.DictReader(file)}
    assert status == {"jdoe": "ok", "2": "unknown-student", "eroe": "missing"}
    assert "1 missing, 1 ok, 1 unknown-student" in said
    assert (tmp_path / "grades.moodle.csv").read_text(encoding="utf-8").startswith("ID number,")
    assert (tmp_path / "grades.json").is_file()
    assert "01.1" in (tmp_path / "grades.mistakes.csv").read_text(encoding="utf-8")
    assert "01.1" in (tmp_path / "pages" / "jdoe.html").read_text(encoding="utf-8")
    again = ["--before", str(tmp_path / "grades.json")]
    assert main(["grade", SLUG, str(folder), "-o", str(tmp_path / "again.csv"), *options, *again]) == 0


# Reasons

DESIGN = "03-memory"


def reasoned(student: str, *cells: str) -> str:
    code = [f'STUDENT = "{student}"', *cells]
    return json.dumps(
        {"nbformat": 4, "cells": [{"cell_type": "code", "metadata": {}, "outputs": [], "source": c} for c in code]}
    )


def test_a_reason_is_read_from_the_text_and_never_lost() -> None:
    from mlsysim.course.exercises import assignment
    from mlsysim.course.grading import reasons

    exercises = assignment(DESIGN)
    assert reasons.asked(exercises) == {"03.12": "reason_12"}

    def read(*cells: str) -> str:
        return reasons.written(cells, exercises)["03.12"]

    assert read('reason_12 = """Why? A few sentences, with numbers."""') == ""
    assert read('%matplotlib inline\nreason_12 = """The memory binds:\n80 GB."""') == "The memory binds:\n80 GB."
    assert read("reason_12 = 'first'", "reason_12 = 'second'") == "second"
    assert read('reason_12 = f"it is {x} GB"') == "f'it is {x} GB'"  # put together: the code is shown
    assert read('answer_12 = (\nreason_12 = "a broken cell, kept"') == "a broken cell, kept"
    assert read("reason_12 = ...", "reason_12 = None", "raise SystemExit") == ""
    assert len(read(f"reason_12 = {'x' * 9000!r}")) == reasons.MOST_LETTERS


def test_reasons_stand_on_a_sheet_with_their_rubric_and_on_the_page(tmp_path: Path) -> None:
    from mlsysim.course.exercises import assignment
    from mlsysim.course.grading import read_marks, write_reasons

    rubric = next(e for e in assignment(DESIGN) if e.id == "03.12").rubric
    points = {"03.12": 4.0}

    def row(student: str, why: str, status: str = "ok") -> Graded:
        return Graded(student, 4.0, 28, points, status, "", reasons={"03.12": why})

    sheet = tmp_path / "g.reasons.csv"
    first = [row("ada", "Memory <binds>."), row("bob", "", "crashed"), row("cy", "=1+1"), row("dee", "", "missing")]
    assert write_reasons(first, sheet) == {}
    table = list(csv.reader(sheet.open(encoding="utf-8")))
    assert table[1][:2] == ["(rubric)", "03.12"]
    assert tuple(table[1][5:]) == rubric
    assert [(r[0], r[3], r[4]) for r in table[2:]] == [
        ("ada", "Memory <binds>.", ""),
        ("bob", "", "crashed; no reason"),
        ("cy", "'=1+1", ""),
    ]
    table[2] += ["1", "0.5"]  # a person has read ada's, and cy's
    table[4] += ["0"]
    with sheet.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows(table)
    given = write_reasons([row("ada", "Messages bind."), row("bob", "Now it runs.")], sheet)
    assert given["ada", "03.12"] == ["1", "0.5"]
    again = {r[0]: r for r in csv.reader(sheet.open(encoding="utf-8"))}
    assert again["ada"][3:] == ["Messages bind.", "written anew since it was marked", "1", "0.5"]
    assert again["cy"][4:] == ["not in this download", "0"]  # a mark is not thrown away with its row
    assert read_marks(sheet)[0]["cy", "03.12"] == ["0"]
    page = feedback_page(row("ada", "Memory <binds>."), DESIGN, given)
    assert "Memory &lt;binds&gt;." in page
    assert "<b>(0.5)</b>" in page
    assert "A person reads it." in feedback_page(row("bob", ""), DESIGN)
    sheet.write_text("other,file\n", encoding="utf-8")
    with pytest.raises(InputError, match="no sheet of reasons"):
        write_reasons(first, sheet)
    write_json(first, tmp_path / "g.json")
    kept = merged(read_rows(tmp_path / "g.json"), [row("ada", ""), row("bob", "Late, but here.")])
    assert {r.student: r.reasons["03.12"] for r in kept if r.student in ("ada", "bob")} == {
        "ada": "Memory <binds>.",
        "bob": "Late, but here.",
    }


@pytest.mark.slow
def test_a_notebook_that_crashes_keeps_its_reason(tmp_path: Path) -> None:
    from mlsysim.cli import main

    folder = tmp_path / "in"
    folder.mkdir()
    text = reasoned("ada", 'reason_12 = "The memory binds."', "import os; os._exit(1)")
    (folder / "ada.ipynb").write_text(text, encoding="utf-8")
    out = tmp_path / "grades.csv"
    options = ["--insecure", "--timeout", "300 s", "--feedback", str(tmp_path / "pages")]
    assert main(["grade", DESIGN, str(folder), "-o", str(out), *options]) == 0
    sheet = (tmp_path / "grades.reasons.csv").read_text(encoding="utf-8")
    assert "ada,03.12,0,The memory binds.,crashed" in sheet
    assert "The memory binds." in (tmp_path / "pages" / "ada.html").read_text(encoding="utf-8")


def test_what_canvas_names_is_a_student_s_file_whatever_its_ending(tmp_path: Path) -> None:
    (tmp_path / "doejane_123_456_answers.txt").write_text("I could not open it", encoding="utf-8")
    (found,) = collect(tmp_path)
    assert (found.system, found.student, found.name) == ("canvas", "123", "doejane")


def test_graded_again_keeps_what_was_said(tmp_path: Path) -> None:
    said = {"01.1": Remark(False, "half", "You have half of it."), "01.2": Remark(True, "", "Correct.")}
    before = [Graded("ada", 2.0, 4, {"01.1": 0.0, "01.2": 2.0}, "ok", "", remarks=said)]
    write_json(before, tmp_path / "g.json")
    nothing = Graded("ada", 0.0, 4, {"01.1": 0.0, "01.2": 0.0}, "missing", "handed nothing in")
    (kept,) = merged(read_rows(tmp_path / "g.json"), [nothing])
    assert kept.remarks == said
    better = Graded(
        "ada", 2.0, 4, {"01.1": 2.0, "01.2": 0.0}, "ok", "", remarks={"01.1": said["01.2"], "01.2": said["01.1"]}
    )
    (kept,) = merged(read_rows(tmp_path / "g.json"), [better])
    assert {id: m.correct for id, m in kept.remarks.items()} == {"01.1": True, "01.2": True}
