"""TensorSocket with shared-memory tensors over a Penstock loader: compared with Penstock's own sharing, only the sharing
differs.
"""

from __future__ import annotations

import kind_penstock_alone
import kind_tensorsocket
import kind_tensorsocket_shm
import kinds
import torch

NAME = "TensorSocket by shared memory over a Penstock loader"


def serve(setting: kinds.Setting, ready) -> None:
    kind_tensorsocket_shm.use_shared_memory()
    loader = kind_penstock_alone.make(setting, num_workers=setting.threads)
    batches = ((torch.from_numpy(images), torch.from_numpy(labels)) for images, labels in kind_penstock_alone.forever(loader))
    counted = kind_tensorsocket.Counted(batches, kind_tensorsocket.SAMPLES // setting.work.batch)
    kind_tensorsocket.produce(counted, setting, ready, pack_fn=kind_tensorsocket_shm.pack)


jobs_batches = kind_tensorsocket_shm.jobs_batches
counters = kind_tensorsocket.counters
