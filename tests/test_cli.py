"""The command line as a new user meets it."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from mlsysim import catalog, cli, roofline

ROOFLINE = ["roofline", "--device", "H100", "--flops", "1 TFLOP", "--bytes", "1e9"]


def run(*args: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-m", "mlsysim.cli", *args], capture_output=True, text=True, timeout=60)


def test_roofline_prints_every_term_and_json_gives_si() -> None:
    text = run(*ROOFLINE)
    assert text.returncode == 0
    assert "compute-bound" in text.stdout
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
        (["--what"], "unrecognized arguments: --what"),
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
    assert cli.main(["roofline", *arguments]) == 0
    out = capsys.readouterr().out
    assert "10 ms" in out
    assert "mine.toml" in out
    assert cli.main(["devices", "--device-file", str(file)]) == 0
    assert "My-Chip" in capsys.readouterr().out


def test_version_and_help_name_the_distribution() -> None:
    assert run("--version").stdout.startswith("mlsysim 0.")
    assert "mlsysim-book" in run("--version").stdout
    assert run("roofline", "--help").returncode == 0
