"""The command line as a new user meets it."""

import argparse
import json
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import NoReturn

import psutil
import pytest

from mlsysim import catalog, cli, roofline
from mlsysim.cli.arguments import print_json
from mlsysim.errors import InputError

ROOFLINE = ["roofline", "--device", "H100", "--flops", "1 TFLOP", "--bytes", "1e9"]


def run(*args: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-m", "mlsysim.cli", *args], capture_output=True, text=True, timeout=600)


def test_roofline_explains_every_term_and_json_gives_si() -> None:
    text = run(*ROOFLINE, "--explain")
    assert text.returncode == 0
    assert "compute-bound" in text.stdout and "[@eq-iron-law]" in text.stdout
    data = json.loads(run(*ROOFLINE, "--json").stdout)
    expected = roofline.kernel_time("H100", flops=1e12, bytes=1e9)
    assert data["time_s"] == expected.time
    assert data["bound"] == "compute"
    assert data["device"] == "H100-SXM5-80GB"


def test_every_option_reaches_the_solver() -> None:
    options = [
        "--precision",
        "fp8",
        "--efficiency",
        "0.7",
        "--memory-efficiency",
        "90 %",
        "--kernels",
        "3",
        "--launch-overhead",
        "10 us",
    ]
    data = json.loads(run(*ROOFLINE, *options, "--json").stdout)
    expected = roofline.kernel_time(
        "H100",
        flops=1e12,
        bytes=1e9,
        precision="fp8",
        efficiency=0.7,
        memory_efficiency=0.9,
        kernels=3,
        launch_overhead=1e-5,
    )
    assert data["time_s"] == expected.time
    preset = json.loads(run(*ROOFLINE, "--efficiency", "mlsysim-page-training", "--json").stdout)
    assert preset["efficiency"] == 0.5


@pytest.mark.slow
@pytest.mark.parametrize(
    ("change", "says"),
    [
        (["--device", "H10"], "unknown device 'H10'; did you mean"),
        (["--bytes", "-5"], "bytes = -5.0 is outside [0, inf)"),
        (["--bytes=-5 GB"], "bytes = -5000000000.0 is outside [0, inf)"),
        (["--bytes", "0"], "bytes = 0.0 is outside (0, inf)"),
        (["--precision", "fp5"], "lists no dense peak for precision 'fp5'"),
        (["--flops", "1 TFLOPS"], "two meanings"),
        (["--flops", "many"], "not a quantity"),
        (["--flops", "nan"], "not a quantity"),
        (["--flops", "1 GB"], "is not in FLOP"),
        (["--efficiency", "45"], "efficiency = 45.0 is outside (0, 1]"),
        (["--efficiency", "mlsysim-page-trainin"], "did you mean 'mlsysim-page-training'"),
        (["--device-file", "nowhere.toml"], "nowhere.toml: cannot be read"),
        (["--what"], "unrecognized arguments: --what (see 'mlsysim roofline --help')"),
        (["--presision=fp8"], "unrecognized arguments: --presision=fp8; did you mean --precision?"),
    ],
)
def test_a_mistake_is_one_sentence_and_exit_code_2(change: list[str], says: str) -> None:
    result = run(*ROOFLINE, *change)
    assert result.returncode == 2
    assert result.stdout == ""
    assert says in result.stderr
    assert result.stderr.startswith("mlsysim: ")
    assert result.stderr.count("\n") == 1
    assert "Traceback" not in result.stderr


def test_missing_arguments_and_commands(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["roofline", "--device", "H100"]) == 2
    assert "required: --flops, --bytes" in capsys.readouterr().err
    assert cli.main([]) == 2
    assert cli.main(["devises"]) == 2
    assert "invalid choice: 'devises'" in capsys.readouterr().err


def test_devices_lists_all_and_json_carries_the_sources(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["devices"]) == 0
    text = capsys.readouterr().out
    assert all(name in text for name in catalog.devices())
    assert cli.main(["devices", "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)
    assert len(rows) == len(catalog.devices())
    h100 = next(r for r in rows if r["name"] == "H100-SXM5-80GB")
    assert h100["fields"]["peak_flops.bf16"]["value"] == 989.5e12
    assert h100["fields"]["peak_flops.bf16"]["source"]


def test_a_device_of_your_own(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "mine.toml"
    file.write_text('["My-Chip"]\nmemory_bandwidth = "2 TB/s"\npeak_flops.bf16 = "100 TFLOP/s"\n')
    arguments = ["--device-file", str(file), "--device", "My-Chip", "--flops", "1e12", "--bytes", "1e9"]
    assert cli.main(["roofline", *arguments, "--explain"]) == 0
    out = capsys.readouterr().out
    assert "10 ms" in out
    assert "mine.toml" in out
    assert cli.main(["devices", "--device-file", str(file)]) == 0
    assert "My-Chip" in capsys.readouterr().out


@pytest.mark.slow
def test_version_and_help_name_the_distribution() -> None:
    assert run("--version").stdout.startswith("mlsysim 1.")
    assert "mlsysim-book" in run("--version").stdout
    assert run("roofline", "--help").returncode == 0


def test_models_lists_every_shape_with_its_exact_count() -> None:
    text = run("models")
    assert text.returncode == 0
    assert all(name in text.stdout for name in catalog.models())
    rows = {row["name"]: row for row in json.loads(run("models", "--json").stdout)}
    assert set(rows) == set(catalog.models())
    llama = rows["Llama-3.1-8B"]
    assert (llama["parameters"], llama["n_layers"], llama["attention"]) == (8_030_261_248, 32, "gqa")
    assert rows["Mixtral-8x7B"]["active_parameters"] < rows["Mixtral-8x7B"]["parameters"]
    assert llama["published"]["parameters"]["value"] == llama["parameters"]


@pytest.mark.slow
def test_params_of_a_name_and_of_a_config_are_the_same(tmp_path: Path) -> None:
    named = json.loads(run("params", "--model", "gpt2", "--json").stdout)
    assert named["parameters"] == sum(named["parts"].values()) == named["active_parameters"] == 124_439_808
    config = {"model_type": "gpt2", "n_embd": 768, "n_layer": 12, "n_head": 12, "n_positions": 1024}
    file = tmp_path / "config.json"
    file.write_text(json.dumps(config | {"vocab_size": 50257}))
    own = json.loads(run("params", "--model", str(file), "--json").stdout)
    assert own["parts"] == named["parts"] and own["published"] == {}
    assert "124,439,808" in run("params", "--model", "gpt2").stdout
    file.write_text(json.dumps(config))
    bad = run("params", "--model", str(file))
    assert bad.returncode == 2 and bad.stderr == (
        "mlsysim: config.json: no vocab_size; add it, or give the config.json as it was published\n"
    )
    unknown = run("params", "--model", "gpt2-larg")
    assert unknown.returncode == 2 and "did you mean" in unknown.stderr


COLLECTIVE = ["collective", "--op", "all_reduce", "--algorithm", "ring", "--ranks", "8", "--bytes", "1e9"]


def test_collective_takes_decimal_gigabytes_one_way_and_nanoseconds() -> None:
    data = json.loads(run(*COLLECTIVE, "--bandwidth", "50", "--latency", "500", "--json").stdout)
    assert data["time_s"] == pytest.approx(2 * 7 * (1e9 / 8 / 50e9 + 500e-9), rel=1e-12)
    assert data["bound"] == "bandwidth"
    assert data["time_s"] == pytest.approx(data["latency_time_s"] + data["bandwidth_time_s"], rel=1e-12)
    same = json.loads(run(*COLLECTIVE, "--bandwidth", "400 Gbit/s", "--latency", "0.5 us", "--json").stdout)
    assert same == data
    with_call = json.loads(
        run(*COLLECTIVE, "--bandwidth", "50", "--latency", "500", "--overhead", "10 us", "--json").stdout
    )
    assert with_call["time_s"] == pytest.approx(data["time_s"] + 10e-6, rel=1e-12)


def test_collective_knows_nodes() -> None:
    ring = [*COLLECTIVE, "--ranks", "1024", "--bandwidth", "50", "--latency", "14 us"]
    flat = json.loads(run(*ring, "--json").stdout)
    data = json.loads(run(*ring, "--ranks-per-node", "8", "--node-latency", "3400", "--json").stdout)
    assert flat["latency_time_s"] == pytest.approx(28.644e-3, rel=1e-12)
    assert data["latency_time_s"] == pytest.approx(1792 * 3.4e-6 + 254 * 14e-6, rel=1e-12)
    assert data["bandwidth_time_s"] == flat["bandwidth_time_s"]


@pytest.mark.slow
def test_collective_leaves_the_choice_to_the_library_of_a_node() -> None:
    asked = ["collective", "--op", "all_reduce", "--node", "P5", "--ranks", "16", "--bytes", "1 MB"]
    data = json.loads(run(*asked, "--json").stdout)
    assert data["protocol"] == data["candidates"][0]["protocol"] and data["protocol"].startswith("efa-tree")
    assert data["time_s"] == pytest.approx(sum(v for k, v in data.items() if k.endswith("_time_s")), rel=1e-12)
    ring = json.loads(run(*asked, "--algorithm", "ring", "--efficiencies", "datasheet", "--json").stdout)
    assert all("ring" in c["protocol"] for c in ring["candidates"])
    assert "eq-chunked-transfer" in run(*asked, "--explain").stdout
    for change, says in (
        (["--bandwidth", "50"], "--bandwidth does not go with --node"),
        (["--latency", "5 us"], "do not go with --node"),
        (["--ranks", "12"], "fills no whole number of them"),
        (["--ranks", "2.5"], "must be a whole number"),
        (["--algorithm", "rings"], "did you mean 'ring'"),
        (["--efficiencies", "bounds"], "did you mean 'bound'"),
        (["--node", "P55"], "did you mean"),
    ):
        done = run(*asked, *change)
        assert done.returncode == 2 and says in done.stderr and done.stderr.count("\n") == 1, change
    for missing, says in (("--bandwidth", "give --bandwidth"), ("--algorithm", "give --algorithm")):
        given = [*COLLECTIVE, "--bandwidth", "50"]
        at = given.index(missing)
        assert says in run(*given[:at], *given[at + 2 :]).stderr
    assert "goes with --node" in run(*COLLECTIVE, "--bandwidth", "50", "--efficiencies", "bound").stderr


def test_collective_prints_its_equation_and_its_parts() -> None:
    text = run(*COLLECTIVE, "--bandwidth", "50", "--explain").stdout
    for part in ("eq-ring-allreduce", "bandwidth-bound", "50 GB/s", "given by the caller"):
        assert part in text


@pytest.mark.slow
@pytest.mark.parametrize(
    ("change", "says"),
    [
        (["--op", "all-reduce"], "did you mean 'all_reduce'"),
        (["--algorithm", "rings"], "did you mean 'ring'"),
        (["--ranks", "2.5"], "must be a whole number"),
        (["--ranks", "0"], "at least 1"),
        (["--bandwidth", "50 GB"], "is not in GB/s"),
        (["--bandwidth", "-1"], "bandwidth = "),
        (["--latency", "fast"], "is not a quantity"),
        (["--bytes", "1 GFLOP"], "is not in byte"),
        (["--algorithm", "halving_doubling", "--ranks", "6"], "power of two"),
        (["--ranks-per-node", "3"], "must be a multiple of ranks_per_node = 3"),
        (["--node-latency", "3400"], "needs --ranks-per-node"),
    ],
)
def test_a_wrong_collective_is_one_sentence_and_exit_code_2(change: list[str], says: str) -> None:
    done = run(*COLLECTIVE, "--bandwidth", "50", *change)
    assert done.returncode == 2
    assert says in done.stderr
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize("command", cli.COMMANDS)
def test_a_command_is_found_in_its_module(command: str) -> None:
    """The table says which module a command is in, so that no other is imported for it, and what its line of help is."""
    parser = cli._parser(command)
    (commands,) = (a for a in parser._actions if isinstance(a, argparse._SubParsersAction))
    assert command in commands.choices and len(commands.choices) <= 3
    assert {a.dest: a.help for a in commands._choices_actions}[command] == cli.COMMANDS[command]


def test_the_help_lists_every_command_and_imports_none() -> None:
    code = "import sys; from mlsysim import cli\ntry: cli.main(['--help'])\nexcept SystemExit: print(sum('mlsysim.cli.' in m for m in sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert int(done.stdout.splitlines()[-1]) <= 2
    assert all(f"\n    {name}" in done.stdout for name in cli.COMMANDS)


def test_one_command_leaves_the_others_unread() -> None:
    code = "import sys; from mlsysim import cli; cli.main(['devices']); print('mlsysim.serving_steps' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "False"


# What a command does with a bad place, a bad number and an impatient user


FULL = Path("/dev/full")
TRAIN = ["train", "--model", "Llama-3.1-8B", "--seq", "2048", "--global-batch", "64", "--node", "DGX-H100"]
MEMORY = ["memory", "--model", "Llama-3.1-8B", "--seq", "2048", "--device", "H100"]
SERVE = ["serve", "--model", "Llama-3.1-8B", "--device", "H100", "--input-len", "512", "--output-len", "64"]
HUGE = "1" + "0" * 400


@pytest.mark.slow
@pytest.mark.skipif(not FULL.exists(), reason="no /dev/full here")
@pytest.mark.parametrize(
    "command",
    [["devices"], ["devices", "--json"], ["train", "--help"], ["--version"], ["sweep", "eq-ridge-point", "peak_flops=1e12:1e15:4000", "memory_bandwidth=1e12"]],
    ids=" ".join,
)  # fmt: skip
def test_output_that_cannot_be_written_is_one_sentence(command: list[str]) -> None:
    with FULL.open("w") as full:
        done = subprocess.run(
            [sys.executable, "-m", "mlsysim.cli", *command], stdout=full, stderr=subprocess.PIPE, text=True, timeout=60
        )
    assert done.returncode == 1
    assert done.stderr == "mlsysim: the output cannot be written or read (No space left on device)\n"


@pytest.mark.skipif(not FULL.exists(), reason="no /dev/full here")
@pytest.mark.slow
def test_a_file_that_cannot_be_written_is_one_sentence() -> None:
    done = run("sweep", "eq-ridge-point", "peak_flops=1e12:1e15:4000", "memory_bandwidth=1e12", "--output", str(FULL))
    assert done.returncode == 1 and done.stderr.count("\n") == 1 and "No space left on device" in done.stderr


@pytest.mark.slow
@pytest.mark.parametrize(
    "command",
    [
        ["simulate", "--model", "Llama-3.1-8B", "--device", "H100", "--rate", "5", "--requests", "200000", "--input-len", "100",
         "--output-len", "200"],
        ["sweep", "train", "model=Llama-3.1-8B", "node=DGX-H100", "global_batch=64", "seq=1:9000000:9000000", "inter_bandwidth=1e9:1e11:9"],
    ],
    ids=["simulate", "sweep"],
)  # fmt: skip
def test_an_interrupt_is_one_line_and_130(command: list[str]) -> None:
    # A shell's background jobs are born deaf to interrupts; a person's terminal is not.
    code = f"""import signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)
from mlsysim import cli
print("ready", file=sys.stderr, flush=True)
sys.exit(cli.main({command!r}))"""
    with subprocess.Popen(
        [sys.executable, "-c", code], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
    ) as child:
        try:
            assert child.stderr is not None and child.stderr.readline() == "ready\n"
            work, deadline = psutil.Process(child.pid), time.monotonic() + 3000
            begun = sum(work.cpu_times()[:2])
            # Well inside the work, which takes many seconds of a processor: while modules are imported, Python may
            # drop an interrupt that comes in a callback of its own. A busy machine needs more than a second for that.
            while sum(work.cpu_times()[:2]) < begun + 1.0 and time.monotonic() < deadline:
                time.sleep(0.05)
            child.send_signal(signal.SIGINT)
            _, said = child.communicate(timeout=3000)
        finally:
            child.kill()
    assert (said, child.returncode) == ("mlsysim: interrupted\n", 130)


@pytest.mark.parametrize(
    ("command", "says"),
    [
        ([*MEMORY, "--seq", HUGE], "argument --seq: '10000000000000000000'... (401 characters) is beyond 2^53"),
        ([*SERVE, "--output-len", HUGE], "argument --output-len: "),
        ([*TRAIN, "--global-batch", str(2**63)], "argument --global-batch: '9223372036854775808' is beyond 2^53"),
        ([*TRAIN, "--devices", "0"], "argument --devices: 0 must be a whole number of at least 1"),
        ([*TRAIN, "--seq", "0", "--attn-len", "2147483648"], "argument --seq: 0 must be"),
        ([*TRAIN, "--tp", "0"], "argument --tp: 0 must be"),
        ([*TRAIN, "--tp", "two"], "argument --tp: 'two' is not a whole number"),
        ([*TRAIN, "--nodes", "-1"], "argument --nodes: -1 must be"),
        ([*SERVE, "--batch", "0"], "argument --batch: '0' must lie in [1, 1e12]"),
        ([*SERVE, "--quantile", "nan"], "argument --quantile: "),
        ([*SERVE, "--quantile", "1e999"], "argument --quantile: "),
        ([*MEMORY, "--capacity", "-80 GB"], "argument --capacity: '-80 GB' must be above 0 byte"),
        ([*MEMORY, "--capacity", "0 GB"], "argument --capacity: '0 GB' must be above 0 byte"),
        ([*ROOFLINE, "--flops", "1e-400"], "nearer to 0 than any float"),
        ([*ROOFLINE, "--efficiency", "5e-324", "--json"], "have no finite result"),
        ([*ROOFLINE, "--efficiency", "5e-324"], "have no finite result"),
        (["energy", "--devices", "8", "--time", "1e308", "--device", "H100", "--pue", "1.2", "--json"], "have no finite result"),
        ([*ROOFLINE, "--device", "x" * 5000], "56 are known; 'mlsysim devices' lists them"),
        (["sweep", "eq-ridge-point", "x" * 5000], "is not NAME=VALUES"),
        (["devices", "--what" + "x" * 5000], "unrecognized arguments: --whatxxx"),
        (["roofline", "--device", "H100", "--flops", "x" * 5000, "--bytes", "1"], "is not a quantity"),
        (["bench-device", "-o", "/nonexistent/dir/x.json"], "--output '/nonexistent/dir/x.json' cannot be written (No such file"),
        (["calibrate", "--trace", "x", "--model", "Llama-3.1-8B", "--device", "H100", "-o", "/nonexistent/x"], "--output '/nonexistent/x'"),
    ],
    ids=lambda v: v[:24] if isinstance(v, str) else None,
)  # fmt: skip
def test_numbers_and_places_that_no_command_can_use(
    command: list[str], says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(command) == 2
    out, error = capsys.readouterr()
    assert says in error and out == ""
    assert error.startswith("mlsysim: ") and error.count("\n") == 1 and len(error) < 1000


def test_the_number_of_known_devices_is_that_of_the_list(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main([*ROOFLINE, "--device", "zzzzzz"]) == 2
    assert f"{len(catalog.devices())} are known" in capsys.readouterr().err
    assert cli.main([*ROOFLINE, "--device", "H10"]) == 2
    assert "did you mean 'H100'" in capsys.readouterr().err  # an alias is still a suggestion


@pytest.mark.parametrize("option", ["--model=--", "-h=--"])
def test_dashes_alone_are_no_value(option: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["params", option, "--model", "gpt2"][: 2 if "model" in option else 4]) == 2
    assert capsys.readouterr().err.count("\n") == 1


def test_an_answer_that_is_not_finite_is_an_error_and_no_json(capsys: pytest.CaptureFixture[str]) -> None:
    for bad in (float("inf"), float("-inf"), float("nan")):
        with pytest.raises(InputError, match=r"^terms_s\.gemm\.1 is -?(inf|nan), which is no answer"):
            print_json({"time_s": 1.0, "terms_s": {"gemm": [0.0, bad]}})
    assert capsys.readouterr().out == ""
    print_json({"a": [1.0, None, "inf"]})
    assert json.loads(capsys.readouterr().out) == {"a": [1.0, None, "inf"]}


def test_bench_device_without_numpy_says_what_to_install(tmp_path: Path) -> None:
    command = ["bench-device", "--quick", "--platform", "cpu", "-o", str(tmp_path / "x.json")]
    (tmp_path / "numpy.py").write_text("raise ModuleNotFoundError('no numpy here', name='numpy')")
    code = (
        f"import sys; sys.path.insert(0, {str(tmp_path)!r}); from mlsysim import cli; sys.exit(cli.main({command!r}))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=600)
    assert done.returncode == 2 and done.stderr.count("\n") == 1
    assert "pip install 'mlsysim-book[scale]'" in done.stderr
    assert not (tmp_path / "x.json").exists()


def test_a_number_that_grows_beyond_a_float_is_a_sentence(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for error, code, says in (
        (OverflowError(34, "Numerical result out of range"), 2, "beyond what a float holds"),
        (MemoryError(), 1, "not enough memory"),
        (KeyboardInterrupt(), 130, "interrupted"),
    ):
        monkeypatch.setattr("mlsysim.roofline.kernel_time", _raising(error))
        assert cli.main(ROOFLINE) == code
        assert says in capsys.readouterr().err


def _raising(error: BaseException) -> Callable[..., NoReturn]:
    def function(*args: object, **kwargs: object) -> NoReturn:
        raise error

    return function


SERVE = ["memory", "--serve", "--model", "Llama-3.1-8B", "--device", "H100"]


@pytest.mark.published
def test_what_a_server_holds(capsys: pytest.CaptureFixture[str]) -> None:
    options = "--engine vllm --engine-version 0.19.0 --tp 2 --max-model-len 8192 --max-num-batched-tokens 8192"
    more = "--max-num-seqs 1024 --gpu-memory-utilization 0.95 --json"
    assert cli.main([*SERVE, *options.split(), *more.split()]) == 0
    found = json.loads(capsys.readouterr().out)
    # planner2026starts, v0.19.0/logs/meta-llama-llama-3-1-8b---h100-80gb--tp2pp1dp1--8192.log
    for name, gib, off in (
        ("weights_bytes", 7.51, 0.01),
        ("activation_bytes", 1.89, 0.05),
        ("non_torch_bytes", 2.07, 0.01),
        ("kv_pool_bytes", 63.76, 0.02),
    ):
        assert found[name] / 2**30 == pytest.approx(gib, rel=off), name
    assert found["kv_tokens"] == pytest.approx(1_044_688, rel=0.02)
    assert found["graphs_bytes"] > 0


@pytest.mark.independent
def test_options_of_a_server_and_of_training_are_kept_apart(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    for argv, message in (
        ([*SERVE, "--seq", "10"], "--seq belongs to training"),
        ([*MEMORY, "--engine", "vllm"], "add --serve"),
        (["memory", "--model", "Llama-3.1-8B", "--device", "H100"], "--seq is missing"),
        (["memory", "--serve", "--device", "H100"], "--model"),
    ):
        assert cli.main(argv) == 2
        assert message in capsys.readouterr().err
    assert cli.main([*SERVE, "--weights", "fp8", "--no-graphs", "--explain"]) == 0
    assert "eq-server-weights" in capsys.readouterr().out
    assert cli.main(["memory", "--serve", "--model", "Llama-3.1-70B", "--device", "H100"]) == 3
    assert "DOES NOT FIT" in capsys.readouterr().out
    config = tmp_path / "config.json"
    config.write_text(
        json.dumps(
            {
                "model_type": "llama",
                "hidden_size": 4096,
                "num_hidden_layers": 32,
                "num_attention_heads": 32,
                "num_key_value_heads": 8,
                "intermediate_size": 14336,
                "vocab_size": 128256,
                "max_position_embeddings": 131072,
                "quantization_config": {"quant_method": "fp8"},
            }
        )
    )
    assert cli.main(["memory", "--serve", "--config", str(config), "--device", "H100", "--json"]) == 0
    read = json.loads(capsys.readouterr().out)
    assert cli.main([*SERVE, "--weights", "fp8", "--json"]) == 0
    named = json.loads(capsys.readouterr().out)
    assert read["weights"] == "fp8" and read["kv_tokens"] == named["kv_tokens"]
