"""The meter: what steps wait for, in stats(), as a line of text, and in the formats of other tools."""

from __future__ import annotations

import io
import json
import os
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest

import penstock as ps
from flat import keywords
from penstock import transforms as T
from penstock.loading import live
from penstock.loading import stats as _stats


def make(source, **options) -> ps.Loader:
    return ps.Loader(source, **keywords(**{"batch_size": 4, "num_workers": 2, "output": "numpy",
                                "transforms": [T.Resize((32, 32))]} | options))


def drain(loader: ps.Loader, pause: float = 0.0) -> int:
    n = 0
    for _ in loader:
        n += 1
        time.sleep(pause)
    return n


def test_the_cause_is_named(folder):
    with make(folder, throttle=(0, 0.01), io_threads=1) as slow_storage:
        drain(slow_storage)
        steps = slow_storage.stats()["step"]["epoch"]
        assert steps["cause"] == "fetch" and steps["stall"] > 0.5
        assert steps["causes"]["fetch"] > steps["causes"]["decode"] + steps["causes"]["augment"]
    with make(folder, transforms=[T.Resize((1400, 1400)), T.Normalize(ps.IMAGENET_MEAN, ps.IMAGENET_STD)]) as slow_operations:
        drain(slow_operations)
        assert slow_operations.stats()["step"]["epoch"]["cause"] == "augment"
        assert "augment (2 workers busy" in slow_operations.stats()["step"]["text"]
    with make(folder) as slow_caller:
        drain(slow_caller, 0.05)
        steps = slow_caller.stats()["step"]["epoch"]
        assert steps["stall"] < 0.5
        assert slow_caller.stats()["stages"]["caller"]["work"] > 0.9 * 0.05 * steps["steps"]


@pytest.mark.parametrize("workers", [0, 1, 3])
def test_numbers_agree(folder, workers):
    with make(folder, num_workers=workers) as loader:
        n = drain(loader)
        stats = loader.stats()
        for steps in (stats["step"]["epoch"], stats["step"]["window"]):
            assert steps["steps"] == n
            assert steps["p50"] <= steps["p99"] <= steps["max"] <= steps["seconds"]
            assert steps["seconds"] == pytest.approx(n * steps["mean"])
            assert sum(steps["causes"].values()) == pytest.approx(steps["wait_seconds"], abs=1e-4 * n)
        assert stats["stages"]["handover"]["count"] == n
        assert stats["stages"]["batch"]["count"] == len(loader.dataset)
        assert stats["stages"]["fetch"]["nbytes"] == stats["storage"]["nbytes_read"]
        clocks = stats["worker_clocks"]
        assert len(clocks) == max(workers, 1)
        assert sum(clock["rows"] for clock in clocks) == len(loader.dataset)
        for clock in clocks:
            parts = sum(clock[part] for part in ("fetch", "decode", "augment", "batch", "keep"))
            assert parts == pytest.approx(clock["busy"])
        assert stats["queues"]["now"] == dict.fromkeys(stats["queues"]["now"], 0)
        drain(loader)  # steps are counted by epoch
        assert loader.stats()["step"]["epoch"]["steps"] == n
        assert loader.stats()["stages"]["caller"]["count"] == 2 * n
    assert loader.stats()["stages"]["caller"]["count"] == 2 * n  # after close()


def test_text():
    raw = {"n": 0, "total_ns": 0, "wait_ns": 0, "peers_ns": 0, "max_ns": 0, "wait_max_ns": 0, "mean_ns": 0.0, "sd_ns": 0.0,
           "p50_ns": 0.0, "p99_ns": 0.0, "causes": {"fetch": 0, "decode": 0}}
    assert _stats.stall_text(_stats._step_stats(raw), 0.0, 2) == "no steps yet"
    raw |= {"n": 4, "total_ns": 1000, "wait_ns": 370, "causes": {"fetch": 20, "decode": 350}}
    steps = _stats._step_stats(raw)
    assert _stats.stall_text(steps, 0.99, 2) == "stall 37 %: decode (2 workers busy 99 %)"
    assert _stats.stall_text(steps, 0.99, 1) == "stall 37 %: decode (1 worker busy 99 %)"
    assert _stats.stall_text(steps, 1.0, 0) == "stall 37 %: decode (no workers: the caller busy 100 %)"
    raw |= {"wait_ns": 10}
    assert _stats.stall_text(_stats._step_stats(raw), 0.99, 2) == "stall 1 %"


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_live_line(folder):
    for stream in (io.StringIO(), Terminal()):
        with make(folder) as loader:
            loader._live = live.Live(stream, seconds=0)
            n = drain(loader)
        lines = [line.strip() for line in stream.getvalue().replace("\r", "\n").splitlines() if line.strip()]
        assert len(lines) == n + 1  # a line for each batch, and one at the end
        assert lines[-1].startswith(f"penstock: epoch 1, {n} of {n} batches, ")
        assert "samples/s, step " in lines[-1] and ", stall " in lines[-1]
        assert stream.getvalue().endswith("\n")
    other = io.StringIO()
    with make(folder, rank=1, world_size=2) as loader:
        loader._live = live.Live(other, seconds=0)
        drain(loader)
    assert other.getvalue() == ""  # rank 0 alone


def test_live_is_off_unless_wanted(folder, monkeypatch, capfd):
    monkeypatch.delenv("PENSTOCK_LIVE", raising=False)
    with make(folder) as loader:
        drain(loader)
    assert "penstock: epoch" not in capfd.readouterr().err
    monkeypatch.setenv("PENSTOCK_LIVE", "1")
    with make(folder, live=False) as off, make(folder) as on:
        assert off._live is None
        drain(on)
    assert "penstock: epoch 1, 6 of 6 batches" in capfd.readouterr().err
    monkeypatch.setenv("PENSTOCK_LIVE", "0")
    with make(folder) as off:
        assert off._live is None


def values_of(text: str) -> dict[tuple[str, tuple[tuple[str, str], ...]], float]:
    parser = pytest.importorskip("prometheus_client.parser")
    found = {}
    for family in parser.text_string_to_metric_families(text):
        assert family.documentation and family.type in ("counter", "gauge")
        for sample in family.samples:
            key = (sample.name, tuple(sorted(sample.labels.items())))
            assert key not in found
            found[key] = sample.value
    return found


def test_prometheus_text_is_what_the_collector_gives(folder):
    prometheus = pytest.importorskip("prometheus_client")
    with make(folder, cache="64MiB") as loader:
        drain(loader)
        drain(loader)
        labels = {"job": 'a "b"\\c\nd'}
        mine = values_of(ps.metrics_text(loader, labels))
        registry = prometheus.CollectorRegistry()
        registry.register(ps.metrics.PrometheusCollector(loader, labels))
        theirs = values_of(prometheus.generate_latest(registry).decode())
        assert mine.keys() == theirs.keys()
        clocks = {key for key in mine if "seconds" in key[0]}  # times of workers, which may fall asleep between the two readings
        assert all(theirs[key] >= mine[key] for key in clocks)
        assert all(theirs[key] == mine[key] for key in mine.keys() - clocks)
        own = tuple(labels.items())
        assert mine["penstock_batches_total", own] == 12
        assert mine["penstock_samples_total", (*own, ("result", "delivered"))] == 48
        assert mine["penstock_cache_items_total", (*own, ("result", "hit"))] == 24
        stats = loader.stats()
        assert mine["penstock_stage_seconds_total", (*own, ("kind", "work"), ("stage", "decode"))] == (
            stats["stages"]["decode"]["work"])
        assert 'rank="0"' in ps.metrics_text(loader)


class Scalars(dict):
    def add_scalar(self, tag: str, scalar_value: float, global_step: int) -> None:
        assert isinstance(scalar_value, float) and tag not in self
        self[tag] = (scalar_value, global_step)


def test_scalars_for_tensorboard(folder):
    with make(folder) as loader:
        ps.metrics.log_scalars(Scalars(), loader, 0)  # also before the first step
        drain(loader)
        seen = Scalars()
        ps.metrics.log_scalars(seen, loader, 17, prefix="data")
        window = loader.stats()["step"]["window"]
    assert seen["data/step/mean"] == (window["mean"], 17)
    assert seen["data/stall"] == (window["stall"], 17)
    assert seen["data/samples_per_second"][0] == pytest.approx(4 / window["mean"])
    assert sum(value for tag, (value, _) in seen.items() if tag.startswith("data/stall/")) == pytest.approx(
        window["stall"], abs=0.01)


def spans_by_thread(events: list[dict]) -> dict[int, list[dict]]:
    threads: dict[int, list[dict]] = {}
    for event in events:
        if event.get("ph") == "X":
            threads.setdefault(event["tid"], []).append(event)
    return threads


def check_nesting(spans: list[dict]) -> None:
    """Checks that the spans of one thread are nested or disjoint."""
    open_ends: list[float] = []
    for span in sorted(spans, key=lambda span: (span["ts"], -span["dur"])):
        end = span["ts"] + span["dur"]
        while open_ends and open_ends[-1] <= span["ts"] + 1e-2:
            open_ends.pop()
        assert not open_ends or end <= open_ends[-1] + 1e-2, span
        open_ends.append(end)


@pytest.mark.parametrize("workers", [0, 2])
def test_trace(folder, tmp_path, workers):
    path = tmp_path / "trace.json"
    with make(folder, num_workers=workers, trace=path) as loader:
        n = drain(loader)
    events = json.loads(path.read_text())
    threads = spans_by_thread(events)
    for spans in threads.values():
        check_nesting(spans)
    names = [event["name"] for event in events if event.get("ph") == "X"]
    assert names.count("row") == names.count("decode") == len(loader.dataset)
    assert names.count("wait for a batch") == n + 1 and names.count("step") == n
    rows = [event for spans in threads.values() for event in spans if event["name"] == "row"]
    assert sorted(row["args"]["sample"] for row in rows) == list(range(len(loader.dataset)))
    assert all(row["args"]["step"] == row["args"]["sample"] // 4 for row in rows)
    assert {event["tid"] for event in rows} <= ({1, 2} if workers else {0})
    begun, ended = ([e["id"] for e in events if e.get("ph") == ph] for ph in "be")
    assert sorted(begun) == sorted(ended) and len(begun) == (len(loader.dataset) if workers else 0)
    counters = [event for event in events if event.get("ph") == "C"]
    assert {event["name"] for event in counters} == {"batches ready", "rows ready"}
    assert {e["args"]["name"] for e in events if e.get("name") == "thread_name"} >= {"caller"}


def test_trace_by_the_environment(folder, tmp_path, monkeypatch):
    monkeypatch.setenv("PENSTOCK_TRACE", str(tmp_path / "t-%p.json"))
    with make(folder) as first, make(folder) as second, make(folder, trace="") as none:
        for loader in (first, second, none):
            drain(loader)
    names = sorted(path.name for path in tmp_path.iterdir())
    assert names == [f"t-{os.getpid()}.json", f"t-{os.getpid()}.json.2"]
    for name in names:
        json.loads((tmp_path / name).read_text())
    monkeypatch.setenv("PENSTOCK_TRACE", str(tmp_path / "missing" / "t.json"))
    with pytest.raises(ps.PenstockError, match="missing"):
        make(folder)


def test_a_killed_process_leaves_a_trace(folder, tmp_path):
    path = tmp_path / "killed.json"
    code = textwrap.dedent(f"""
        import os, signal, time
        import penstock as ps
        loader = ps.Loader({str(folder)!r}, batch_size=4, num_workers=2, output="numpy", watch=ps.Watch(trace={str(path)!r}))
        for _ in range(20):
            for batch in loader:
                time.sleep(0.01)
        os.kill(os.getpid(), signal.SIGKILL)
    """)
    done = subprocess.run([sys.executable, "-c", code], check=False, timeout=120)
    assert done.returncode == -signal.SIGKILL
    text = path.read_text()
    assert text.endswith("},\n")
    events = json.loads(text.rstrip().rstrip(",") + "]")  # viewers accept the incomplete file
    for spans in spans_by_thread(events).values():
        check_nesting(spans)
    assert sum(event["name"] == "row" for event in events) > 24


def test_nvtx_is_not_needed(folder, monkeypatch):
    monkeypatch.setenv("PENSTOCK_NVTX", "/no/such/libnvToolsExt.so")
    with pytest.raises(ps.PenstockError, match="PENSTOCK_NVTX"):
        make(folder)
    monkeypatch.setenv("PENSTOCK_NVTX", "0")
    with make(folder) as loader:
        assert drain(loader) == 6


def rank(number: int, own: float, data: float, peers: float, cause: str = "") -> ps.metrics.RankSteps:
    return {"rank": number, "steps": 10, "step": own + data + peers, "own": own, "data": data, "peers": peers, "cause": cause}


def test_stragglers():
    report = ps.metrics.straggler([rank(1, 0.1, 0.05, 0.0, "decode"), rank(0, 0.1, 0.0, 0.05), rank(2, 0.1, 0.0, 0.05)])
    assert report["straggler"] == 1
    assert report["text"] == "rank 1 is 50.0 ms a step behind the median rank: waiting for data (decode)"
    assert [steps["rank"] for steps in report["ranks"]] == [0, 1, 2]
    report = ps.metrics.straggler([rank(0, 0.1, 0.0, 0.05), rank(1, 0.15, 0.0, 0.0)])
    assert report["straggler"] == 1 and report["text"].endswith("its own computation")
    report = ps.metrics.straggler([rank(0, 0.1, 0.0, 0.002), rank(1, 0.102, 0.0, 0.0)])
    assert report["straggler"] is None and report["text"] == "no straggler among 2 ranks"
    report = ps.metrics.straggler([rank(0, 0.1, 0.0, 0.0), rank(1, 0.1, 0.0, 0.0)])
    assert "no waiting for other ranks was marked" in report["text"]
    assert ps.metrics.straggler([rank(0, 0.1, 0.0, 0.0)])["straggler"] is None


def test_waiting_for_peers_is_told_apart(folder):
    with make(folder) as loader:
        for _ in loader:
            with loader.waiting_for_peers():
                time.sleep(0.01)
        steps = loader.stats()["step"]["epoch"]
        assert steps["peers_seconds"] >= 0.01 * steps["steps"]
        assert steps["peers_seconds"] + steps["wait_seconds"] <= steps["seconds"]
        report = ps.metrics.rank_report(loader)
        assert report["straggler"] is None
        assert report["ranks"][0]["peers"] == pytest.approx(steps["peers_seconds"] / steps["steps"])
    with loader.waiting_for_peers():  # nothing is counted after close()
        pass


RANK_PROGRAM = """
import sys, time
import torch.distributed as dist
import penstock as ps
rank, store, source = int(sys.argv[1]), sys.argv[2], sys.argv[3]
dist.init_process_group("gloo", init_method="file://" + store, rank=rank, world_size=2)
with ps.Loader(source, batch_size=4, num_workers=1, output="numpy", fields=["label"]) as loader:
    for batch in loader:
        time.sleep(0.1 * rank)  # rank 1 computes longer
        with loader.waiting_for_peers():
            dist.barrier()
    report = ps.metrics.rank_report(loader)
print(report["straggler"], report["text"])
dist.destroy_process_group()
"""


def test_the_straggler_of_real_ranks(folder, tmp_path):
    pytest.importorskip("torch")
    script = tmp_path / "rank.py"
    script.write_text(RANK_PROGRAM)
    command = [sys.executable, str(script)]
    ranks = [subprocess.Popen([*command, str(i), str(tmp_path / "store"), str(folder)], stdout=subprocess.PIPE, text=True)
             for i in range(2)]
    for process in ranks:
        output, _ = process.communicate(timeout=240)
        assert process.returncode == 0
        assert output.startswith("1 rank 1 is ") and output.rstrip().endswith("its own computation")


def test_a_fork_has_a_meter_of_its_own(folder):
    with make(folder) as loader:
        drain(loader)
        child = os.fork()
        if child == 0:
            os._exit(0 if loader.stats()["step"]["epoch"]["steps"] == 0 and drain(loader) == 6 else 1)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def test_metrics_are_found_lazily():
    assert ps.metrics.metrics_text is ps.metrics_text
    assert Path(ps.metrics.__file__).name == "metrics.py"
