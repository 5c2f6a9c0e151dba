/* loader_times.c - measures waiting: when reads were under way, and how workers spent their time.
 *
 * Reads overlap, so their durations are not added up. The clock of reading runs while at least one
 * read is under way. A worker without a row counts as waiting for storage while that clock runs,
 * and as idle otherwise. All functions need the loader's lock to be held. */
#include "loader/epoch/loader_times.h"

#include "loader/loader_handle.h"
#include "loader/epoch/loader_meter.h"

#include "base/clock.h"

void psti_loader_times_read_begins(pst_loader *loader)
{
    if (loader->queue.n_reading == 0) {
        int64_t now = psti_clock_ns();
        psti_loader_meter_tick_at(loader, now);
        loader->meters.reading_since_ns = now;
    }
    loader->queue.n_reading++;
}

void psti_loader_times_read_ends(pst_loader *loader)
{
    if (loader->queue.n_reading == 1) {
        int64_t now = psti_clock_ns();
        psti_loader_meter_tick_at(loader, now);
        loader->meters.reading_ns += (uint64_t)(now - loader->meters.reading_since_ns);
    }
    loader->queue.n_reading--;
}

uint64_t psti_loader_times_reading(const pst_loader *loader, int64_t now_ns)
{
    return loader->meters.reading_ns +
           (loader->queue.n_reading ? (uint64_t)(now_ns - loader->meters.reading_since_ns) : 0);
}

/* When workers have waited for storage as long as this, more rows are read ahead. Waits that a read
 * from the page cache takes with its wake-ups do not count. */
#define STARVED_NS 100000000
#define STARVED_WAIT_NS 500000

static void note_starved(pst_loader *loader, uint64_t waited_ns)
{
    struct psti_loader_queue *queue = &loader->queue;
    queue->starved_ns += waited_ns >= STARVED_WAIT_NS ? waited_ns : 0;
    if (queue->starved_ns < STARVED_NS || queue->ahead_nbytes >= queue->arena.nbytes)
        return;
    queue->starved_ns = 0;
    queue->ahead_nbytes *= 2;
}

void psti_loader_times_wait_for_work(pst_loader *loader, struct psti_meter_thread *thread)
{
    int64_t start = psti_clock_ns();
    uint64_t reading = psti_loader_times_reading(loader, start);
    bool counts = loader->epoch.running; /* between epochs nobody waits for anything */
    psti_loader_meter_tick_at(loader, start);
    loader->meters.stall.n_idle++;
    /* While batches come from the group, workers have nothing to do. They wait on a separate
     * condition variable, because each released batch wakes all threads that wait on
     * loader->work. */
    bool asleep = loader->share && !loader->epoch.running && !loader->tiers.fleet;
    pthread_cond_wait(asleep ? &loader->runs : loader->work, loader->lock);
    int64_t now = psti_clock_ns();
    psti_loader_meter_tick_at(loader, now);
    loader->meters.stall.n_idle--;
    if (!counts)
        return;
    uint64_t waited = (uint64_t)(now - start);
    uint64_t for_storage = psti_loader_times_reading(loader, now) - reading;
    loader->meters.stats.worker_read_wait_ns += for_storage;
    note_starved(loader, for_storage);
    loader->meters.stats.worker_idle_ns += waited > for_storage ? waited - for_storage : 0;
    psti_stall_meter_waited(thread, start, now, for_storage);
}
