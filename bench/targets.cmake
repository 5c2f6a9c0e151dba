# One line per benchmark: pst_bench(bench_<what> [SOURCES ...] [LIBS ...]).
