"""Ten questions put to the page that sizes, to packages from the index, and to two pages of others; writes evidence/studies/tools.toml.

Run by hand, never by the tests. Each package stands in an environment of its own, whose interpreter is named here:

    python scripts/maintain/peers/compare_tools.py --llm-analysis PYTHON --genz-llm PYTHON --mlsysim PYTHON

A package whose interpreter is not named keeps the answers that the record has of it. What a package is asked is the function below that bears its name and the question's; its lines are counted, since they are what
somebody has to write. The two pages were asked by hand (``PAGES``): what was typed stands beside what they print.
"""

import argparse
import inspect
import json
import os
import platform
import statistics
import subprocess
import sys
import time
import tomllib
from collections.abc import Callable
from datetime import date
from importlib import metadata
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[3]
OUT = ROOT / "mlsysim" / "evidence" / "studies" / "tools.toml"
SEQUENCE = 1024  # tokens of a sequence, for those that count sequences
MEMORY = {"max_num_seqs": "1024", "max_num_batched_tokens": "8192", "gpu_memory_utilization": "0.95"}
LLAMA_65B = {
    "model_type": "llama",
    "hidden_size": 8192,
    "num_hidden_layers": 80,
    "num_attention_heads": 64,
    "intermediate_size": 22016,
    "vocab_size": 32000,
    "tie_word_embeddings": False,
}
# Each question with the form of the page, what was published, and where; `seen` says what our constants knew of the source.
QUESTIONS: dict[str, dict[str, Any]] = {
    "cache-dense": {
        "what": "Tokens of cache beside Llama-3.1-8B on one H100",
        "kind": "memory",
        "unit": "token",
        "start": "llama-8b",
        "seen": "the release's overheads were read off such starts",
        "form": {"task": "fits", "model": "Llama-3.1-8B", "device": "H100", "count": "1", **MEMORY},
    },
    "cache-experts": {
        "what": "Tokens of cache beside Mixtral-8x7B on two H100",
        "kind": "memory",
        "unit": "token",
        "start": "mixtral-tp2",
        "seen": "no",
        "form": {"task": "fits", "model": "Mixtral-8x7B", "device": "H100", "count": "2", "tp": "2", **MEMORY},
    },
    "cache-latent": {
        "what": "Tokens of cache beside Kimi-VL-A3B on one H100",
        "kind": "memory",
        "unit": "token",
        "start": "kimi-vl",
        "seen": "no",
        "form": {"task": "fits", "model": "Kimi-VL-A3B", "device": "H100", "count": "1", **MEMORY},
    },
    "cache-window": {
        "what": "Tokens of cache beside Gemma-2-9B on one H100",
        "kind": "memory",
        "unit": "token",
        "start": "gemma-2-9b",
        "seen": "no",
        "form": {"task": "fits", "model": "Gemma-2-9b", "device": "H100", "count": "1", **MEMORY},
    },
    "rate-dense": {
        "what": "Tokens per second of Llama-2-7B on one A100",
        "kind": "speed",
        "unit": "token/s",
        "row": {"model": "Llama-2-7B", "n_devices": 1, "weight_precision": "bf16", "output_len": 200},
        "form": {"task": "serve", "model": "Llama-2-7B", "device": "A100", "count": "1", "input_len": "5", "output_len": "200"},
    },
    "rate-int8": {
        "what": "Tokens per second of Llama-3.1-8B in int8 on one A100",
        "kind": "speed",
        "unit": "token/s",
        "row": {"model": "Llama-3.1-8B", "n_devices": 1, "weight_precision": "int8", "output_len": 200},
        "form": {"task": "serve", "model": "Llama-3.1-8B", "device": "A100", "count": "1", "weights": "int8", "input_len": "5", "output_len": "200"},
    },
    "rate-experts": {
        "what": "Tokens per second of Mixtral-8x7B on two A100",
        "kind": "speed",
        "unit": "token/s",
        "row": {"model": "Mixtral-8x7B", "n_devices": 2, "weight_precision": "bf16", "output_len": 200},
        "form": {"task": "serve", "model": "Mixtral-8x7B", "device": "A100", "count": "2", "tp": "2", "input_len": "5", "output_len": "200"},
    },
    "step-four": {
        "what": "Decode steps per second of Llama-2-70B on four H100, 4,096 tokens",
        "kind": "speed",
        "unit": "1/s",
        "row": {"model": "Llama-2-70B", "n_devices": 4, "phase": "decode_step", "input_len": 4096},
        "form": {"task": "serve", "model": "Llama-2-70B", "device": "H100", "count": "4", "tp": "4", "input_len": "4096", "output_len": "2"},
    },
    "hours-65b": {
        "what": "Device-hours to train LLaMA-65B on 1.4T tokens, 2,048 A100",
        "kind": "cost",
        "unit": "h",
        "footprint": "llama-65b",
        "seen": "steps of this run are in the fit",
        "form": {"task": "train", "config": json.dumps(LLAMA_65B), "device": "DGX-A100", "count": "256", "tokens": "1.4T", "global_batch": "2048", "seq": "2048"},
    },
    "hours-405b": {
        "what": "Device-hours to train Llama-3.1-405B on 15.6T tokens, 16,384 H100",
        "kind": "cost",
        "unit": "h",
        "footprint": "llama-3.1-405b",
        "seen": "steps of this run are in the fit",
        "form": {"task": "train", "model": "Llama-3.1-405B", "device": "DGX-H100", "count": "2048", "tokens": "15.6T", "global_batch": "2048", "seq": "8192"},
    },
}  # fmt: skip
# Pages without a package, asked by hand on the date of the record: what was typed, and what they print.
PAGES: dict[str, dict[str, Any]] = {
    "gpu_poor": {
        "name": "gpu_poor",
        "is": "page",
        "version": "ad2fc0e of 2024-12-03",
        "where": "github.com/RahulSChand/gpu_poor",
        "asked": f"its own functions, as the page calls them: vLLM for memory, sequences of {SEQUENCE} tokens, the largest batch whose total is at most 0.95 of 80 GB; Hugging Face for speed",
        "answers": {"cache-dense": 48 * 1024, "cache-window": 41 * 1024, "rate-dense": 81.0, "step-four": 1e3 / 29.10},
        "missing": {
            "cache-experts": "no experts",
            "cache-latent": "no latent attention",
            "rate-int8": "no int8 but that of bitsandbytes, and not this model",
            "rate-experts": "no experts",
            "hours-65b": "one GPU, one iteration",
            "hours-405b": "one GPU, one iteration",
        },
    },
    "lmcache": {
        "name": "LMCache's calculator",
        "is": "page",
        "version": "375a749 (list of models 3fd3000)",
        "where": "docs.lmcache.ai, KV Cache Size Calculator",
        "asked": "memory for the cache: 0.95 of 80 GB less two bytes a parameter, which the person subtracts",
        "answers": {"cache-dense": int((76e9 - 2 * 8_030_261_248) // (2 * 32 * 8 * 128 * 2))},
        "missing": {
            "cache-experts": "not in its list of 22 models",
            "cache-latent": "not in its list; of latent attention it knows DeepSeek's",
            "cache-window": "not in its list",
            **dict.fromkeys([q for q in QUESTIONS if not q.startswith("cache")], "memory of the cache alone"),
        },
    },
}
# What a package does not answer, and why.
MISSING: dict[str, dict[str, str]] = {
    "llm-analysis": {
        "cache-dense": "refuses a width that is no multiple of the hidden size",
        "cache-experts": "refuses a width that is no multiple of the hidden size",
        "cache-latent": "no latent attention",
        "rate-int8": "refuses a width that is no multiple of the hidden size",
        "rate-experts": "refuses a width that is no multiple of the hidden size",
        "hours-405b": "refuses a width that is no multiple of the hidden size",
    },
    "genz-llm": {
        "cache-latent": "no latent attention in its catalogue",
        "hours-65b": "inference alone",
        "hours-405b": "inference alone",
    },
    "mlsysim-harvard": {
        "cache-experts": "serving on one device alone",
        "cache-latent": "no latent attention",
        "rate-experts": "serving on one device alone",
        "step-four": "serving on one device alone",
    },
}


# In the packages' processes: one function a question, in as few lines as it takes


class LlmAnalysis:
    distribution = "llm-analysis"
    module = "llm_analysis.analysis"

    @staticmethod
    def cache_window() -> float:
        from llm_analysis.analysis import LLMAnalysis, ModelConfig, get_gpu_config_by_name  # type: ignore[import-not-found]

        gemma = ModelConfig(
            "gemma-2-9b", 42, 16, 3584, 256000, 8192, num_key_value_heads=8, ffn_embed_dim=14336, model_type="llama"
        )
        found = LLMAnalysis(gemma, get_gpu_config_by_name("h100-sxm-80gb")).inference(1, SEQUENCE, 1)
        return float(found["decode_max_batch_size_per_gpu"] * SEQUENCE)  # fmt: skip

    @staticmethod
    def rate_dense() -> float:
        from llm_analysis.analysis import infer

        found = infer("NousResearch_Llama-2-7b-hf", "a100-sxm-80gb", seq_len=5, num_tokens_to_generate=200)
        return float(200 / found["total_latency"])

    @staticmethod
    def step_four() -> float:
        from llm_analysis.analysis import infer

        found = infer(
            "upstage_Llama-2-70b-instruct-v2", "h100-sxm-80gb", tp_size=4, seq_len=4095, num_tokens_to_generate=1
        )
        return float(1 / found["decode_latency"])  # fmt: skip

    @staticmethod
    def hours_65b() -> float:
        from llm_analysis.analysis import train

        found = train(
            "decapoda-research_llama-65b-hf",
            "a100-sxm-80gb",
            global_batch_size=2048,
            batch_size_per_gpu=1,
            seq_len=2048,
            total_num_tokens=int(1.4e12),
            tp_size=8,
            total_num_gpus=2048,
            flops_efficiency=0.5,
        )
        return float(found["total_training_latency"] * 2048 / 3600)  # fmt: skip


class GenzLlm:
    distribution = "genz-llm"
    module = "GenZ"

    @staticmethod
    def _most(model: str, tp: int) -> float:
        import GenZ  # type: ignore[import-not-found]

        low, high = 1, 4096
        while high - low > 1:
            batch = (low + high) // 2
            try:
                GenZ.decode_moddeling(
                    model, batch_size=batch, Bb=1, input_tokens=SEQUENCE, system_name="H100_GPU", tensor_parallel=tp
                )
                low = batch
            except ValueError:
                high = batch
        return float(low * SEQUENCE)  # fmt: skip

    @staticmethod
    def cache_dense() -> float:
        return GenzLlm._most("llama3_8b", 1)

    @staticmethod
    def cache_experts() -> float:
        return GenzLlm._most("mixtral_8x7b", 2)

    @staticmethod
    def cache_window() -> float:
        return GenzLlm._most("gemma2_9b", 1)

    @staticmethod
    def _rate(model: str, bits: str, tp: int) -> float:
        import GenZ

        given = {"model": model, "input_tokens": 5, "system_name": "A100_80GB_GPU", "bits": bits, "tensor_parallel": tp}
        first = GenZ.prefill_moddeling(**given)["Latency"]
        return float(200e3 / (first + 199 * GenZ.decode_moddeling(**given, output_tokens=100, Bb=1)["Latency"]))

    @staticmethod
    def rate_dense() -> float:
        return GenzLlm._rate("llama2_7b", "bf16", 1)

    @staticmethod
    def rate_int8() -> float:
        return GenzLlm._rate("llama3_8b", "int8", 1)

    @staticmethod
    def rate_experts() -> float:
        return GenzLlm._rate("mixtral_8x7b", "bf16", 2)

    @staticmethod
    def step_four() -> float:
        import GenZ

        found = GenZ.decode_moddeling("llama2_70b", input_tokens=4096, Bb=1, system_name="H100_GPU", tensor_parallel=4)
        return float(1e3 / found["Latency"])


class MlsysimHarvard:
    distribution = "mlsysim"
    module = "mlsysim"

    @staticmethod
    def _shape(name: str, parameters: float, layers: int, hidden: int, heads: int, kv_heads: int, head_dim: int) -> Any:
        from mlsysim.core.units import Q_, ureg  # type: ignore[import-not-found]
        from mlsysim.models.types import TransformerWorkload  # type: ignore[import-not-found]

        return TransformerWorkload(name=name, architecture="Transformer", parameters=Q_(parameters, ureg.count), layers=layers, hidden_dim=hidden, heads=heads, kv_heads=kv_heads, head_dim=head_dim)  # fmt: skip

    @staticmethod
    def _most(model: Any) -> float:
        from mlsysim.solvers import ServingModel  # type: ignore[import-not-found]

        from mlsysim import Hardware

        batch = 1
        while ServingModel().solve(model, Hardware.Cloud.H100, seq_len=SEQUENCE, batch_size=batch + 1).feasible:
            batch += 1
        return float(batch * SEQUENCE)

    @staticmethod
    def cache_dense() -> float:
        from mlsysim import Models

        return MlsysimHarvard._most(Models.Language.Llama3_8B)

    @staticmethod
    def cache_window() -> float:
        return MlsysimHarvard._most(MlsysimHarvard._shape("Gemma-2-9B", 9_241_705_984, 42, 3584, 16, 8, 256))

    @staticmethod
    def _rate(model: Any, precision: str) -> float:
        from mlsysim.solvers import ServingModel

        from mlsysim import Hardware

        first = ServingModel().solve(model, Hardware.Cloud.A100, seq_len=5, precision=precision).ttft.m_as("s")
        step = ServingModel().solve(model, Hardware.Cloud.A100, seq_len=105, precision=precision).itl.m_as("s")
        return float(200 / (first + 199 * step))

    @staticmethod
    def rate_dense() -> float:
        from mlsysim import Models

        return MlsysimHarvard._rate(Models.Language.Llama2_7B, "fp16")

    @staticmethod
    def rate_int8() -> float:
        from mlsysim import Models

        return MlsysimHarvard._rate(Models.Language.Llama3_8B, "int8")

    @staticmethod
    def _hours(model: Any, node: Any, fabric: Any, devices: int, seq: int, tokens: float, **plan: int) -> float:
        from mlsysim.solvers import DistributedModel
        from mlsysim.systems.types import Fleet  # type: ignore[import-not-found]

        fleet = Fleet(name="as in the question", node=node, count=devices // 8, fabric=fabric)
        step = DistributedModel().solve(model, fleet, batch_size=2048, seq_len=seq, **plan).step_latency_total.m_as("s")
        return float(step * tokens / (2048 * seq) * devices / 3600)

    @staticmethod
    def hours_65b() -> float:
        from mlsysim import Systems

        shape = MlsysimHarvard._shape("LLaMA-65B", 65_285_660_672, 80, 8192, 64, 64, 128)
        return MlsysimHarvard._hours(shape, Systems.Nodes.DGX_A100, Systems.Fabrics.InfiniBand_HDR, 2048, 2048, 1.4e12, tp_size=8, gradient_accumulation_steps=8)  # fmt: skip

    @staticmethod
    def hours_405b() -> float:
        from mlsysim import Models, Systems

        return MlsysimHarvard._hours(Models.Language.Llama3_405B, Systems.Nodes.DGX_H100, Systems.Fabrics.InfiniBand_NDR, 16384, 8192, 15.6e12, tp_size=8, pp_size=16, microbatch_count=16)  # fmt: skip


PACKAGES: dict[str, Any] = {"llm-analysis": LlmAnalysis, "genz-llm": GenzLlm, "mlsysim-harvard": MlsysimHarvard}
ABOUT = {
    "llm-analysis": ("llm-analysis", "the package index, llm-analysis", "defaults (efficiencies of 1); 0.5 for training, which its source names"),
    "genz-llm": ("GenZ", "the package index, genz-llm", "defaults (system_eff 1)"),
    "mlsysim-harvard": ("Harvard's mlsysim", "the package index, mlsysim", "defaults (efficiency 0.5)"),
}  # fmt: skip


def lines_of(package: Any, name: str) -> int:
    """Lines that somebody writes: the body of the question's function and of those that it calls."""
    source = inspect.getsource(getattr(package, name))
    helped = {h for h in vars(package) if h.startswith("_") and not h.startswith("__") and f".{h}(" in source}
    return sum(
        sum(1 for line in inspect.getsource(getattr(package, part)).splitlines()[2:] if line.strip())
        for part in {name, *helped}
    )


def inside(which: str) -> dict[str, Any]:
    """In the package's process: what it answers, in how much processor time."""
    package = PACKAGES[which]
    found: dict[str, Any] = {"version": metadata.version(package.distribution), "answers": {}}
    for key in QUESTIONS:
        name = key.replace("-", "_")
        if name not in vars(package):
            continue
        call: Callable[[], float] = getattr(package, name)
        call()
        start = time.process_time()
        value = call()
        found["answers"][key] = {
            "value": value,
            "seconds": time.process_time() - start,
            "lines": lines_of(package, name),
        }
    return found  # fmt: skip


# In ours


def _environment() -> dict[str, str]:
    return {k: v for k, v in os.environ.items() if not k.startswith("PYTHON")}


def import_time(python: str, module: str, **env: str) -> float:
    code = f"import time; t = time.process_time(); import {module}; print(time.process_time() - t)"
    where: dict[str, Any] = {"env": _environment() | env, "cwd": "/", "capture_output": True, "text": True}
    runs = [subprocess.run([python, "-s", "-c", code], check=True, **where) for _ in range(4)]
    return statistics.median(float(r.stdout.split()[-1]) for r in runs[1:])


def ask(which: str, python: str) -> dict[str, Any]:
    command = [python, "-s", str(Path(__file__).resolve()), "--inside", which]
    ran = subprocess.run(command, capture_output=True, text=True, env=_environment(), cwd="/")
    if ran.returncode:
        raise SystemExit(ran.stderr[-3000:])
    found: dict[str, Any] = json.loads(ran.stdout.strip().splitlines()[-1])
    return found | {"import_time": import_time(python, PACKAGES[which].module)}


def recorded(which: str) -> dict[str, Any]:
    """What a package answered when it was last asked."""
    record = tomllib.loads(OUT.read_text(encoding="utf-8"))
    answers = {key: q["answers"][which] for key, q in record["questions"].items() if which in q["answers"]}
    return {**record["tools"][which], "answers": answers}


def ours() -> dict[str, dict[str, float]]:
    """What the page prints, and how long it took."""
    from mlsysim.course import sizing

    found = {}
    for key, q in QUESTIONS.items():
        sizing.size(q["form"])
        start = time.process_time()
        said = sizing.size(q["form"])
        took = time.process_time() - start
        rows = {r["name"]: r["value"] for r in said.get("rows", [])}
        if "error" in said:
            raise SystemExit(f"{key}: {said['error']}")
        if q["kind"] == "memory":
            value = rows["kv_tokens"]
        elif q["kind"] == "cost":
            value = rows["run"] * rows["devices"] / 3600
        else:
            value = 1 / rows["itl"] if q["unit"] == "1/s" else 200 / rows["e2e"]
        found[key] = {"value": float(value), "seconds": took, "lines": 0}
    return found


def truths() -> dict[str, dict[str, Any]]:
    """What was published, with its source, and our answer when that source was left out of the fit."""
    from mlsysim.evidence import reality
    from mlsysim.evidence.measured.memory import server_start
    from mlsysim.evidence.studies import footprints

    found: dict[str, dict[str, Any]] = {}
    checked = {"inference": reality.check_class("inference", leave_one_group_out=True)}
    for key, q in QUESTIONS.items():
        if "start" in q:
            start = server_start(q["start"])
            logged = start.logged["kv_cache_tokens"]
            found[key] = {"published": logged, "source": "planner2026starts", "where": start.where}
            continue
        if q["kind"] == "cost":
            printed = footprints.published_footprint(q["footprint"]).fields["device_time"]
            found[key] = {"published": printed.value / 3600, "source": printed.source, "where": printed.where}
            continue
        wanted = {k: v for k, v in q["row"].items() if k != "model"}
        (row, *_) = [
            r
            for r in checked["inference"].rows
            if r.row.model == q["row"]["model"] and all(r.row.case.inputs.get(k) == v for k, v in wanted.items())
        ]
        held = row.score.predicted
        per = 1 if q["unit"] == "1/s" else 200
        found[key] = {"published": per / row.score.measured, "source": row.row.source, "where": row.row.where}
        found[key]["held_out"] = per / float(held or "nan")
    return found


def toml(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    for name in ("llm-analysis", "genz-llm", "mlsysim"):
        parser.add_argument(f"--{name}", help=f"the interpreter of an environment that has {name}")
    parser.add_argument("--inside", choices=PACKAGES, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.inside:
        print(json.dumps(inside(args.inside)))
        return
    given = {"llm-analysis": args.llm_analysis, "genz-llm": args.genz_llm, "mlsysim-harvard": args.mlsysim}
    asked = {which: ask(which, python) if python else recorded(which) for which, python in given.items()}
    own, known = ours(), truths()
    about = {"date": date.today().isoformat(), "python": platform.python_version(), "sequence": SEQUENCE}
    about |= {"machine": f"{os.cpu_count()} cores ({platform.machine()}), shared with other work", "times": "processor time of a second call; import: median of three"}  # fmt: skip
    out = ["# Written by scripts/maintain/peers/compare_tools.py. Do not edit.", "[conditions]"]
    out += [f"{k} = {toml(v)}" for k, v in about.items()]
    tools: dict[str, dict[str, Any]] = {
        "size-it": {"name": "Size it", "is": "ours", "version": "of the date", "where": "this book", "asked": "its form", "import_time": import_time(sys.executable, "mlsysim", PYTHONPATH=str(ROOT))}
    }  # fmt: skip
    tools |= {k: {n: v for n, v in p.items() if n not in ("answers", "missing")} for k, p in PAGES.items()}
    for which, (name, where, how) in ABOUT.items():
        tools[which] = {"name": name, "is": "package", "version": asked[which]["version"], "where": where, "asked": how, "import_time": asked[which]["import_time"]}  # fmt: skip
    for key, entry in tools.items():
        out += ["", f"[tools.{key}]", *(f"{k} = {toml(v)}" for k, v in entry.items())]
    for key, q in QUESTIONS.items():
        seen = q.get("seen", "its source is in the fit; held_out is our answer without it")
        out += ["", f"[questions.{key}]", *(f"{k} = {toml(q[k])}" for k in ("what", "kind", "unit"))]
        out += [f"seen = {toml(seen)}", *(f"{k} = {toml(v)}" for k, v in known[key].items())]
        said: dict[str, Any] = {"size-it": own[key]}
        said |= {p: {"value": float(about["answers"][key])} for p, about in PAGES.items() if key in about["answers"]}
        said |= {which: a["answers"][key] for which, a in asked.items() if key in a["answers"]}
        out += [f"answers.{which} = {{ " + ", ".join(f"{k} = {toml(v)}" for k, v in a.items()) + " }" for which, a in said.items()]  # fmt: skip
        silent = {p: about["missing"][key] for p, about in PAGES.items() if key not in said and p not in said}
        silent |= {which: MISSING[which][key] for which in asked if which not in said}
        out += [f"missing.{which} = {toml(why)}" for which, why in silent.items()]
    OUT.write_text("\n".join(out) + "\n", encoding="utf-8")
    print(OUT.read_text(encoding="utf-8"))


if __name__ == "__main__":
    sys.path.insert(1, str(ROOT)) if "--inside" not in sys.argv else None
    main()
