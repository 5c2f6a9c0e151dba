# One line per fuzz target: pst_fuzz(fuzz_<what> LIBS pst_room_<room> ...). Included by tests/fuzz and tests/fuzz_replay.
