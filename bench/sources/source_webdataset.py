"""WebDataset as its documents advise: WebLoader, shards in random order divided among workers, a shuffle buffer."""

import source_records

vars().update(vars(source_records.source("webdataset")))
