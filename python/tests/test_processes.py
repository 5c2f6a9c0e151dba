"""Exit, signals, fork, spawn and garbage collection in any order, each test in a process of its own."""

from __future__ import annotations

import pytest

HEAD = """
import os, sys, gc, signal, threading, time, multiprocessing as mp
import numpy as np
import penstock as ps
from penstock import transforms as T
def make(**o):
    return ps.Loader(packed, **{"batch_size": 3, "shuffle": True, "seed": 1, "output": "numpy",
                                "transforms": {"image": [T.RandomResizedCrop(16)]}, **o})
def text(batches):
    import hashlib
    return [(b["index"].tolist(), hashlib.sha256(b["image"].tobytes()).hexdigest()) for b in batches]
"""


@pytest.fixture
def script(run):
    import textwrap

    def call(source: str, **options: object) -> str:
        return run(HEAD + textwrap.dedent(source), **options)

    return call


@pytest.mark.parametrize("end", ["pass", "sys.exit(0)", "del loader", "del batch", "loader.close()",
                                 "del batches; gc.collect()", "cycle = [loader]; cycle.append(cycle)",
                                 "sys.modules['keep'] = (loader, batches, batch)",
                                 "os._exit(0)"])
def test_exit_with_everything_alive(script, end):
    script(f"""
        loader = make(prefetch=4); other = make(num_workers=0)
        batches = iter(loader); batch = next(batches); also = next(iter(other))
        image = batch["image"]
        {end}
    """)


def test_exit_with_torch_tensors_alive(script):
    script("""
        import torch
        loader = make(output="torch", prefetch=4)
        kept = [b["image"][0] for b in loader]
        torch.kept = kept
        batches = iter(loader); next(batches)
    """)


def test_exit_while_a_daemon_thread_waits(script):
    script("""
        loader = make(reading=ps.Reading(throttle=(0, 5.0)), num_workers=1)
        def wait():
            try:
                next(iter(loader))
            except ps.PenstockError:
                pass
        threading.Thread(target=wait, daemon=True).start()
        time.sleep(0.3)
    """, timeout=60)


def test_garbage_in_any_order(script):
    script("""
        import itertools
        for order in itertools.permutations(range(4)):
            loader = make(num_workers=1)
            batches = iter(loader)
            batch = next(batches)
            things = [loader, batches, batch, batch["image"]]
            del loader, batches, batch
            for i in order:
                things[i] = None
                gc.collect()
    """)


@pytest.mark.parametrize("where", ["next", "fetch_lock", "verify"])
def test_ctrl_c_while_waiting(script, where):
    """Every read takes 100 s, so a process that ends within 60 s was interrupted."""
    out = script(f"""
        where = {where!r}
        loader = make(reading=ps.Reading("threads", throttle=(0, 100.0), io_threads=1), num_workers=1, batch_size=8)
        def interrupt():
            time.sleep(0.3)
            os.kill(os.getpid(), signal.SIGINT)
        if where == "fetch_lock":
            threading.Thread(target=lambda: loader.fetch([0, 1, 2, 3]), daemon=True).start()
            time.sleep(0.1)
        threading.Thread(target=interrupt).start()
        begun = time.monotonic()
        try:
            if where == "next":
                next(iter(loader))
            elif where == "verify":
                def slow(*counts): time.sleep(0.05)
                while True:
                    ps.verify(packed, decode=True, progress=slow)
            else:
                loader.fetch([1])
            print("not interrupted")
        except KeyboardInterrupt:
            print("interrupted", time.monotonic() - begun < 60, flush=True)
        if where == "fetch_lock":
            os._exit(0)  # the other thread's reads take minutes yet
        loader.close()
    """)
    assert out.split() == ["interrupted", "True"]


@pytest.mark.parametrize("call", ["fetch(range(24))", "replay(0)"])
def test_ctrl_c_in_a_batch_made_here(script, call):
    """Signals are checked between rows. A row takes 5 s here, and all rows 120 s."""
    out = script(f"""
        loader = make(reading=ps.Reading("threads", throttle=(0, 5.0)), num_workers=1, batch_size=24)
        def interrupt():
            time.sleep(0.3)
            os.kill(os.getpid(), signal.SIGINT)
        threading.Thread(target=interrupt).start()
        begun = time.monotonic()
        try:
            loader.{call}
            print("not interrupted")
        except KeyboardInterrupt:
            print("interrupted", time.monotonic() - begun < 60)
        loader.close()
    """)
    assert out.split() == ["interrupted", "True"]


def test_ctrl_c_loses_no_batch(script):
    out = script("""
        loader = make(reading=ps.Reading("threads", throttle=(0, 1.0), io_threads=1), num_workers=1, batch_size=8)
        batches = iter(loader)
        def interrupt():
            time.sleep(0.3)
            os.kill(os.getpid(), signal.SIGINT)
        threading.Thread(target=interrupt).start()
        try:
            next(batches)
            print("not interrupted")
        except KeyboardInterrupt:
            print(next(batches)["index"].tolist() == make(batch_size=8).replay(0)["index"].tolist())
        loader.close()
    """)
    assert out.split() == ["True"]


@pytest.mark.parametrize("num_workers", [0, 2])
def test_ctrl_c_under_a_throttle(script, num_workers):
    """Hours of throttled reads are queued. Neither Ctrl-C nor close waits for them."""
    out = script(f"""
        loader = make(reading=ps.Reading(throttle=(1, 0)), num_workers={num_workers})
        def interrupt():
            time.sleep(0.3)
            os.kill(os.getpid(), signal.SIGINT)
        threading.Thread(target=interrupt).start()
        begun = time.monotonic()
        try:
            next(iter(loader))
            print("not interrupted")
        except KeyboardInterrupt:
            print("interrupted", time.monotonic() - begun < 60)
        begun = time.monotonic()
        loader.close()
        print("closed", time.monotonic() - begun < 60)
    """)
    assert out.split() == ["interrupted", "True", "closed", "True"]


def test_ctrl_c_ends_a_pack_that_resumes(script):
    out = script("""
        import shutil, tempfile
        place = tempfile.mkdtemp() + "/out.pst"
        calls = []
        def slow(*counts):
            calls.append(counts)
            if len(calls) == 1:
                os.kill(os.getpid(), signal.SIGINT)
        try:
            ps.pack(folder, place, progress=slow)
            print("not interrupted")
        except KeyboardInterrupt:
            print("interrupted")
        report = ps.pack(folder, place, resume=True)
        assert report.n_samples == 24, report
        assert ps.verify(place, decode=True).ok
        shutil.rmtree(os.path.dirname(place))
    """)
    assert out.split() == ["interrupted"]


def test_fork_with_a_running_loader(script):
    script("""
        wanted = text(make())
        loader = make(prefetch=3)
        batches = iter(loader)
        first = [next(batches), next(batches)]
        pid = os.fork()
        if pid == 0:
            try:
                assert text(first + list(batches)) == wanted  # goes on where it stood
                assert loader.epoch == 1 and len(list(loader)) == len(loader)
                assert loader.stats()["batches"] > 0
                del first, batches, loader
                gc.collect()
                os._exit(0)
            except BaseException:
                import traceback
                traceback.print_exc()
            os._exit(1)
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
        assert text(first + list(batches)) == wanted
    """)


def test_fork_then_leave_everything_alone(script):
    # The child runs the interpreter's whole shutdown while it still holds the parent's objects.
    script("""
        loader = make(prefetch=3)
        batches = iter(loader)
        batch = next(batches)
        writer = ps.Writer(packed + ".forked", {"x": "int"})
        writer.write({"x": 1})
        pid = os.fork()
        if pid == 0:
            del batch
            try:
                writer.write({"x": 2})
            except ps.errors.ForkedError:
                sys.exit(0)
            sys.exit(1)
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
        assert len(list(batches)) == len(loader) - 1
        writer.write({"x": 3})
        writer.finish()
        assert [s["x"] for s in ps.Dataset(packed + ".forked")] == [1, 3]
        import shutil; shutil.rmtree(packed + ".forked")
    """)


@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_multiprocessing(run, tmp_path, method):
    file = tmp_path / "job.py"
    file.write_text(
        '''
import sys, multiprocessing as mp
import penstock as ps

def work(loader, dataset, queue):
    queue.put(([b["index"].tolist() for b in loader], dataset.name(3), loader.epoch))

if __name__ == "__main__":
    method, packed = sys.argv[1:]
    context = mp.get_context(method)
    dataset = ps.Dataset(packed)
    loader = ps.Loader(dataset, batch_size=3, shuffle=True, seed=1, output="numpy", fields=["label"])
    wanted = [b["index"].tolist() for b in loader]
    loader.set_epoch(0)
    batches = iter(loader)
    assert next(batches)["index"].tolist() == wanted[0]
    queue = context.Queue()
    # Fork: the loader itself, which begins the epoch again, as only one batch of it was taken. Spawn: its pickle,
    # which carries the state.
    process = context.Process(target=work, args=(loader, dataset, queue))
    process.start()
    got, name, epoch = queue.get(timeout=60)
    process.join(60)
    assert process.exitcode == 0
    assert name == dataset.name(3)
    if method == "fork":
        assert epoch == 1 and got == wanted, (got, wanted)
    else:
        assert epoch == 1 and got == wanted[1:], (got, wanted)
    assert [b["index"].tolist() for b in batches] == wanted[1:]
'''
    )
    run(f"""
        import subprocess, sys
        done = subprocess.run([sys.executable, {str(file)!r}, {method!r}, packed], timeout=100)
        assert done.returncode == 0
    """)


def test_exceptions_unwind_with_batches_in_frames(script):
    script("""
        def deep(batches, n):
            batch = next(batches)
            if n == 0:
                raise ValueError("user's own")
            deep(batches, n - 1)
        loader = make()
        for _ in range(20):
            try:
                deep(iter(loader), 3)
            except ValueError as error:
                kept = error
        assert loader.stats()["memory"]["slots_held"] == 4
        del kept, error if False else kept
        gc.collect()
        assert loader.stats()["memory"]["slots_held"] == 0
    """.replace("del kept, error if False else kept", "del kept"))
