"""torch DataLoader: tarfile reads all headers at each opening; then images are read at their offsets, in an exact random order."""

import source_records

vars().update(vars(source_records.source("torch")))
