"""Chapter 17, request simulation."""

from typing import Any

from mlsysim import capacity, catalog, inference, memory, serving, units
from mlsysim.evidence.measured.memory import server_starts
from mlsysim.memory.server_ranges import server_quantiles
from mlsysim.serving import fleet
from mlsysim.serving_steps import TIER_0, Batch, step_model

_OSS_LEFT = -2.14 * 2**30  # vllm2025h100oss: what the log of a server without FlashInfer's sampler has left for cache
_PRINTED = {"llama": ("Llama-2-7B", 7438), "coder": ("CodeLlama-34B", 2537)}  # blis2026logs


def _within(part: str) -> str:
    """How far a log may lie from the prediction of a part of a server's memory."""
    return units.percent(server_quantiles(part).width - 1.0, 1, signed=False)


def _gib(size: float) -> str:
    return f"{size / units.GiB:.2f} GiB".replace("-", "\N{MINUS SIGN}")


def numbers() -> dict[str, Any]:
    """Every number in the prose of chapter 17."""

    def time(value: float | None) -> str:
        return units.format(value or 0.0, "s", 3)

    small = step_model(inference.deploy("Llama-3.1-8B", "H100"), TIER_0)
    crowd = [serving.Request(0.0, 500, 400) for _ in range(32)]
    long = serving.Request(1.0, 8000, 100)
    stall: dict[str, Any] = {"plain": time(small.time(Batch.of(small.model, decodes=[700.0] * 32)))}
    for budget in (8192, 512):
        config = serving.Config(max_num_batched_tokens=budget, max_num_seqs=64)
        s = serving.simulate(small, [*crowd, long], config, keep_steps=True)
        stall[f"gap_{budget}"] = time(max(x.duration for x in s.log if x.start >= long.arrival))
        stall[f"first_{budget}"] = time(s.records[-1].ttft_s)
        stall[f"steps_{budget}"] = f"{serving.prompt_steps(8000.0, budget, 32.0):.0f}"

    blocks: dict[str, Any] = {}
    for key, (name, printed) in _PRINTED.items():
        d = inference.deploy(name, "H100")
        room = d.server_memory(max_num_batched_tokens=4096, max_num_seqs=256, engine_version="0.11.0")
        reserve = room.activations + room.runtime
        decimal = capacity.kv_budget(80e9, d.weight_memory, 1.0, 0.9, reserve) // (16 * d.token_bytes)
        blocks[key] = {"error": units.percent(room.blocks / printed - 1)}
        if key == "coder":
            blocks[key]["lost"] = units.percent(1 - decimal / printed, 0, signed=False)

    worst = dict.fromkeys(("weights", "activation", "kv"), 0.0)
    for start in server_starts().values():
        for name, error in start.errors.items():
            part = name.partition("_")[0]
            if name != "kv_pool_bytes" and part in worst:
                worst[part] = max(worst[part], abs(error))
    peaks = [
        memory.server_memory("Qwen3-14B", "H100", engine_version=v, max_num_seqs=1024).activations
        for v in ("0.16.0", "0.17.0")
    ]
    sorted_, unsorted = (memory.server_memory("gpt-oss-120B", "H100", engine_version=v) for v in ("0.11.1", "0.10.2"))
    held_by = {
        "oss_left": _gib(sorted_.kv_pool),
        "oss_logged": _gib(_OSS_LEFT),
        "oss_room": _gib(unsorted.kv_pool),
        "oss_longest": f"{131072:,}",
        "oss_served": f"{32768:,}",
        "weights": units.percent(worst["weights"], 1, signed=False),
        "activations": units.percent(worst["activation"], 0, signed=False),
        "tokens": units.percent(worst["kv"], 1, signed=False),
        "sorted": units.format(peaks[0] - peaks[1], "byte", 2),
        "models": str(server_quantiles("weights").groups),
        "nominal": units.percent(server_quantiles("weights").nominal, 0, signed=False),
        **{f"{part}_range": _within(part) for part in ("weights", "activations", "taken")},
    }

    trace, target = catalog.trace("azure-conversation-2023"), catalog.target("mlperf-llama2-70b-interactive")
    server = step_model(inference.deploy("Llama-3.1-70B", "H100", tp=4), TIER_0)
    held = capacity.held_tokens(trace.input_len.value, trace.output_len.value, trace.output_variation.value)

    def alone(input_len: float) -> float:
        return float(server.time(Batch.of(server.model, [(input_len, 0)])))

    replica = capacity.replica(
        lambda n: float(server.time(Batch(decodes=float(n), context=n * held, windowed_context=n * held))),
        256,
        prefill_time=alone(round(trace.input_len.value)),
        output_len=trace.output_len.value,
        variation=trace.output_variation.value,
        prompt_variation=trace.prompt_variation.value,
    )
    aims: dict[str, Any] = {"ttft": target.ttft.value, "itl": target.itl.value}
    places = replica.batch_in_pace(aims["itl"])
    best = capacity.max_rate(replica.with_max_running(places), **aims)
    drawn = serving.lengths(trace.input_len.value, 20_000, trace.prompt_variation.value, seed=3)
    longest = serving.quantile([float(n) for n in drawn], 0.99)
    config = serving.Config(max_num_seqs=places)

    def played(rate: float, count: int, seed: int, **more: Any) -> serving.Simulation:
        load = serving.load(
            serving.poisson(rate, count, seed),
            serving.lengths(trace.input_len.value, count, trace.prompt_variation.value, seed + 1),
            serving.lengths(trace.output_len.value, count, trace.output_variation.value, seed + 2),
        )
        return serving.simulate(server, load, config, **more)

    at = {rate: played(rate, 1000, 1) for rate in (2.0, 4.0, 5.0)}
    closed = {rate: capacity.load(replica.with_max_running(places), rate, **aims) for rate in at}

    def slow(rate: float) -> dict[str, str]:
        """By how much the closed form is slower than the simulator: pace, and time to the last token."""
        done = at[rate].served
        gaps = sum(r.request.output_len - 1 for r in done)
        pace = sum(r.finished - r.first_token for r in done) / gaps
        last = sum(r.finished - r.request.arrival for r in done) / len(done)
        return {
            "pace": units.percent(closed[rate].itl / pace - 1, 0, signed=False),
            "last": units.percent(closed[rate].e2e / last - 1, 0, signed=False),
        }

    early = {
        rate: serving.quantile([v for seed in (1, 2, 3) for v in played(rate, 2000, 10 * seed).values("ttft_s")], 0.99)
        for rate in (0.5, 1.0)
    }

    def more(rate: float) -> str:
        """By how much more sequences run in the closed form."""
        done = at[rate]
        inside = sum(r.finished - r.scheduled for r in done.served) / done.makespan
        return units.percent(closed[rate].running / inside - 1, 0, signed=False)

    step = float(small.time(Batch.steady(64, 1000, 200)))
    full = float(serving.saturation_rate(64.0, 199.0, 8192.0, 1000.0, step))
    alike = serving.load(serving.constant(100.0, 1200), 1000, 200)
    squeezed = serving.Config(max_num_batched_tokens=256, max_num_seqs=64)
    tight = serving.saturation(small, alike, squeezed)
    if tight is None:
        raise AssertionError("chapter 17 says where a budget of 256 tokens saturates")
    ends = serving.simulate(small, alike, squeezed).records.finished
    tight_rate = 400 / (ends[799] - ends[399])
    crowd_of_equals = serving.load(serving.constant(1.3 * full, 1200), 1000, 200)
    crowded = serving.simulate(small, crowd_of_equals, serving.Config(max_num_seqs=64), keep_steps=True)
    burst, most = crowded.records, max(s.prefill_tokens + s.decode_tokens for s in crowded.log)
    done_rate = 400 / (burst[799].finished - burst[399].finished)
    samples = [played(4.0, 1000, 10 * k).values("ttft_s")[:50] for k in (1, 2, 3, 4)]
    few = [serving.quantile(values, 0.99) for values in samples]
    short = [r for r in played(5.5, 1000, 1).served if 2 <= r.request.output_len < 20]
    both = [sum(getattr(r, m) for r in short) / len(short) for m in ("e2e_per_token_s", "itl_s")]
    routed = {
        name: serving.quantile(played(21.0, 1200, 3, replicas=4, routing=name).values("ttft_s"), 0.99)
        for name in ("round-robin", "fewest-queued")
    }
    return {
        "stall": stall,
        "blocks": blocks,
        "held": held_by,
        "service": {
            "places": f"{places}",
            "closed": f"{best.rate:.1f}",
            "prompt": time(replica.prefill_time),
            "long_tokens": f"{round(longest, -2):,.0f}",
            "long": time(alone(longest)),
            "slow_2": slow(2.0),
            "slow_4": slow(4.0),
            "target": time(aims["ttft"]),
            "more_2": more(2.0),
            "more_5": more(5.0),
            "p99_half": time(early[0.5]),
            "p99_one": time(early[1.0]),
            "p99_2": time(at[2.0].summary()["ttft_s"]["p99"]),
            "closed_2": time(closed[2.0].ttft_quantile),
            "p99_5": time(at[5.0].summary()["ttft_s"]["p99"]),
            "closed_5": time(closed[5.0].ttft_quantile),
        },
        "full": {
            "step": time(step),
            "rate": f"{full:.1f}",
            "most": f"{most:,}",
            "tight_running": f"{tight.running:.0f}",
            "tight_rate": f"{tight.capacity:.1f}",
            "tight_off": units.percent(abs(tight.capacity / tight_rate - 1), 2, signed=False),
            "above": units.percent(full / done_rate - 1, 0, signed=False),
        },
        "few": {"low": time(min(few)), "high": time(max(few))},
        "tpot": {"ratio": f"{both[0] / both[1]:.1f}"},
        "fleet": _fleet(time),
        "routing": {"turn": time(routed["round-robin"]), "queued": time(routed["fewest-queued"])},
    }


def _fleet(time: Any) -> dict[str, Any]:
    """The same readers beside a pool for prompts; chats on four replicas; drafted tokens; servers that come late."""
    small = step_model(inference.deploy("Llama-3.1-8B", "H100"), TIER_0)
    one = fleet.Servers((fleet.ModelReplica(small, serving.Config(max_num_seqs=64)),))
    long = fleet.single([serving.Request(0.0, 8000, 2)])
    crossing = fleet.run(fleet.Fleet(one, one, fleet.Link(50e9)), long)
    answer = small.time(Batch.of(small.model, decodes=[8001.0]))
    r = crossing.records[0]

    def exposed(bandwidth: float, layers: int = 1) -> float:
        """What a request waits between its first token and the step of its second."""
        link = fleet.Link(bandwidth, layers=layers)
        played = fleet.run(fleet.Fleet(one, one, link), long).records[0]
        return float(played.finished - played.first_token - answer)

    layers = small.model.n_layers

    talks = fleet.chats(4.0, 200, turns=5.0, pause=10.0, shared_len=1000, texts=8, seed=1)
    four = fleet.Servers(one.hosted, replicas=4)
    bare = fleet.run(fleet.Fleet(four), talks)
    kept = {
        name: fleet.run(fleet.Fleet(four, router=fleet.Router(name), cache=fleet.Cache()), talks)
        for name in ("round-robin", "prefix")
    }

    def pace(concurrency: int, speculation: fleet.Speculation | None) -> float:
        load = fleet.single([serving.Request(0.0, 500, 200)] * (2 * concurrency))
        hosted = fleet.ModelReplica(small, serving.Config(max_num_seqs=512), speculation)
        return fleet.run(fleet.Fleet(fleet.Servers((hosted,))), load, concurrency=concurrency).tokens_per_s

    drafts = fleet.Speculation((0.8, 0.6, 0.4), draft_share=1.0 / small.model.n_layers)
    gains = {f"gain_{n}": f"{pace(n, drafts) / pace(n, None):.2f}" for n in (1, 256)}

    surge = fleet.single(
        [
            *serving.load(serving.poisson(8.0, 480, 4), 1000, 200),
            *serving.load([60.0 + t for t in serving.poisson(60.0, 3600, 5)], 1000, 200),
        ]
    )
    late = {
        f"p99_{start}": time(
            serving.quantile(
                fleet.run(
                    fleet.Fleet(
                        fleet.Servers(
                            one.hosted, autoscaler=fleet.Autoscaler(1, 8, target=32.0, start_up=float(start), every=5.0)
                        )
                    ),
                    surge,
                ).values("ttft_s"),
                0.99,
            )
        )
        for start in (5, 60)
    }
    return {
        "size": units.format(crossing.moved_bytes, "byte", 3),
        "crossing": time(r.finished - r.first_token - answer),
        "layers": str(layers),
        "layer_time": time(r.first_token / layers),
        "layer_crossing": time(crossing.moved_bytes / layers / 50e9),
        "last_layer": time(exposed(50e9, layers)),
        "slow": time(exposed(1e9)),
        "slow_layers": time(exposed(1e9, layers)),
        "slow_crossing": time(crossing.moved_bytes / layers / 1e9),
        "found_turn": units.percent(kept["round-robin"].found_share, 0, signed=False),
        "found_prefix": units.percent(kept["prefix"].found_share, 0, signed=False),
        "first_bare": time(serving.quantile(bare.values("ttft_s"), 0.5)),
        "first_prefix": time(serving.quantile(kept["prefix"].values("ttft_s"), 0.5)),
        "yields": f"{drafts.tokens:.2f}",
        **gains,
        **late,
    }
