"""Three nodes of Ray on this machine pack one data set in parts. A node is killed in the middle of its part. test_ray_nodes.py runs
it.

    ray_nodes.py SOURCE DESTINATION SCRATCH

Each part stops after its first samples until the file SCRATCH/go is there, because the test must know which part runs on which
node. SCRATCH gets a file for each start of a part, with the node's id. This is a program and not a module, because Ray then sends
its functions by value.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
import time
from pathlib import Path
from typing import Any

# Four nodes of Ray start slowly on a busy machine. A node counts as dead when its raylet has ended, not when it is slow.
LIMIT_S = 600
os.environ |= {"RAY_health_check_failure_threshold": "20", "RAY_health_check_period_ms": "1000",
               "RAY_health_check_timeout_ms": "30000", "RAY_enable_metrics_collection": "0", "RAY_enable_worker_prestart": "0",
               "RAY_USAGE_STATS_ENABLED": "0", "RAY_raylet_start_wait_time_s": str(LIMIT_S),
               "RAY_raylet_client_num_connect_attempts": str(LIMIT_S), "RAY_agent_register_timeout_ms": str(1000 * LIMIT_S),
               "RAY_worker_register_timeout_seconds": str(LIMIT_S),
               "RAY_gcs_rpc_server_connect_timeout_s": str(LIMIT_S)}  # fmt: skip

import ray  # noqa: E402  (reads the environment when it is imported)
from ray._private import node as ray_node  # noqa: E402
from ray._private import services as ray_services  # noqa: E402
from ray.cluster_utils import Cluster  # noqa: E402

import penstock.ray  # noqa: E402
from penstock.engines import ray_tasks  # noqa: E402

SCRATCH = sys.argv[3] if __name__ == "__main__" else ""


def slow_part(source: Any, destination: str, options: dict[str, Any], part: tuple[int, int]) -> None:
    """Packs a part as penstock.ray does, but waits in the middle of it."""
    import os
    import time
    from pathlib import Path

    import ray

    from penstock.data import pack

    scratch = Path(SCRATCH)
    begun = [False]

    def wait(n_done: int, *_: Any) -> None:
        if n_done == 0 or begun[0]:
            return
        begun[0] = True
        node = ray.get_runtime_context().get_node_id()
        (scratch / f"part-{part[0]}-{node}-{os.getpid()}").touch()
        deadline = time.monotonic() + 600
        while not (scratch / "go").exists() and time.monotonic() < deadline:
            time.sleep(0.05)

    pack.pack(source, destination, part=part, progress=wait, **options)


def wait_for(what: str, condition: Any) -> Any:
    deadline = time.monotonic() + LIMIT_S
    while not (found := condition()):
        assert time.monotonic() < deadline, what
        time.sleep(0.05)
    return found


class SlowClock:
    """Replaces the module time: on its clocks 30 seconds last ten minutes."""

    def __init__(self) -> None:
        self._begun = time.time(), time.monotonic()

    def time(self) -> float:
        return self._begun[0] + (time.time() - self._begun[0]) / 20

    def monotonic(self) -> float:
        return self._begun[1] + (time.monotonic() - self._begun[1]) / 20

    def __getattr__(self, name: str) -> Any:
        return getattr(time, name)


def be_patient() -> None:
    """Makes Ray wait longer for a node's start. Its limit is 30 seconds, a constant in one of these modules, which one node may
    need on a busy machine.
    """
    for module in (ray_node, ray_services):
        if hasattr(module, "time"):
            module.time = SlowClock()


def starts(part: int | str = "*") -> list[list[str]]:
    """Returns part, node and process id of each start so far."""
    return [path.name.split("-")[1:] for path in Path(SCRATCH).glob(f"part-{part}-*")]


def kill_one(cluster: Cluster, told: dict[str, Any]) -> None:
    """Waits until three nodes have each begun a part, then kills the processes of one node, as if its machine had failed. The other
    nodes go on; each runs one part at a time.
    """
    wait_for("three parts that run", lambda: len({node for _, node, _ in starts()}) == 3)
    part, node_id, pid = starts()[0]
    told.update(part=int(part), node=node_id, tried=len(list(Path(sys.argv[2]).glob("parts-*/try-*"))))
    [node] = [node for node in cluster.worker_nodes if node.node_id == node_id]
    os.kill(node.all_processes["raylet"][0].process.pid, signal.SIGKILL)
    os.kill(int(pid), signal.SIGKILL)
    (Path(SCRATCH) / "go").touch()
    wait_for("a second start of the part", lambda: len(starts(part)) > 1)
    told["again"] = [node for _, node, _ in starts(part) if node != node_id]


def main() -> None:
    source, destination = sys.argv[1:3]
    small = {"num_cpus": 1, "object_store_memory": 80 << 20}
    be_patient()
    cluster = Cluster()
    cluster.add_node(**{**small, "num_cpus": 0}, include_dashboard=False)
    for _ in range(3):
        cluster.add_node(**small)
    cluster.wait_for_nodes(LIMIT_S)
    ray.init(address=cluster.address, log_to_driver=False)
    told: dict[str, Any] = {}
    ray_tasks._part = slow_part
    killer = threading.Thread(target=kill_one, args=(cluster, told), daemon=True)
    killer.start()
    report = penstock.ray.pack(source, destination, parts=3, forms=["original"], shard_size="64KiB")
    killer.join(LIMIT_S)
    wait_for("the end of the node", lambda: sum(node["Alive"] for node in ray.nodes()) == 3)  # the head and two nodes
    print(json.dumps({**told, "n_samples": report.n_samples, "ray": ray.__version__}))
    ray.shutdown()
    cluster.shutdown()


if __name__ == "__main__":
    main()
