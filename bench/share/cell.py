"""cell.py KIND ROOT N_JOBS --build DIR [--epoch]: n jobs of one kind at once. Prints one JSON line.

Starts the kind's service, if it has one, and the jobs; waits until each has taken its checked batches; then counts for
--seconds what all of them take together. CPU seconds, bytes read and memory are those of all processes of the cell. Processes that
do not end by themselves within DEADLINE_S are killed, and the line says so.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent)]
import runner  # noqa: E402
import environments  # noqa: E402
import job  # noqa: E402
import kinds  # noqa: E402
from counts import Counts  # noqa: E402
from runner import Process, Unavailable  # noqa: E402
from runner.cell import of_tree  # noqa: E402

START_S, DEADLINE_S, END_S = 120.0, 90.0, 20.0
EPOCH_S = 300.0
WARM_BATCHES = job.CHECKED + 2


def tree_io() -> int:
    """Returns the bytes that the cell's processes have read by system calls: from files, and from pipes between processes."""
    return of_tree("io", lambda text: int(text.split("rchar: ")[1].split()[0]))


def tree_pss() -> int:
    """Returns the memory of service and jobs in bytes (PSS: pages that several processes map are counted once)."""
    return 1024 * of_tree("smaps_rollup", lambda text: int(text.split("\nPss:")[1].split()[0]), without=os.getpid())


def start_service(args, kind: kinds.Kind, folder: Path, env: dict) -> Process | None:
    python = environments.python_of(args.build, kind.environment)
    if args.kind == "penstock_share":
        socket = Path(env["PENSTOCK_SOCKET"])
        service = Process("penstock serve", [str(python.parent / "penstock"), "serve", *args.serve.split()], env)
        deadline = time.monotonic() + START_S
        while not socket.exists():
            if time.monotonic() > deadline:
                raise Unavailable(f"penstock serve made no socket: {service.error()}")
            time.sleep(0.05)
        return service
    if not kind.serves:
        return None
    service = Process("the service", [str(python), str(HERE / "service.py"), args.kind, str(args.root), str(args.n_jobs),
                                      str(args.threads), str(folder)], env)
    service.line("ready", time.monotonic() + START_S)
    return service


def start_jobs(args, kind: kinds.Kind, folder: Path, env: dict) -> list[Process]:
    # Starts the jobs. If each job has a loader of its own, they divide the cores among them, as a careful user would.
    threads = args.threads if kind.shares else max(1, args.threads // args.n_jobs)
    python = environments.python_of(args.build, kind.environment)
    return [Process(f"job {i}", [str(python), str(HERE / "job.py"), args.kind, str(args.root), str(args.n_jobs), str(i),
                                 str(threads), str(folder), *(["--epoch"] if args.epoch else [])], env)
            for i in range(args.n_jobs)]


def wait_for_all(counts: Counts, n_batches: int, deadline: float, processes: list[Process]) -> None:
    while any(counts.n_taken(i) < n_batches for i in range(counts.n_jobs)):
        for process in processes:
            process.check_alive()
        if time.monotonic() > deadline:
            taken = [counts.n_taken(i) for i in range(counts.n_jobs)]
            raise Unavailable(f"the jobs had taken {taken} batches after {DEADLINE_S:.0f} s, wanted {n_batches} each; killed")
        time.sleep(0.01)


def window(args, counts: Counts, batch: int) -> dict:
    read, meter, start = tree_io(), runner.Meter(), time.monotonic()
    time.sleep(args.seconds)
    end, spent, read = time.monotonic(), meter.spent(), tree_io() - read
    time.sleep(0.5)  # waits for the end of batches under way, because taken_at interpolates between two batches
    each = [(counts.taken_at(i, end) - counts.taken_at(i, start)) * batch for i in range(counts.n_jobs)]
    wall, images = spent.wall_s, sum(each)
    if min(each) <= 0:
        raise Unavailable(f"a job took nothing for {wall:.1f} s: {[round(x) for x in each]} images")
    return {"images_per_s": images / wall, "slowest_job": min(each) / wall, "fastest_job": max(each) / wall,
            "cpu_s_per_image": spent.cpu_s / images, "cores_used": spent.cpu_s / wall, "read_per_image": read / images,
            "foreign": spent.foreign_cores, "pss_mb": tree_pss() / 1e6}


def ended(jobs: list[Process], service: Process | None, within_s: float) -> tuple[list[dict], dict]:
    deadline = time.monotonic() + within_s
    reports, told = [], {}
    for process in jobs:
        try:
            reports.append(json.loads(process.line("{", deadline)))
        except Unavailable as reason:  # the job seems to wait for ever
            reports.append({"late": str(reason)})
    if service is not None and service.what == "the service":
        service.end_input()
        try:
            told = json.loads(service.line("{", deadline))
        except Unavailable as reason:
            told = {"late": str(reason)}
    return reports, told


def measure(args, kind: kinds.Kind, folder: Path) -> dict:
    env = dict(os.environ, PYTHONPATH=f"{HERE}:{HERE.parent}:{HERE.parent / 'loader'}", OMP_NUM_THREADS="1",
               PENSTOCK_SOCKET=str(folder / "host.sock"))
    counts = Counts(folder / "counts", args.n_jobs, create=True)
    service, jobs = None, []
    try:
        service = start_service(args, kind, folder, env)
        jobs = start_jobs(args, kind, folder, env)
        for process in jobs:
            made = json.loads(process.line("{", time.monotonic() + START_S))
            if "absent" in made:
                return made
        for process in jobs:
            process.say("go")
        found: dict = {}
        if not args.epoch:
            work = kinds.setting_of(args.root, 1, 0, 1, folder).work
            batch = work.batch
            before = len(work.files()) // batch if args.later else 0
            wait_for_all(counts, before + WARM_BATCHES, time.monotonic() + DEADLINE_S,
                         [*jobs, *([service] if service else [])])
            found = window(args, counts, batch)
            counts.stop()
        reports, told = ended(jobs, service, EPOCH_S if args.epoch else END_S)
    finally:
        for process in [*jobs, *([service] if service else [])]:
            process.kill()
    return {**found, "jobs": reports, "service": told}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("kind", choices=kinds.KINDS)
    parser.add_argument("root", type=Path)
    parser.add_argument("n_jobs", type=int)
    parser.add_argument("--build", type=Path, required=True)
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--seconds", type=float, default=6.0)
    parser.add_argument("--serve", default="", help="options of `penstock serve`")
    parser.add_argument("--epoch", action="store_true", help="each job takes one epoch; counts, no times")
    parser.add_argument("--later", action="store_true", help="count after the first epoch of every job")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="penstock-share-") as folder:
        try:
            found = measure(args, kinds.KINDS[args.kind], Path(folder))
        except Unavailable as reason:
            found = {"failed": str(reason)}
    print(json.dumps(found), flush=True)


if __name__ == "__main__":
    main()
