/* card.h - what the benchmarks for cards share: what goes wrong ends the program, and files. */
#ifndef PST_BENCH_GPU_H
#define PST_BENCH_GPU_H

#include <penstock/status.h>

#include <stddef.h>

/* Ends the program; `err` may be NULL. */
_Noreturn void fail(const char *what, const struct pst_error *err);
/* The same unless `status` is PST_OK. */
void check(enum pst_status status, const char *what, const struct pst_error *err);

/* These end the program, too, where they cannot; what they return is the caller's to free. */
void *claim(size_t nbytes);
unsigned char *read_file(const char *path, size_t *nbytes);

#endif
