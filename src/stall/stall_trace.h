/* stall_trace.h - a trace of what each thread did, for chrome://tracing and ui.perfetto.dev, and
 * ranges for NVIDIA's profilers.
 *
 * The file is Chrome's JSON array of events. Events are kept in a buffer of fixed size, which is
 * written when it is full or its oldest event is half a second old. Every write ends with a
 * complete event and a comma, which viewers accept at the end of a truncated file; closing
 * completes the JSON. So the trace of a killed process can be loaded. After PSTI_TRACE_EVENTS_MAX
 * events further events are counted but not written.
 *
 * Any thread may add events. No other lock is taken while the trace's lock is held. A failed write
 * ends the trace; the program continues. */
#ifndef PST_STALL_STALL_TRACE_H
#define PST_STALL_STALL_TRACE_H

#include <penstock/status.h>

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define PSTI_TRACE_EVENTS_MAX 2000000
#define PSTI_TRACE_NBYTES ((size_t)256 << 10) /* approximate memory of a trace */

struct psti_trace;

/* Opens a trace.
 *
 * path: file to write, "" or NULL for none; "%p" in it becomes the process's number. If another
 *     process or loader writes to it, ".2" to ".64" is appended.
 * nvtx: value of PENSTOCK_NVTX: NULL, "" or "0" for no ranges, "1" for libnvToolsExt.so.1, else the
 *     library's path.
 * out: receives the trace; NULL if neither file nor ranges are wanted. */
enum pst_status psti_stall_trace_open(const char *path, const char *nvtx, struct psti_trace **out,
                                      struct pst_error *err);
/* Writes the remaining events, completes the JSON and frees the trace. NULL is allowed. */
void psti_stall_trace_close(struct psti_trace **trace);
/* Returns the path of the file being written, or "" if there is none. */
const char *psti_stall_trace_path(const struct psti_trace *trace);

/* In these functions `name` must live as long as the trace. Times are those of psti_clock_ns. */
/* Names the thread `tid` in the trace. */
void psti_stall_trace_thread(struct psti_trace *trace, uint32_t tid, const char *name);
/* Records that thread `tid` was busy from begin_ns to end_ns. sample, step: UINT64_MAX for none. */
void psti_stall_trace_span(struct psti_trace *trace, uint32_t tid, const char *name,
                           int64_t begin_ns, int64_t end_ns, uint64_t sample, uint64_t step);
/* Records the begin or end of an operation that may overlap others of its name; `id` identifies it.
 */
void psti_stall_trace_overlapping(struct psti_trace *trace, const char *name, bool begins,
                                  int64_t now_ns, uint64_t id);
/* Records a number that changes over time. */
void psti_stall_trace_counter(struct psti_trace *trace, const char *name, int64_t now_ns,
                              uint64_t value);

/* Begins a range of the calling thread in NVIDIA's profilers. Does nothing without NVTX. */
void psti_stall_trace_push(const struct psti_trace *trace, const char *name);
void psti_stall_trace_pop(const struct psti_trace *trace);

/* stall_trace_nvtx.c: functions of NVTX; NULL if the library is not loaded. */
struct psti_trace_nvtx {
    int (*push)(const char *name);
    int (*pop)(void);
};
/* Opens the NVTX library; PST_ERROR_UNSUPPORTED if it does not exist. It is never closed. */
enum pst_status psti_stall_trace_nvtx_open(const char *library, struct psti_trace_nvtx *nvtx,
                                           struct pst_error *err);

#endif
