/* stall_meter.c - measures what a worker's time is spent on.
 *
 * In: the moments at which a thread changes from one kind of work to another. Out: sums of time.
 * Each thread writes its own clocks with relaxed stores, so no thread waits for another. A reader
 * gets each counter intact, but different counters may be from slightly different moments. */
#include "stall/stall_meter.h"

#include "base/clock.h"

#include <string.h>

#define DETAIL_NS 50000 /* after a row that takes longer, the next row is timed in detail, too */
#define SKIP_MAX 255
#define SPLITS_ONE_IN 4

static uint64_t get(const psti_meter_count *count)
{
    return atomic_load_explicit(count, memory_order_relaxed);
}

void psti_stall_meter_add(psti_meter_count *count, uint64_t n)
{
    atomic_store_explicit(count, get(count) + n, memory_order_relaxed);
}

void psti_stall_meter_thread_init(struct psti_meter_thread *thread, struct psti_trace *trace,
                                  uint32_t tid)
{
    memset(thread, 0, sizeof *thread);
    thread->trace = trace;
    thread->tid = tid;
    thread->random = (uint64_t)tid * 2 + 1;
}

/* Chooses images at random with a linear congruential generator, whose high bits are good enough.
 */
static bool one_in_some(struct psti_meter_thread *thread)
{
    thread->random = thread->random * 6364136223846793005u + 1442695040888963407u;
    return (thread->random >> 33) % SPLITS_ONE_IN == 0;
}

bool psti_stall_meter_row_begins(struct psti_meter_thread *thread, uint64_t sample, uint64_t step)
{
    if (thread->in_row)
        return false;
    thread->in_row = true;
    thread->sample = sample;
    thread->step = step;
    thread->detailed = thread->trace || thread->skip == 0;
    if (!thread->detailed) {
        thread->skip--;
        return true;
    }
    if (thread->trace)
        psti_stall_trace_push(thread->trace, "row");
    thread->row_start_ns = psti_clock_ns();
    return true;
}

void psti_stall_meter_row_ends(struct psti_meter_thread *thread, uint64_t waited_ns)
{
    thread->in_row = false;
    psti_stall_meter_add(&thread->n_rows, 1);
    if (!thread->detailed)
        return;
    thread->detailed = false;
    int64_t now = psti_clock_ns();
    uint64_t ns = (uint64_t)(now - thread->row_start_ns);
    if (thread->trace) {
        psti_stall_trace_pop(thread->trace);
        psti_stall_trace_span(thread->trace, thread->tid, "row", thread->row_start_ns, now,
                              thread->sample, thread->step);
    }
    uint64_t work = ns > waited_ns ? ns - waited_ns : 0;
    psti_stall_meter_add(&thread->detail_ns, work);
    uint64_t skip = DETAIL_NS / (work + 1);
    thread->skip = (uint32_t)(skip < SKIP_MAX ? skip : SKIP_MAX);
}

static const char *name_of(enum psti_meter_part part)
{
    static const char *const names[PSTI_METER_PARTS] = {"fetch", "decode", "augment", "keep",
                                                        "submit"};
    return names[part];
}

int64_t psti_stall_meter_enter(struct psti_meter_thread *thread, enum psti_meter_part part)
{
    if (!thread->detailed && part != PSTI_METER_SUBMIT)
        return 0;
    if (thread->trace)
        psti_stall_trace_push(thread->trace, name_of(part));
    if (part == PSTI_METER_PIXELS) {
        thread->splits = thread->trace || one_in_some(thread);
        thread->augment_here_ns = 0;
    }
    return psti_clock_ns();
}

/* Adds the image's time and, if augmenting was timed separately in it, the augmenting part. In the
 * trace a single span, at the end of the image's decoding, stands for all its augmenting. */
static void leave_pixels(struct psti_meter_thread *thread, int64_t since, int64_t now)
{
    uint64_t ns = (uint64_t)(now - since);
    psti_stall_meter_add(&thread->pixels_ns, ns);
    if (!thread->splits)
        return;
    thread->splits = false;
    uint64_t augment = thread->augment_here_ns < ns ? thread->augment_here_ns : ns;
    psti_stall_meter_add(&thread->split_ns, ns);
    psti_stall_meter_add(&thread->augment_ns, augment);
    if (thread->trace && augment)
        psti_stall_trace_span(thread->trace, thread->tid, "augment", now - (int64_t)augment, now,
                              thread->sample, thread->step);
}

void psti_stall_meter_leave(struct psti_meter_thread *thread, enum psti_meter_part part,
                            int64_t since)
{
    if (since == 0)
        return;
    int64_t now = psti_clock_ns();
    uint64_t ns = (uint64_t)(now - since);
    if (part == PSTI_METER_PIXELS)
        leave_pixels(thread, since, now);
    else if (part == PSTI_METER_FETCH)
        psti_stall_meter_add(&thread->fetch_ns, ns);
    else if (part == PSTI_METER_KEEP)
        psti_stall_meter_add(&thread->keep_ns, ns);
    else if (part == PSTI_METER_SUBMIT)
        psti_stall_meter_add(&thread->submit_ns, ns);
    if (!thread->trace)
        return;
    psti_stall_trace_pop(thread->trace);
    psti_stall_trace_span(thread->trace, thread->tid, name_of(part), since, now, thread->sample,
                          thread->step);
}

int64_t psti_stall_meter_enter_augment(const struct psti_meter_thread *thread)
{
    return thread->splits ? psti_clock_ns() : 0;
}

void psti_stall_meter_leave_augment(struct psti_meter_thread *thread, int64_t since)
{
    if (since)
        thread->augment_here_ns += (uint64_t)(psti_clock_ns() - since);
}

void psti_stall_meter_waited(struct psti_meter_thread *thread, int64_t since_ns, int64_t now_ns,
                             uint64_t storage_ns)
{
    uint64_t waited = (uint64_t)(now_ns - since_ns);
    psti_stall_meter_add(&thread->wait_in_ns, storage_ns);
    psti_stall_meter_add(&thread->wait_out_ns, waited > storage_ns ? waited - storage_ns : 0);
    if (thread->trace)
        psti_stall_trace_span(thread->trace, thread->tid,
                              2 * storage_ns > waited ? "wait for storage" : "wait for the caller",
                              since_ns, now_ns, UINT64_MAX, UINT64_MAX);
}

static uint64_t share(uint64_t of, uint64_t part, uint64_t whole)
{
    if (whole == 0)
        return 0;
    double result = (double)of * (double)(part < whole ? part : whole) / (double)whole;
    return (uint64_t)result;
}

void psti_stall_meter_sum(const struct psti_meter_thread *thread, struct psti_meter_sums *sums)
{
    uint64_t busy = get(&thread->busy_ns), detail = get(&thread->detail_ns);
    uint64_t fetch = share(busy, get(&thread->fetch_ns), detail);
    uint64_t pixels = share(busy, get(&thread->pixels_ns), detail);
    uint64_t keep = share(busy, get(&thread->keep_ns), detail);
    pixels = pixels < busy - fetch ? pixels : busy - fetch;
    keep = keep < busy - fetch - pixels ? keep : busy - fetch - pixels;
    uint64_t augment = share(pixels, get(&thread->augment_ns), get(&thread->split_ns));
    sums->n_rows += get(&thread->n_rows);
    sums->busy_ns += busy;
    sums->wait_in_ns += get(&thread->wait_in_ns);
    sums->wait_out_ns += get(&thread->wait_out_ns);
    sums->read_ns += get(&thread->read_ns);
    sums->submit_ns += get(&thread->submit_ns);
    sums->fetch_ns += fetch;
    sums->keep_ns += keep;
    sums->augment_ns += augment;
    sums->decode_ns += pixels - augment;
    sums->batch_ns += busy - fetch - pixels - keep;
}
