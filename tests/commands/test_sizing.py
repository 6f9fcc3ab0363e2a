"""The page that sizes a job: fields, command lines, answers equal to those of mlsysim.api, what is exported, and what is refused."""

import csv
import io
import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import mlsysim
from mlsysim import catalog, energy, memory
from mlsysim.course import live, sizing
from mlsysim.course.sizing import answers, commands, exports, fields, plans, showing
from mlsysim.errors import InputError
from mlsysim.parallelism import Plan

ROOT = Path(__file__).parents[2]
HOUR = 3600.0


def serve(form: dict[str, str], **given: Any) -> dict[str, Any]:
    """What serve() says, by the names of the page."""
    place = f"{form['count']} x {form['device']}" if "count" in form else form["device"]
    s = mlsysim.serve(form["model"], place, **given)
    if not s.answered:
        return {"fits": s.fits, "speed": None, "cost": None}
    found = {"fits": True, "devices": s.devices, "tokens_rate": s.tokens_per_s}
    found["cost"] = s.bill.to_dict()["cost_usd_per_token"] * 1e6
    if s.load is None:
        return found | {"speed": s.generation.itl, "ttft": s.generation.ttft}
    found |= {"speed": s.load.itl, "ttft": s.load.ttft_quantile, "utilisation": s.load.utilisation}
    if s.devices_range:
        found |= {"devices_low": s.devices_range[0], "devices_high": s.devices_range[1]}
    return found


def fits(form: dict[str, str], devices: int, **given: Any) -> dict[str, Any]:
    r = memory.server_memory(form["model"], form["device"], **given)
    return {"fits": r.fits, "speed": r.kv_tokens, "devices": devices, "weights": r.weight_memory, "graphs": r.graphs}


def train(form: dict[str, str], plan: Plan, **given: Any) -> dict[str, Any]:
    t = mlsysim.train(form["model"], f"{form['count']} x {form['device']}", plan=plan, **given)
    found = {"fits": t.fits, "step": t.step.time, "mfu": t.step.mfu, "step_low": t.range[0], "step_high": t.range[1]}
    run = t.time_to_train
    cost = t.bill.cost_per_token * 1e6 if run is None else run * t.bill.cost_rate
    return found | {"speed": t.step.time if run is None else run, "cost": cost}


L8, L70 = "Llama-3.1-8B", "Llama-3.1-70B"
SLO = mlsysim.SLO
# Forms, and the function's own call with what the form means, written by hand.
CASES: dict[str, tuple[dict[str, str], Any]] = {
    "a rate": ({"model": L8, "device": "H100", "rate": "20"}, lambda f: serve(f, rate=20)),
    "targets and a price": (
        {
            "model": L70,
            "device": "H100",
            "rate": "10",
            "ttft": "1 s",
            "itl": "50 ms",
            "quantile": "95 %",
            "price": "2.5",
        },
        lambda f: serve(f, rate=10, slo=SLO(ttft=1, itl=0.05, quantile=0.95), price="2.5 USD/h"),
    ),
    "so many devices": (
        {"model": L70, "device": "H200", "count": "8", "itl": "40 ms", "input_len": "2,048", "output_len": "512"},
        lambda f: serve(f, slo=SLO(itl=0.04), input_len=2048, output_len=512),
    ),
    "one batch": (
        {"model": "Qwen3-32B", "device": "H100", "tp": "4", "precision": "fp8"},
        lambda f: serve(f, tp=4, precision="fp8"),
    ),
    "too large to serve": ({"model": "Llama-3.1-405B", "device": "L4", "rate": "1"}, lambda f: serve(f, rate=1)),
    "memory on four": (
        {"task": "fits", "model": L70, "device": "H100", "count": "4", "max_model_len": "8192"},
        lambda f: fits(f, 4, tp=4, max_model_len=8192),
    ),
    "memory of a mixture as published": (
        {
            "task": "fits",
            "model": "DeepSeek-V3",
            "device": "H200",
            "tp": "8",
            "kv": "fp8",
            "gpu_memory_utilization": "0.95",
        },
        lambda f: fits(f, 8, tp=8, kv="fp8", gpu_memory_utilization=0.95),
    ),
    "memory that is not there": (
        {"task": "fits", "model": L70, "device": "L4", "tp": "2", "max_num_seqs": "64"},
        lambda f: fits(f, 2, tp=2, max_num_seqs=64),
    ),
    "a plan of our own, a whole run": (
        {
            "task": "train",
            "model": L8,
            "device": "H100",
            "count": "64",
            "tp": "2",
            "pp": "1",
            "micro_batch": "2",
            "sharding": "fsdp",
            "recompute": "full",
            "tokens": "300B",
            "global_batch": "512",
            "seq": "8192",
        },
        lambda f: train(
            f,
            Plan(tp=2, dp=32, micro_batch=2, sharding="fsdp", recompute="full"),
            tokens=300e9,
            global_batch=512,
            seq=8192,
        ),
    ),
    "experts in training": (
        {
            "task": "train",
            "model": "Mixtral-8x7B",
            "device": "H100",
            "count": "32",
            "tp": "4",
            "pp": "1",
            "ep": "8",
            "micro_batch": "1",
            "sharding": "zero1",
            "recompute": "selective",
            "precision": "fp8",
        },
        lambda f: train(f, Plan(tp=4, dp=8, ep=8, recompute="selective"), precision="fp8"),
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_a_form_gives_the_numbers_of_the_door(name: str) -> None:
    form, door = CASES[name]
    found = sizing.size(form)
    assert "error" not in found, found
    expected = door(form)
    seen = {row["name"]: row["value"] for row in [*found["rows"], *found["first"]]}
    for key, value in expected.items():
        assert seen[key] == (None if value is None else pytest.approx(float(value), rel=1e-12)), key
    assert [row["name"] for row in found["first"]] == ["fits", "speed", "cost"]
    assert found["first"][0]["text"].startswith("Yes" if expected["fits"] else "No")
    json.dumps(found, allow_nan=False)


@pytest.mark.parametrize("name", [n for n, (f, _) in CASES.items() if n != "too large to serve"])
def test_the_code_and_the_exports_repeat_the_answer(name: str) -> None:
    form, _ = CASES[name]
    found = sizing.size(form)
    space: dict[str, Any] = {"print": lambda *_: None}
    exec(found["code"], space)
    assert bool(space["answer"].fits) == found["answer"]["fits"]
    document = json.loads(sizing.export(form, "json")["text"])
    assert document["python"] == found["code"]
    assert document["first"]["speed"]["value"] == found["answer"]["speed"]
    assert document["result"]
    rows = {row["name"]: row for row in csv.DictReader(io.StringIO(sizing.export(form, "csv")["text"]))}
    assert rows["asked.model"]["value"] == form["model"]
    if found["answer"]["speed"] is not None:
        assert float(rows["speed"]["value"]) == found["answer"]["speed"]
    notebook = json.loads(sizing.export(form, "ipynb")["text"])
    assert [c["cell_type"] for c in notebook["cells"]] == ["markdown", "code", "code", "code", "code"]
    assert "".join(notebook["cells"][3]["source"]) == found["code"]
    assert len({c["id"] for c in notebook["cells"]}) == 5


def test_a_notebook_runs_as_it_is_made(tmp_path: Path) -> None:
    nbformat = pytest.importorskip("nbformat")
    made = sizing.export({"model": L8, "device": "H100", "rate": "20"}, "ipynb")
    nbformat.validate(nbformat.reads(made["text"], 4))
    cells = [c for c in json.loads(made["text"])["cells"] if c["cell_type"] == "code"]
    program = "\n".join("".join(c["source"]) for c in cells if "%pip" not in "".join(c["source"]))
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, cwd=tmp_path, env=None)
    assert done.returncode == 0, done.stderr
    assert "80% range of past errors" in done.stdout
    assert "eq-utilisation" in done.stdout


def test_the_plan_of_a_page_is_the_one_that_the_search_of_all_recommends() -> None:
    """It took the fastest, however many ways that split the model, where the error cannot tell it from simpler ones."""
    for model, where in ((L70, "64 H100"), ("Mixtral-8x7B", "64 H100"), ("Llama-3.1-405B", "4096 H100")):
        machines = mlsysim.api.training.networked(catalog.where(where), mlsysim.api.arguments.Defaults())
        found = plans.best(catalog.model(model), machines, global_batch=1024, seq=4096, precision="bf16", given={})
        every = mlsysim.plan(model, where, global_batch=1024, seq=4096)
        row, degrees = every.simplest(), ("tp", "pp", "cp", "ep")
        # it tries fewer, so that what it takes is never cut in more ways
        assert sum(getattr(found.plan, n) > 1 for n in degrees) <= sum(row[n] > 1 for n in degrees), model
        assert 0.99 <= float(found.step.time) / every.fastest <= 1.01 * every.clear, (
            model
        )  # its own fastest is within 1 % of theirs
        assert 0 < found.fitting <= found.tried < len(every.rows)


RUN = json.dumps(
    {
        "model_id": "meta-llama/Llama-3.1-8B-Instruct", "max_concurrency": 16, "completed": 200, "total_input_tokens": 200_000,
        "total_output_tokens": 40_000, "mean_ttft_ms": 60.0, "mean_tpot_ms": 9.0, "output_throughput": 1700.0, "request_throughput": 8.5,
    }
)  # fmt: skip


def test_a_run_of_one_s_own_moves_the_answer_of_the_page_as_it_does_the_command_s(tmp_path: Path) -> None:
    file = tmp_path / "RUN"
    file.write_text(RUN)
    form = {"model": L8, "device": "H100", "rate": "20", "itl": "20 ms"}
    plain, found = sizing.size(form), sizing.size({**form, "measured": RUN})
    here = mlsysim.serve(L8, "H100", rate=20, slo=mlsysim.SLO(itl=0.02), measured=file)
    assert found["answer"]["speed"] == pytest.approx(float(here.load.itl)) != pytest.approx(plain["answer"]["speed"])  # type: ignore[union-attr]
    assert any(line.startswith("yours: RUN, ") for line in found["lines"])
    assert any(line.startswith("Without it: ") for line in found["lines"])
    assert "measured='RUN'" in found["code"]
    assert not any(
        "total_output_tokens" in sizing.export({**form, "measured": RUN}, kind)["text"]
        for kind in ("json", "csv", "ipynb")
    )
    wrong = sizing.size({**form, "measured": "what is this"})
    assert wrong["field"] == "measured" and "of no format that we read" in wrong["error"]
    assert sizing.size({"task": "fits", "model": L8, "device": "H100", "measured": "x"})["field"] == "measured"


def test_what_does_not_train_says_what_would_without_numpy() -> None:
    code = (
        "import sys; sys.modules['numpy'] = None\nfrom mlsysim.course import sizing\n"
        "f = sizing.size({'task': 'train', 'model': 'Llama-3.1-70B', 'device': 'H100', 'count': '8'})\n"
        "assert f['answer'] == {'fits': False, 'speed': None, 'cost': None}, f\n"
        "print([x['html'] for x in f['folds'] if x['title'] == 'What would fit'])\n"
        "sizing.export({'task': 'train', 'model': 'Llama-3.1-70B', 'device': 'H100', 'count': '8'}, 'json')\n"
        "g = sizing.size({'task': 'serve', 'model': 'Llama-3.1-405B', 'device': 'L4'})\nassert not g['answer']['fits'], g\n"
        "from mlsysim.course.sizing import answers\nassert answers.changes({'model': 'Llama-3.1-8B', 'device': 'H100', 'rate': '5'})\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "DGX-H100" in done.stdout


def test_carbon_is_energy_times_the_grid() -> None:
    form = {"model": L8, "device": "H100", "rate": "20", "grid": "France", "pue": "1.2"}
    rows = {row["name"]: row["value"] for row in sizing.size(form)["rows"]}
    assert rows["carbon"] == pytest.approx(rows["energy"] * 3.6e6 * catalog.grid("France").carbon_intensity)
    assert rows["power"] == pytest.approx(1.2 * float(energy.it_power(1, catalog.device("H100").tdp)))


def test_a_config_stands_in_for_a_name() -> None:
    config = {
        "model_type": "llama",
        "hidden_size": 4096,
        "num_hidden_layers": 32,
        "num_attention_heads": 32,
        "num_key_value_heads": 8,
        "intermediate_size": 14336,
        "vocab_size": 128256,
        "_name_or_path": "me/<b>mine",
    }
    form = {"config": json.dumps(config), "device": "H100", "rate": "20"}
    found, named = sizing.size(form), sizing.size({"model": L8, "device": "H100", "rate": "20"})
    assert found["answer"] == named["answer"]
    assert "<b>" not in showing.answer(found)
    space: dict[str, Any] = {"print": lambda *_: None}
    exec(found["code"], space)
    assert space["answer"].devices == 1
    assert "hidden_size" in sizing.export(form, "ipynb")["text"]


@pytest.mark.parametrize(
    ("form", "field", "said"),
    [
        ({}, "model", "is empty"),
        ({"model": L8}, "device", "is empty"),
        ({"model": "Lama-3.1-8B", "device": "H100"}, "model", "did you mean 'Llama-3.1-8B'"),
        ({"model": L8, "device": "H10"}, "device", "H100"),
        ({"model": L8, "device": "H100", "count": "7.5"}, "count", "whole number"),
        ({"model": L8, "device": "H100", "count": "1" * 9}, "count", "at most"),
        ({"model": L8, "device": "H100", "rate": "-1"}, "rate", "above zero"),
        ({"model": L8, "device": "H100", "rate": "nan"}, "rate", "above zero"),
        ({"model": L8, "device": "H100", "rate": "inf"}, "rate", "above zero"),
        ({"model": L8, "device": "H100", "ttft": "3"}, "ttft", "500 ms"),
        ({"model": L8, "device": "H100", "ttft": "3 GB"}, "ttft", "500 ms"),
        ({"model": L8, "device": "H100", "quantile": "95 %"}, "quantile", "needs a target"),
        ({"model": L8, "device": "H100", "precision": "fp7"}, "precision", "is not one of"),
        ({"model": L8, "device": "H100", "grid": "Atlantis"}, "grid", "unknown"),
        ({"model": L8, "device": "H100", "task": "<b>"}, "task", "is not one of"),
        ({"model": L8, "device": "H100", "colour": "red"}, "task", "is no field"),
        ({"model": "x" * 300, "device": "H100"}, "model", "at most 200"),
        ({"model": L8, "device": "H100", "rate": 5}, "rate", "must be a text"),
        ({"config": "{", "device": "H100"}, "config", "not valid JSON"),
        ({"config": "[" * 100_000, "device": "H100"}, "config", "nested too deeply"),
        ({"config": " " * 1_000_001, "device": "H100"}, "config", "at most 1,000,000"),
        ({"config": '{"model_type": "nope"}', "device": "H100"}, "config", "nope"),
        ({"task": "train", "model": L8, "device": "H100"}, "count", "number of its devices"),
        ({"task": "train", "model": L8, "device": "H100", "count": "8", "tokens": "many"}, "tokens", "1T"),
        ({"task": "train", "model": L8, "device": "H100", "count": "8", "tp": "3"}, "", "no plan with tp = 3"),
        ({"task": "fits", "model": L8, "device": "H100", "count": "2", "tp": "4"}, "count", "is fewer than"),
    ],
)
def test_what_is_wrong_names_its_field_and_the_fix(form: Any, field: str, said: str) -> None:
    found = sizing.size(form)
    assert found.keys() == {"error", "field"}
    assert found["field"] == field
    assert said in found["error"]
    assert len(found["error"]) < 600


def test_a_field_of_another_task_is_refused_as_an_option_of_another_command_is() -> None:
    form = {"task": "serve", "model": L8, "device": "H100", "rate": "20"}
    found = sizing.size(form | {"global_batch": "8"})
    assert found["field"] == "global_batch" and "counts where you choose: Train; leave it out" in found["error"]
    assert sizing.size(form | {"global_batch": " "})["answer"] == sizing.size(form)["answer"]
    for f in sizing.FIELDS.values():
        assert set(f.tasks) <= set(sizing.TASKS)
        assert f.name in fields.FIELDS
    with pytest.raises(InputError, match="not one of json, csv, ipynb"):
        sizing.export(form, "exe")
    assert exports._cell("=1+1") == "'=1+1"
    assert exports._cell(-1.0) == -1.0


@pytest.mark.parametrize(
    ("command", "read", "unread"),
    [
        (
            "vllm serve meta-llama/Llama-3.1-70B-Instruct --tensor-parallel-size 4 \\\n  --max-model-len=8k --kv-cache-dtype fp8_e4m3 --enforce-eager --port 8000",
            {
                "model": "meta-llama/Llama-3.1-70B-Instruct",
                "tp": "4",
                "count": "4",
                "max_model_len": "8000",
                "kv": "fp8",
            },
            ["--enforce-eager", "--port 8000"],
        ),
        (
            "CUDA_VISIBLE_DEVICES=0 python -m vllm.entrypoints.openai.api_server --model Qwen/Qwen3-32B -tp 2 -pp 2 --max-num-seqs 64 -q awq --gpu_memory_utilization 0.95",
            {
                "model": "Qwen/Qwen3-32B",
                "tp": "2",
                "pp": "2",
                "count": "4",
                "max_num_seqs": "64",
                "weights": "int4",
                "gpu_memory_utilization": "0.95",
            },
            [],
        ),
        (
            "vllm serve x --quantization bitsandbytes --kv-cache-dtype auto --max-model-len 32K",
            {"model": "x", "count": "1", "max_model_len": "32768"},
            ["--quantization bitsandbytes"],
        ),
        (
            "torchrun --standalone --nnodes=2:8 --nproc_per_node 8 pretrain_gpt.py --tensor-model-parallel-size 8 --micro-batch-size 1 --global-batch-size 1024 --seq-length 4096 --use-distributed-optimizer --bf16 --num-layers 80 --lr -1e-4 --recompute-granularity full",
            {
                "count": "64",
                "tp": "8",
                "micro_batch": "1",
                "global_batch": "1024",
                "seq": "4096",
                "sharding": "zero1",
                "precision": "bf16",
                "recompute": "full",
            },
            ["--standalone", "--num-layers 80", "--lr -1e-4"],
        ),
        ("torchrun --nproc-per-node gpu train.py", {}, ["--nnodes 1 --nproc-per-node gpu"]),
    ],
)
def test_a_command_line_is_read_and_what_is_not_is_named(command: str, read: dict[str, str], unread: list[str]) -> None:
    found = sizing.read_command(command)
    task = "train" if "torchrun" in command else "fits"
    assert found["fields"] == read | {"task": task}
    assert found["unread"] == unread
    assert len(found["read"]) == len(read)


def test_a_command_line_is_never_more_than_text() -> None:
    for wrong, said in (
        ("rm -rf /", "neither vllm nor torchrun"),
        ("vllm serve 'x", "close its quotes"),
        ("x" * 30_000, "at most"),
    ):
        with pytest.raises(InputError, match=said):
            commands.read_command(wrong)
    found = sizing.read_command("vllm serve $(touch x) `y` --tensor-parallel-size 99999999999")
    assert "count" not in found["fields"]
    assert sizing.size(found["fields"] | {"device": "H100"})["field"] in ("tp", "model")
    many = sizing.read_command("vllm serve m " + " ".join(f"--o{i} 1" for i in range(500)))
    assert len(many["unread"]) == 60


def test_the_page_is_safe_html_and_its_parts_have_labels() -> None:
    html = showing.page()
    ids = re.findall(r' id="([\w-]+)"', html)
    assert len(ids) == len(set(ids))
    for id_ in re.findall(r'<(?:input|select|textarea)[^>]* id="([\w-]+)"', html):
        assert f'for="{id_}"' in html, id_
    assert set(re.findall(r' name="(\w+)"', html)) == set(sizing.FIELDS)
    found = sizing.size({"model": L8, "device": "H100"})
    evil = "<img src=x onerror=alert(1)>"
    found["lines"].append(evil)
    found["first"][0]["text"] = evil
    found["code"] = evil
    assert "<img" not in showing.answer(found)
    assert "<img" not in json.dumps(live._page.size({"model": evil[:40], "device": "H100"}).get("html", ""))
    with pytest.raises(InputError, match="no answer"):
        showing.page({"model": "nope", "device": "H100"})


def test_the_explanation_goes_down_to_the_sources() -> None:
    found = sizing.size({"model": L8, "device": "H100", "rate": "20"})
    html = next(f["html"] for f in found["folds"] if f["title"] == "Where it comes from")
    assert "data-equation='eq-utilisation'" in html
    assert mlsysim.equations.lookup("eq-utilisation").source in html


def test_the_worker_answers_for_the_page() -> None:
    def ask(do: str, *with_: Any) -> Any:
        return json.loads(live.answer(json.dumps({"do": do, "with": with_})))

    form = {"model": L8, "device": "H100", "rate": "20"}
    found = ask("size", form)
    assert found["html"] + ask("behind", form)["html"] == showing.answer(exports.size(form))
    assert found["heard"].startswith("Does it fit? Yes")
    assert ask("size", {})["field"] == "model"
    assert ask("export", form, "csv")["name"] == "size-it-serve.csv"
    assert "neither" in ask("command", "ls")["error"]
    assert "<li>" in ask("more", form)["html"]


def test_before_javascript_there_is_an_explanation_and_no_form() -> None:
    html = showing.page()
    before, form, after = html.partition('<form class="size-form" hidden')
    assert form and "<input" not in before and "<select" not in before
    assert "A worked example" in before and "Llama-3.1-8B" in before and "need JavaScript" in before
    assert 'size-more" hidden' in after and 'size-exports" hidden' in after
    assert after.index("</form>") < after.index('class="size-first"')


def test_no_number_is_written_as_a_power_of_ten() -> None:
    for form in (
        {"task": "train", "model": L8, "device": "H100", "count": "4096", "tokens": "15T"},
        {"model": L70, "device": "H100", "rate": "2000", "grid": "France"},
    ):
        found = sizing.size(form)
        said = [row["text"] for row in [*found["first"], *found["rows"]]]
        assert not [text for text in said if re.search(r"\de[+-]\d", text)], said


def test_one_device_alone_has_an_answer() -> None:
    found = sizing.size({"model": "Llama-2-7B", "device": "A100", "count": "1", "input_len": "5", "output_len": "200"})
    assert "error" not in found and found["answer"]["speed"] > 0


def test_on_paper_the_example_has_its_three_numbers() -> None:
    html = showing.printed()
    for row in sizing.size(showing.EXAMPLE)["first"]:
        assert f"{row['label']}: {row['text']}" in html
    assert "<form" not in html


@pytest.mark.parametrize(
    ("model", "says"), [("gpt-oss-20B", "--experts mxfp4 (as"), ("Qwen/Qwen3-8B-FP8", "--precision fp8 (as")]
)
def test_a_checkpoint_is_sized_as_the_door_serves_it(model: str, says: str) -> None:
    found = sizing.size({"task": "serve", "model": model, "device": "H100", "rate": "1"})
    assert any(says in line for line in found["lines"])
    space: dict[str, Any] = {}
    exec(found["code"].replace("print(answer)", ""), space)
    own = {row["name"]: row["value"] for row in found["rows"]}
    assert own["weights"] == space["answer"].memory.weight_memory == space["answer"].to_dict()["weights_bytes"]


def test_a_prefix_counts_on_the_page_as_in_the_function() -> None:
    form = {
        "model": "gpt-oss-120B",
        "device": "B200",
        "rate": "40",
        "input_len": "6000",
        "output_len": "700",
        "itl": "30 ms",
    }
    for more, given in (
        ({"shared_len": "4000"}, {"shared_len": 4000.0}),
        ({"cached_len": "4000", "hit_rate": "50 %", "length_variation": "0"}, {"cached_len": 4000, "hit_rate": 0.5, "length_variation": 0.0}),
    ):  # fmt: skip
        found = answers.sized(form | more).result
        asked = {"rate": 40, "input_len": 6000, "output_len": 700, "slo": mlsysim.SLO(itl=0.03)}
        assert found.question == mlsysim.serve("gpt-oss-120B", "B200", **asked, **given).question
    assert "shared_len" in sizing.size(form | {"shared_len": "6000"})["error"]
