# One line per fuzz target, for tests/fuzz and tests/fuzz_replay: pst_fuzz(fuzz_<what> LIBS pst_room_<room> ...)
pst_fuzz(fuzz_dataset_index LIBS pst_room_dataset)
pst_fuzz(fuzz_dataset_shard LIBS pst_room_format)
pst_fuzz(fuzz_dataset_journal LIBS pst_room_pack)
