/* stall_trace.c - writes events of all threads of a loader to a file, in Chrome's JSON format.
 *
 * In: spans, counters and overlapping operations, from any thread. Out: the file. `lock` guards all
 * members except `path`, `nvtx` and `pid`, which are constant. The file is locked by flock while it
 * is written, so that two writers never use the same file. */
#include "stall/stall_trace.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "base/fail.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

#define N_EVENTS 2048
#define TEXT_NBYTES ((size_t)64 << 10)
#define EVENT_NBYTES 512 /* longest text of one event */
#define FLUSH_NS 500000000
#define SUFFIX_MAX 64
#define PATH_CAP 4096

enum kind { SPAN, BEGIN, END, COUNTER, THREAD };

struct event {
    const char *name;
    int64_t begin_ns, end_ns;
    uint64_t a, b; /* for a span: sample and step; for an overlapping operation: its id; for a
                    * counter: its value */
    uint32_t tid;
    enum kind kind;
};

struct psti_trace {
    pthread_mutex_t lock;
    struct psti_trace_nvtx nvtx;
    int fd; /* -1: no file, or writing has failed */
    int pid;
    uint32_t n;
    uint64_t n_all, n_lost;
    size_t n_text;
    char path[PATH_CAP];
    struct event events[N_EVENTS];
    char text[TEXT_NBYTES];
};

const char *psti_stall_trace_path(const struct psti_trace *trace)
{
    return trace ? trace->path : "";
}

void psti_stall_trace_push(const struct psti_trace *trace, const char *name)
{
    if (trace->nvtx.push)
        trace->nvtx.push(name);
}

void psti_stall_trace_pop(const struct psti_trace *trace)
{
    if (trace->nvtx.pop)
        trace->nvtx.pop();
}

/* Writes the buffered text to the file. A failure ends the trace. */
static void write_text(struct psti_trace *trace)
{
    for (size_t done = 0; trace->fd >= 0 && done < trace->n_text;) {
        ssize_t n = write(trace->fd, trace->text + done, trace->n_text - done);
        if (n > 0) {
            done += (size_t)n;
        } else if (n < 0 && errno != EINTR) {
            close(trace->fd);
            trace->fd = -1;
        }
    }
    trace->n_text = 0;
}

/* Appends an event's members after its name; a comma ends each event. */
static int print_rest(const struct event *event, char *text, size_t nbytes)
{
    double begin = (double)event->begin_ns / 1e3;
    switch (event->kind) {
    case SPAN:
        if (event->a == UINT64_MAX)
            return snprintf(text, nbytes, "\"ph\":\"X\",\"ts\":%.3f,\"dur\":%.3f},\n", begin,
                            (double)(event->end_ns - event->begin_ns) / 1e3);
        return snprintf(text, nbytes,
                        "\"ph\":\"X\",\"ts\":%.3f,\"dur\":%.3f,\"args\":{\"sample\":%" PRIu64
                        ",\"step\":%" PRIu64 "}},\n",
                        begin, (double)(event->end_ns - event->begin_ns) / 1e3, event->a, event->b);
    case BEGIN:
    case END:
        return snprintf(text, nbytes,
                        "\"ph\":\"%c\",\"cat\":\"storage\",\"id\":%" PRIu64 ",\"ts\":%.3f},\n",
                        event->kind == BEGIN ? 'b' : 'e', event->a, begin);
    case COUNTER:
        return snprintf(text, nbytes, "\"ph\":\"C\",\"ts\":%.3f,\"args\":{\"n\":%" PRIu64 "}},\n",
                        begin, event->a);
    default:
        return 0;
    }
}

static void print_event(struct psti_trace *trace, const struct event *event)
{
    if (trace->n_text + EVENT_NBYTES > TEXT_NBYTES)
        write_text(trace);
    char *text = trace->text + trace->n_text;
    int n;
    if (event->kind == THREAD) {
        n = snprintf(text, EVENT_NBYTES,
                     "{\"name\":\"thread_name\",\"ph\":\"M\",\"pid\":%d,\"tid\":%u,"
                     "\"args\":{\"name\":\"%.64s\"}},\n",
                     trace->pid, event->tid, event->name);
    } else {
        n = snprintf(text, EVENT_NBYTES, "{\"name\":\"%.64s\",\"pid\":%d,\"tid\":%u,", event->name,
                     trace->pid, event->tid);
        n += print_rest(event, text + n, EVENT_NBYTES - (size_t)n);
    }
    trace->n_text += (size_t)n;
}

/* Writes all buffered events. The caller holds the lock. */
static void flush(struct psti_trace *trace)
{
    for (uint32_t i = 0; i < trace->n; i++)
        print_event(trace, &trace->events[i]);
    trace->n = 0;
    write_text(trace);
}

static void add(struct psti_trace *trace, const struct event *event)
{
    pthread_mutex_lock(&trace->lock);
    if (trace->fd >= 0 && trace->n_all < PSTI_TRACE_EVENTS_MAX) {
        trace->events[trace->n++] = *event;
        trace->n_all++;
        if (trace->n == N_EVENTS || event->end_ns - trace->events[0].end_ns > FLUSH_NS)
            flush(trace);
    } else if (trace->fd >= 0) {
        trace->n_lost++;
    }
    pthread_mutex_unlock(&trace->lock);
}

void psti_stall_trace_thread(struct psti_trace *trace, uint32_t tid, const char *name)
{
    int64_t now = psti_clock_ns();
    add(trace,
        &(struct event){.kind = THREAD, .name = name, .tid = tid, .begin_ns = now, .end_ns = now});
}

void psti_stall_trace_span(struct psti_trace *trace, uint32_t tid, const char *name,
                           int64_t begin_ns, int64_t end_ns, uint64_t sample, uint64_t step)
{
    add(trace, &(struct event){.kind = SPAN,
                               .name = name,
                               .tid = tid,
                               .begin_ns = begin_ns,
                               .end_ns = end_ns,
                               .a = sample,
                               .b = step});
}

void psti_stall_trace_overlapping(struct psti_trace *trace, const char *name, bool begins,
                                  int64_t now_ns, uint64_t id)
{
    add(trace, &(struct event){.kind = begins ? BEGIN : END,
                               .name = name,
                               .begin_ns = now_ns,
                               .end_ns = now_ns,
                               .a = id});
}

void psti_stall_trace_counter(struct psti_trace *trace, const char *name, int64_t now_ns,
                              uint64_t value)
{
    add(trace,
        &(struct event){
            .kind = COUNTER, .name = name, .begin_ns = now_ns, .end_ns = now_ns, .a = value});
}

/* Replaces "%p" by the process's number. Returns false if the path is too long. */
static bool expand(const char *path, char *out, size_t nbytes)
{
    size_t n = 0;
    for (; *path; path++) {
        int added;
        if (path[0] == '%' && path[1] == 'p') {
            added = snprintf(out + n, nbytes - n, "%d", (int)getpid());
            path++;
        } else {
            added = snprintf(out + n, nbytes - n, "%c", *path);
        }
        if (added < 0 || (size_t)added >= nbytes - n)
            return false;
        n += (size_t)added;
    }
    return true;
}

/* Opens the first of path, path.2, path.3 ... that no other writer has locked. */
static enum pst_status open_file(struct psti_trace *trace, const char *path, struct pst_error *err)
{
    char plain[PATH_CAP - 16]; /* leaves space for a dot, a number and a NUL */
    if (!expand(path, plain, sizeof plain))
        return psti_fail(err, PST_ERROR_ARGUMENT, "stall", "the path of the trace is too long");
    for (int i = 1; i <= SUFFIX_MAX; i++) {
        if (i == 1)
            snprintf(trace->path, sizeof trace->path, "%s", plain);
        else
            snprintf(trace->path, sizeof trace->path, "%s.%d", plain, i);
        int fd = open(trace->path, O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
        if (fd < 0)
            return psti_fail_os(err, errno, "stall", trace->path, -1, "cannot write the trace");
        if (flock(fd, LOCK_EX | LOCK_NB) == 0) {
            trace->fd = fd;
            if (ftruncate(fd, 0) == 0)
                return PST_OK;
            return psti_fail_os(err, errno, "stall", trace->path, -1, "cannot empty the trace");
        }
        close(fd);
    }
    return psti_fail(err, PST_ERROR_BUSY, "stall", "%s and the %d files after it are being written",
                     plain, SUFFIX_MAX - 1);
}

enum pst_status psti_stall_trace_open(const char *path, const char *nvtx, struct psti_trace **out,
                                      struct pst_error *err)
{
    bool has_file = path && path[0];
    bool has_nvtx = nvtx && nvtx[0] && strcmp(nvtx, "0") != 0;
    *out = NULL;
    if (!has_file && !has_nvtx)
        return PST_OK;
    struct psti_trace *trace = psti_calloc(1, sizeof *trace);
    if (!trace)
        return psti_fail(err, PST_ERROR_MEMORY, "stall", "no memory for a trace");
    pthread_mutex_init(&trace->lock, NULL);
    trace->fd = -1;
    trace->pid = (int)getpid();
    enum pst_status status = PST_OK;
    if (has_nvtx)
        status = psti_stall_trace_nvtx_open(nvtx, &trace->nvtx, err);
    if (status == PST_OK && has_file)
        status = open_file(trace, path, err);
    if (status == PST_OK && has_file) {
        trace->n_text = (size_t)snprintf(trace->text, TEXT_NBYTES, "[\n");
        write_text(trace);
    }
    if (status != PST_OK)
        psti_stall_trace_close(&trace);
    *out = trace;
    return status;
}

void psti_stall_trace_close(struct psti_trace **trace_ptr)
{
    struct psti_trace *trace = *trace_ptr;
    if (!trace)
        return;
    *trace_ptr = NULL;
    if (trace->fd >= 0) {
        flush(trace);
        trace->n_text = (size_t)snprintf(
            trace->text, TEXT_NBYTES,
            "{\"name\":\"process_name\",\"ph\":\"M\",\"pid\":%d,\"tid\":0,"
            "\"args\":{\"name\":\"penstock\",\"events_left_out\":%" PRIu64 "}}\n]\n",
            trace->pid, trace->n_lost);
        write_text(trace);
    }
    if (trace->fd >= 0)
        close(trace->fd);
    pthread_mutex_destroy(&trace->lock);
    psti_free(trace);
}
