/* gpu_support.h - functions that the GPU benchmarks share. Any failure ends the program. */
#ifndef PST_BENCH_GPU_H
#define PST_BENCH_GPU_H

#include <penstock/status.h>

#include <stddef.h>

/* Ends the program; `err` may be NULL. */
_Noreturn void fail(const char *what, const struct pst_error *err);
/* Ends the program unless `status` is PST_OK. */
void check(enum pst_status status, const char *what, const struct pst_error *err);

/* Allocates memory, or reads a file. The caller frees the result. */
void *claim(size_t nbytes);
unsigned char *read_file(const char *path, size_t *nbytes);

#endif
