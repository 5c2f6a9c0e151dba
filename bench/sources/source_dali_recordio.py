"""NVIDIA DALI's fn.readers.mxnet, CPU pipeline."""

import source_records

vars().update(vars(source_records.source("dali", form="recordio")))
