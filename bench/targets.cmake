# One line per benchmark: pst_bench(bench_<what> [SOURCES ...] [LIBS ...]).
pst_bench(bench_loader_raw)
pst_bench(bench_augment LIBS pst_room_augment)
pst_bench(bench_cache LIBS pst_room_cache)
pst_bench(bench_fleet LIBS pst_room_fleet)
