# One line per fuzz target, for tests/fuzz and tests/fuzz_replay: pst_fuzz(fuzz_<what> LIBS pst_room_<room> ...)
