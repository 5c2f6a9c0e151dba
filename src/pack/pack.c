/* pack.c - pst_pack: packs a folder or data set into a data set, in the source's order.
 *
 * The calling thread gives samples to workers, takes the results back in order and adds them to the
 * writer. Only this thread uses the writer and calls the callbacks. At most `window` samples are in
 * progress, and no new sample starts while finished ones that wait for their turn hold more than
 * WINDOW_NBYTES. So memory is limited whichever worker finishes first. Samples are added in order,
 * so the destination's bytes never depend on the number of workers. */
#include "augment/augment.h"
#include "options/options_members.h"
#include "pack/pack_int.h"
#include "dataset/dataset.h"
#include "verify/verify.h"
#include "writer/writer.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "base/fail.h"
#include "base/options.h"
#include "base/queue.h"
#include "base/thread.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define WINDOW_NBYTES ((uint64_t)256 << 20)
#define PROGRESS_NS INT64_C(100000000)
#define MAX_WORKERS 256u

struct pack {
    const struct pst_pack_options *options;
    struct psti_pack_plan plan;
    pst_writer *writer;
    struct psti_writer_parts *parts; /* NULL unless packing in parts */
    pst_dataset *source;
    struct psti_pack_slot *slots; /* [window], a ring */
    uint32_t window;
    uint64_t n_dispatched, n_taken;  /* number of samples given to workers; number taken back, in
                                      * ring order */
    uint64_t next_sample, n_samples; /* next sample of the source to pack; end of the range to
                                      * pack */
    uint64_t n_total;                /* number of samples to pack, for progress */
    uint64_t n_passed;       /* number of the source's samples up to the last sample that an earlier
                              * run stored */
    struct psti_queue queue; /* slots to prepare */
    pthread_mutex_t lock;
    pthread_cond_t finished; /* signalled when a worker has finished a slot */
    uint64_t held_nbytes;    /* bytes of finished slots; guarded by lock */
    pthread_t threads[MAX_WORKERS];
    uint32_t n_threads;
    struct psti_decoder *decoders[MAX_WORKERS];
    struct psti_pli_keep jpegs[MAX_WORKERS];
    struct psti_run *runs[MAX_WORKERS]; /* NULL unless the pack may resize images */
    uint32_t n_claimed;                 /* number of threads with a decoder; guarded by lock */
    struct pst_pack_report report;
    struct pst_pack_report kept; /* the report as of the writer's last commit */
    uint32_t i_shard;            /* for a change in place, or planned shards: index of the next
                                  * sample's shard */
    int64_t next_progress_ns;
};

static void worker(void *arg)
{
    struct pack *pack = arg;
    struct psti_pack_slot *slot;
    pthread_mutex_lock(&pack->lock);
    uint32_t me = pack->n_claimed++;
    pthread_mutex_unlock(&pack->lock);
    while ((slot = psti_queue_pop(&pack->queue)) != NULL) {
        psti_pack_prepare(&pack->plan, pack->decoders[me], &pack->jpegs[me], pack->runs[me], slot);
        pthread_mutex_lock(&pack->lock);
        slot->done = true;
        pack->held_nbytes += slot->nbytes_in + slot->nbytes_out;
        pthread_cond_signal(&pack->finished);
        pthread_mutex_unlock(&pack->lock);
    }
}

static enum pst_status progress(struct pack *pack, bool now, struct pst_error *err)
{
    int64_t ns = psti_clock_ns();
    if (pack->options->progress == NULL || (!now && ns < pack->next_progress_ns))
        return PST_OK;
    pack->next_progress_ns = ns + PROGRESS_NS;
    struct pst_progress p = {.n_done = pack->report.n_samples + pack->report.n_bad,
                             .n_total = pack->n_total,
                             .nbytes_in = pack->report.nbytes_in,
                             .nbytes_out = pack->report.nbytes_out};
    if (pack->options->progress(pack->options->ctx, &p) == 0)
        return PST_OK;
    return psti_fail(err, PST_ERROR_CANCELLED, "pack", "cancelled after %llu of %llu samples",
                     (unsigned long long)p.n_done, (unsigned long long)p.n_total);
}

/* In place: sets how the slot's sample relates to its shard. If the whole shard stays, the slot
 * stands for all its samples, and is not given to a worker. */
static void place_in_shard(struct pack *pack, struct psti_pack_slot *slot)
{
    const struct psti_pack_plan *plan = &pack->plan;
    while (slot->sample >= plan->first_sample[pack->i_shard + 1])
        pack->i_shard++;
    uint64_t first = plan->first_sample[pack->i_shard], end = plan->first_sample[pack->i_shard + 1];
    bool stays = memchr(plan->stays + first, 0, (size_t)(end - first)) == NULL;
    bool goes_on = slot->sample > first; /* true only for the first sample after a pack was
                                          * resumed */
    slot->begins_shard = !goes_on;
    slot->ends_shard = slot->sample + 1 == end;
    slot->n_adopted = stays || (slot->sample == pack->n_passed && pack->n_passed > 0 &&
                                psti_writer_rewrite_is_adopting(pack->writer))
                          ? end - slot->sample
                          : 0;
}

/* Starts samples that the destination lacks, until the window is full. */
static enum pst_status dispatch(struct pack *pack, struct pst_error *err)
{
    bool resume = pack->options->writer->mode == PST_WRITER_RESUME;
    while (pack->next_sample < pack->n_samples &&
           pack->n_dispatched - pack->n_taken < pack->window) {
        char name[PST_NAME_CAP];
        pthread_mutex_lock(&pack->lock);
        bool full = pack->held_nbytes > WINDOW_NBYTES;
        pthread_mutex_unlock(&pack->lock);
        if (full && pack->n_dispatched > pack->n_taken)
            break;
        enum pst_status status =
            pst_dataset_sample_name(pack->source, pack->next_sample, name, err);
        if (status != PST_OK)
            return status;
        if (resume && pst_writer_has(pack->writer, name)) {
            pack->report.n_resumed++;
            pack->report.n_samples++;
            pack->kept.n_resumed++;
            pack->kept.n_samples++;
            pack->next_sample++;
            status = progress(pack, false, err);
            if (status != PST_OK)
                return status;
            continue;
        }
        struct psti_pack_slot *slot = &pack->slots[pack->n_dispatched++ % pack->window];
        slot->sample = pack->next_sample++;
        memcpy(slot->name, name, strlen(name) + 1);
        slot->done = false;
        slot->n_adopted = 0;
        if (pack->plan.in_place)
            place_in_shard(pack, slot);
        if (slot->n_adopted > 0) {
            pack->next_sample += slot->n_adopted - 1;
            slot->nbytes_in = slot->nbytes_out = 0;
            slot->status = PST_OK;
            slot->done = true;
        } else {
            psti_queue_push(&pack->queue, slot);
        }
    }
    return PST_OK;
}

/* Waits until the oldest started sample is finished. Calls progress meanwhile, so the caller can
 * cancel. */
static enum pst_status wait_oldest(struct pack *pack, struct psti_pack_slot *slot,
                                   struct pst_error *err)
{
    enum pst_status status = PST_OK;
    pthread_mutex_lock(&pack->lock);
    while (!slot->done && status == PST_OK) {
        psti_cond_wait_until(&pack->finished, &pack->lock, psti_clock_ns() + PROGRESS_NS);
        if (slot->done)
            break;
        pthread_mutex_unlock(&pack->lock);
        status = progress(pack, false, err);
        pthread_mutex_lock(&pack->lock);
    }
    pthread_mutex_unlock(&pack->lock);
    return status;
}

/* True if the failure concerns this sample alone, and source and writer can still be used. */
static bool is_bad_sample(enum pst_status status, bool from_writer)
{
    switch (status) {
    case PST_ERROR_ARGUMENT:
    case PST_ERROR_EXISTS:
    case PST_ERROR_CORRUPT:
    case PST_ERROR_TRUNCATED:
    case PST_ERROR_UNSUPPORTED:
    case PST_ERROR_LIMIT:
        return true;
    case PST_ERROR_CHECKSUM:
    case PST_ERROR_NOT_FOUND:
    case PST_ERROR_IO: /* a read error of the sample's file; from the writer it would be the
                        * destination's disk */
    case PST_ERROR_VERSION:
        return !from_writer;
    default:
        return false;
    }
}

/* Adds a stored sample to the report. */
static enum pst_status count_sample(struct pack *pack, const struct psti_pack_slot *slot,
                                    struct pst_error *err)
{
    struct pst_pack_report *report = &pack->report;
    report->n_samples++;
    report->nbytes_in += slot->nbytes_in;
    report->nbytes_out += slot->nbytes_out;
    report->n_pli_jpeg += slot->n_pli_jpeg;
    report->jpeg_nbytes += slot->jpeg_nbytes;
    report->pli_jpeg_nbytes += slot->pli_jpeg_nbytes;
    report->n_kept_jpeg += slot->n_kept_jpeg;
    report->kept_jpeg_nbytes += slot->kept_jpeg_nbytes;
    report->n_restored_jpeg += slot->n_restored_jpeg;
    report->restored_pli_jpeg_nbytes += slot->restored_pli_jpeg_nbytes;
    report->restored_jpeg_nbytes += slot->restored_jpeg_nbytes;
    report->n_not_original += slot->n_not_original;
    report->n_resized += slot->is_resized;
    if (pack->parts == NULL && psti_writer_is_committed(pack->writer))
        pack->kept = *report;
    if (slot->n_kept_jpeg == 0 || pack->options->kept_jpeg == NULL ||
        pack->options->kept_jpeg(pack->options->ctx, slot->name, &slot->why_kept) == 0)
        return PST_OK;
    return psti_fail(err, PST_ERROR_CANCELLED, "pack", "cancelled at a JPEG that stays as it is");
}

/* Changes in place: adds a sample, or adopts the rest of a shard. */
static enum pst_status put_in_place(struct pack *pack, struct psti_pack_slot *slot,
                                    struct pst_error *err)
{
    struct pst_sample sample = {.struct_size = sizeof sample,
                                .value_nbytes = sizeof *slot->values,
                                .name = slot->name,
                                .values = slot->lists};
    pst_error_clear(err);
    if (slot->n_adopted > 0) {
        pack->report.n_samples += slot->n_adopted - 1; /* the caller counts the last of these
                                                        * samples */
        return psti_writer_rewrite_adopt(pack->writer, slot->n_adopted, err);
    }
    enum pst_status status =
        slot->begins_shard ? psti_writer_begin_shard(pack->writer, err) : PST_OK;
    if (status == PST_OK)
        status = psti_writer_rewrite_add(pack->writer, &sample, err);
    if (status == PST_OK)
        pack->report.n_changed += !pack->plan.stays[slot->sample];
    if (status == PST_OK && slot->ends_shard)
        status = psti_writer_rewrite_end(pack->writer, err);
    return status;
}

/* New data set or append: adds a sample. If a planned shard starts with it, a new shard is begun
 * first. */
static enum pst_status put_next(struct pack *pack, uint64_t number, const struct pst_sample *sample,
                                struct pst_error *err)
{
    const struct psti_pack_plan *plan = &pack->plan;
    bool begins = false;
    while (pack->parts == NULL && plan->n_shards > 0 &&
           number >= plan->first_sample[pack->i_shard + 1]) {
        pack->i_shard++;
        begins = true;
    }
    enum pst_status status = begins ? psti_writer_begin_shard(pack->writer, err) : PST_OK;
    return status == PST_OK ? pst_writer_add(pack->writer, sample, err) : status;
}

static enum pst_status add_sample(struct pack *pack, struct psti_pack_slot *slot,
                                  struct pst_error *err)
{
    enum pst_status status = slot->status;
    bool from_writer = status == PST_OK, is_new = false;
    if (from_writer && pack->plan.in_place) {
        status = put_in_place(pack, slot, &slot->err);
    } else if (from_writer) {
        struct pst_sample sample = {.struct_size = sizeof sample,
                                    .value_nbytes = sizeof *slot->values,
                                    .name = slot->name,
                                    .values = slot->lists};
        pst_error_clear(&slot->err);
        status = slot->sample < pack->n_passed
                     ? psti_pack_resume_passed(pack->writer, &sample, &is_new, &slot->err)
                     : put_next(pack, slot->sample, &sample, &slot->err);
        if (status != PST_OK && is_bad_sample(status, true)) {
            struct pst_item item;
            bool has_item = pst_dataset_item(pack->source, slot->sample, 0, 0, &item, sizeof item,
                                             NULL) == PST_OK;
            /* The writer names its own data set in errors, but the problem lies in the source. */
            slot->err.dataset[0] = slot->err.file[0] = '\0';
            slot->err.sample = -1;
            psti_verify_locate(&slot->err, pack->source, slot->sample, has_item ? &item : NULL);
        }
    }
    if (status == PST_OK)
        return count_sample(pack, slot, err);
    if (!is_new && !pack->plan.in_place && is_bad_sample(status, from_writer) &&
        pack->options->bad_sample != NULL &&
        pack->options->bad_sample(pack->options->ctx, slot->name, &slot->err) == 0) {
        pack->report.n_bad++;
        return PST_OK;
    }
    if (err != NULL)
        *err = slot->err;
    return status;
}

static enum pst_status run(struct pack *pack, struct pst_error *err)
{
    enum pst_status status = progress(pack, true, err);
    while (status == PST_OK) {
        status = dispatch(pack, err);
        if (status != PST_OK || pack->n_taken == pack->n_dispatched)
            break;
        struct psti_pack_slot *slot = &pack->slots[pack->n_taken % pack->window];
        status = wait_oldest(pack, slot, err);
        if (status != PST_OK)
            break;
        status = add_sample(pack, slot, err);
        pthread_mutex_lock(&pack->lock);
        pack->held_nbytes -= slot->nbytes_in + slot->nbytes_out;
        pthread_mutex_unlock(&pack->lock);
        psti_pack_slot_trim(slot, pack->plan.n_fields);
        pack->n_taken++;
        if (status == PST_OK)
            status = progress(pack, false, err);
    }
    return status;
}

static enum pst_status start(struct pack *pack, struct pst_error *err)
{
    uint32_t n = pack->options->num_workers == 0 ? psti_thread_cores() : pack->options->num_workers;
    n = n > MAX_WORKERS ? MAX_WORKERS : n;
    pack->window = 4 * n;
    pack->slots = psti_calloc(pack->window, sizeof *pack->slots);
    if (pack->slots == NULL)
        return psti_fail(err, PST_ERROR_MEMORY, "pack", "out of memory for %u samples under way",
                         pack->window);
    enum pst_status status = PST_OK;
    for (uint32_t i = 0; status == PST_OK && i < pack->window; i++)
        status = psti_pack_slot_init(&pack->slots[i], pack->plan.n_fields, err);
    for (uint32_t i = 0; status == PST_OK && i < n; i++)
        status = psti_decode_open(&pack->decoders[i], err);
    for (uint32_t i = 0; status == PST_OK && pack->plan.resizes && i < n; i++)
        status = psti_augment_run_open(&pack->runs[i], err);
    while (status == PST_OK && pack->n_threads < n) {
        status = psti_thread_start(&pack->threads[pack->n_threads], "pack", worker, pack, err);
        pack->n_threads += status == PST_OK;
    }
    return status;
}

static void stop(struct pack *pack)
{
    /* Drops the samples that no worker has started, so that workers find an empty queue and end. */
    while (psti_queue_try_pop(&pack->queue) != NULL)
        ;
    psti_queue_close(&pack->queue);
    for (uint32_t i = 0; i < pack->n_threads; i++)
        psti_thread_join(pack->threads[i]);
    for (uint32_t i = 0; i < MAX_WORKERS; i++)
        psti_decode_close(&pack->decoders[i]);
    for (uint32_t i = 0; i < MAX_WORKERS; i++)
        psti_augment_run_close(&pack->runs[i]);
    for (uint32_t i = 0; i < MAX_WORKERS; i++)
        psti_pli_keep_free(&pack->jpegs[i]);
    if (pack->slots != NULL)
        for (uint32_t i = 0; i < pack->window; i++)
            psti_pack_slot_free(&pack->slots[i], pack->plan.n_fields);
    psti_free(pack->slots);
    pack->slots = NULL;
}

static enum pst_status with_workers(struct pack *pack, struct pst_error *err)
{
    pack->n_dispatched = pack->n_taken = pack->held_nbytes = 0;
    pack->n_threads = pack->n_claimed = 0;
    enum pst_status status = psti_queue_init(&pack->queue, 4 * MAX_WORKERS, err);
    if (status != PST_OK)
        return status;
    pthread_mutex_init(&pack->lock, NULL);
    psti_cond_init(&pack->finished);
    status = start(pack, err);
    if (status == PST_OK)
        status = run(pack, err);
    stop(pack);
    pthread_cond_destroy(&pack->finished);
    pthread_mutex_destroy(&pack->lock);
    psti_queue_destroy(&pack->queue);
    return status;
}

/* After a failure: commits the added samples. If that fails, the report counts only samples of the
 * last commit. */
static void count_what_is_kept(struct pack *pack)
{
    const pst_writer *writer = pack->writer;
    uint64_t n_bad = pack->report.n_bad;
    if (writer != NULL && !psti_writer_is_committed(writer))
        (void)!pst_writer_commit(pack->writer, NULL);
    if (writer == NULL || psti_writer_is_committed(writer))
        return;
    pack->report = pack->kept;
    pack->report.n_bad = n_bad;
}

/* Parts --------------------------------------------------------------------- */

/* Packs one planned shard into a small data set of its own. */
static enum pst_status pack_shard(struct pack *pack, uint32_t i_shard, struct pst_error *err)
{
    struct psti_pack_plan *plan = &pack->plan;
    enum pst_status status =
        psti_writer_parts_begin(pack->parts, i_shard, plan->fields, plan->n_fields,
                                pack->options->writer, &pack->writer, err);
    pack->next_sample = plan->first_sample[i_shard];
    pack->n_samples = plan->first_sample[i_shard + 1];
    if (status == PST_OK)
        status = psti_pack_plan_classes(plan, pack->writer, err);
    if (status == PST_OK && plan->has_mix)
        psti_writer_set_mark(pack->writer, psti_pack_assign_mark(plan));
    if (status == PST_OK)
        status = with_workers(pack, err);
    if (status == PST_OK)
        status = psti_writer_parts_end(pack->parts, i_shard, &pack->writer, err);
    if (status == PST_OK) {
        pack->kept = pack->report;
        return PST_OK;
    }
    psti_writer_parts_undo(pack->parts, &pack->writer);
    uint64_t n_bad = pack->report.n_bad;
    pack->report = pack->kept;
    pack->report.n_bad = n_bad;
    return status;
}

/* Packs the planned shards of this part that are not packed yet. */
static enum pst_status pack_part(struct pack *pack, struct pst_error *err)
{
    const struct psti_pack_plan *plan = &pack->plan;
    const uint32_t n_parts = pack->options->n_parts;
    struct pst_pack_report *report = &pack->report;
    enum pst_status status = PST_OK;
    pack->n_total = 0;
    for (uint64_t i = pack->options->part - 1; i < plan->n_shards; i += n_parts) {
        report->n_shards++;
        pack->n_total += plan->first_sample[i + 1] - plan->first_sample[i];
    }
    for (uint64_t i = pack->options->part - 1; status == PST_OK && i < plan->n_shards;
         i += n_parts) {
        int64_t n_there;
        status = psti_writer_parts_look(pack->parts, (uint32_t)i, &n_there, err);
        if (status == PST_OK && n_there >= 0) {
            report->n_shards_before++;
            report->n_samples += (uint64_t)n_there;
            report->n_resumed += (uint64_t)n_there;
            pack->n_total -= plan->first_sample[i + 1] - plan->first_sample[i] - (uint64_t)n_there;
            pack->kept = *report;
            status = progress(pack, false, err);
        } else if (status == PST_OK) {
            pack->kept = *report;
            status = pack_shard(pack, (uint32_t)i, err);
        }
    }
    if (status == PST_OK && pack->options->progress != NULL)
        (void)progress(pack, true, NULL);
    return status;
}

static enum pst_status pack_in_parts(struct pack *pack, const char *destination,
                                     struct pst_error *err)
{
    const struct pst_pack_options *options = pack->options;
    struct psti_parts plan;
    enum pst_status status =
        psti_pack_cut_describe(&pack->plan, options->writer->shard_nbytes, &plan, err);
    if (status == PST_OK)
        status = psti_writer_parts_open(destination, &plan, pack->plan.first_sample, &pack->parts,
                                        err);
    if (status == PST_OK && options->prepare)
        pack->report.n_shards = plan.n_shards;
    else if (status == PST_OK)
        status = pack_part(pack, err);
    if (status != PST_OK)
        psti_error_set_dataset(err, destination);
    psti_writer_parts_close(&pack->parts);
    return status;
}

/* Whole --------------------------------------------------------------------- */

/* Plans the shards of a new data set. A resumed pack continues in the planned shard of its last
 * sample. */
static enum pst_status plan_shards(struct pack *pack, struct pst_error *err)
{
    return pack->plan.appends
               ? PST_OK
               : psti_pack_cut(&pack->plan, pack->options->writer->shard_nbytes, err);
}

static enum pst_status pack_into(struct pack *pack, const char *destination, struct pst_error *err)
{
    const struct pst_pack_options *options = pack->options;
    enum pst_status status =
        psti_pack_plan_make(&pack->plan, pack->source, destination, options, err);
    if (status == PST_OK)
        status = plan_shards(pack, err);
    if (status != PST_OK)
        return status;
    if (options->prepare || options->n_parts > 0)
        return pack_in_parts(pack, destination, err);
    status = pst_writer_open(destination, pack->plan.fields, pack->plan.n_fields, options->writer,
                             &pack->writer, err);
    if (status == PST_OK && options->writer->mode == PST_WRITER_RESUME)
        status = psti_pack_resume_check(&pack->plan, pack->writer, &pack->n_passed, err);
    while (pack->plan.n_shards > 0 && pack->n_passed > pack->plan.first_sample[pack->i_shard + 1])
        pack->i_shard++; /* advance to the shard of the last stored sample */
    if (status == PST_OK)
        status = psti_pack_plan_classes(&pack->plan, pack->writer, err);
    if (status == PST_OK && pack->plan.has_mix)
        psti_writer_set_mark(pack->writer, psti_pack_assign_mark(&pack->plan));
    if (status == PST_OK)
        status = with_workers(pack, err);
    if (status == PST_OK)
        status = pst_writer_finish(pack->writer, err);
    if (status != PST_OK)
        count_what_is_kept(pack);
    if (status == PST_OK && options->progress != NULL)
        (void)progress(pack, true, NULL); /* All samples are stored, so it is too late to cancel. */
    pst_writer_close(&pack->writer);
    return status;
}

/* True if `path`, which need not exist, is the directory itself (*same) or lies inside it. */
static bool lies_in(const char *path, const char *directory, bool *same)
{
    char full[PATH_MAX], known[PATH_MAX];
    struct stat wanted, st;
    *same = false;
    if (stat(directory, &wanted) != 0 ||
        snprintf(known, sizeof known, "%s", path) >= (int)sizeof known)
        return false;
    bool whole = true;
    while (realpath(known, full) == NULL) {
        size_t n = strlen(known);
        while (n > 1 && known[n - 1] == '/')
            n--;
        while (n > 0 && known[n - 1] != '/')
            n--;
        if (strcmp(known, ".") == 0 || strcmp(known, "/") == 0)
            return false;
        snprintf(known + n, sizeof known - n, "%s", n == 0 ? "." : "");
        whole = false;
    }
    for (;;) {
        if (stat(full, &st) == 0 && st.st_dev == wanted.st_dev && st.st_ino == wanted.st_ino) {
            *same = whole;
            return true;
        }
        whole = false;
        char *slash = strrchr(full, '/');
        if (slash == NULL || slash[1] == '\0')
            return false;
        slash[slash == full ? 1 : 0] = '\0';
    }
}

/* A source that is a data set must not be written into. But a source folder may contain the
 * destination. */
static enum pst_status check_apart(const pst_dataset *source, const char *destination,
                                   struct pst_error *err)
{
    bool same;
    if (!pst_dataset_is_packed(source) || !lies_in(destination, pst_dataset_path(source), &same))
        return PST_OK;
    enum pst_status status =
        psti_fail(err, PST_ERROR_ARGUMENT, "pack",
                  same ? "source and destination are the same data set"
                       : "the destination lies within the data set that is the source");
    psti_error_set_dataset(err, destination);
    return status;
}

static enum pst_status check_parts(const struct pst_pack_options *options, struct pst_error *err)
{
    if (options->n_parts == 0 && options->part == 0 && !options->prepare)
        return PST_OK;
    if (options->prepare && (options->n_parts > 0 || options->part > 0))
        return psti_fail(err, PST_ERROR_ARGUMENT, "pack",
                         "prepare makes a plan of shards only: it goes without part and n_parts");
    if (!options->prepare && (options->part == 0 || options->part > options->n_parts))
        return psti_fail(err, PST_ERROR_ARGUMENT, "pack",
                         "part is %u of n_parts %u: they count from 1", options->part,
                         options->n_parts);
    return options->writer->mode == PST_WRITER_CREATE
               ? PST_OK
               : psti_fail(err, PST_ERROR_ARGUMENT, "pack",
                           "only a new data set is packed in parts, and a part goes on without "
                           "being told to resume");
}

/* Copies the options into `filled` and `writer`, with defaults set. */
static enum pst_status take_options(const struct pst_pack_options *options,
                                    struct pst_pack_options *filled,
                                    struct pst_writer_options *writer, struct pst_error *err)
{
    enum pst_status status = psti_options_copy(filled, sizeof *filled, options, "pack", err);
    if (status == PST_OK)
        status = psti_options_complete(PST_STRUCT_PACK_OPTIONS, filled, "pack", err);
    if (status == PST_OK)
        status = psti_options_copy(writer, sizeof *writer, filled->writer, "pack", err);
    if (status == PST_OK)
        status = psti_options_complete(PST_STRUCT_WRITER_OPTIONS, writer, "pack", err);
    if (status != PST_OK)
        return status;
    if ((filled->n_forms > 0 && filled->forms == NULL) ||
        (filled->n_mask_forms > 0 && filled->mask_forms == NULL))
        return psti_fail(err, PST_ERROR_ARGUMENT, "pack", "forms is NULL, n_forms is %u",
                         filled->forms == NULL ? filled->n_forms : filled->n_mask_forms);
    filled->writer = writer;
    return check_parts(filled, err);
}

/* Opens the source, and calls options.source_opened. */
static enum pst_status open_source(struct pack *pack, const char *source, struct pst_error *err)
{
    const struct pst_pack_options *options = pack->options;
    enum pst_status status = pst_dataset_open(source, options->source, &pack->source, err);
    if (status != PST_OK)
        return status;
    pack->n_samples = pack->n_total = pst_dataset_count(pack->source);
    pack->report.n_skipped = pst_dataset_n_skipped(pack->source);
    if (options->source_opened != NULL && options->source_opened(options->ctx, pack->source) != 0)
        status = psti_fail(err, PST_ERROR_CANCELLED, "pack", "cancelled before the first sample");
    return status;
}

static void end_pack(struct pack *pack, struct pst_pack_report *report, size_t report_nbytes)
{
    if (report != NULL)
        psti_struct_write(report, report_nbytes, &pack->report, sizeof pack->report);
    psti_pack_plan_free(&pack->plan);
    pst_dataset_close(&pack->source);
    psti_free(pack);
}

enum pst_status pst_pack(const char *source, const char *destination,
                         const struct pst_pack_options *options, struct pst_pack_report *report,
                         size_t report_nbytes, struct pst_error *err)
{
    struct pst_pack_options filled;
    struct pst_writer_options writer;
    if (source == NULL || destination == NULL)
        return psti_fail(err, PST_ERROR_ARGUMENT, "pack", "source or destination is NULL");
    enum pst_status status = take_options(options, &filled, &writer, err);
    if (status != PST_OK)
        return status;
    struct pack *pack = psti_calloc(1, sizeof *pack);
    if (pack == NULL)
        return psti_fail(err, PST_ERROR_MEMORY, "pack", "out of memory");
    pack->options = &filled;
    status = open_source(pack, source, err);
    if (status == PST_OK)
        status = check_apart(pack->source, destination, err);
    if (status == PST_OK)
        status = pack_into(pack, destination, err);
    end_pack(pack, report, report_nbytes);
    return status;
}

/* In place ------------------------------------------------------------------ */

/* Ends the change in place. The source is closed first, because its lock on the old index would
 * keep the old shards. */
static enum pst_status finish_in_place(struct pack *pack, struct pst_error *err)
{
    pst_dataset_close(&pack->source);
    pack->plan.source = NULL;
    enum pst_status status = pst_writer_finish(pack->writer, err);
    pack->report.n_kept_files = psti_writer_rewrite_n_adopted(pack->writer);
    pack->report.waits = psti_writer_rewrite_waits(pack->writer);
    return status;
}

static enum pst_status change_in_place(struct pack *pack, const char *path, struct pst_error *err)
{
    const struct pst_pack_options *options = pack->options;
    bool done = false;
    pack->plan.in_place = true;
    pack->report.n_files = pst_dataset_n_files(pack->source);
    enum pst_status status = psti_pack_plan_make(&pack->plan, pack->source, path, options, err);
    if (status != PST_OK)
        return status;
    status = psti_writer_rewrite_open(
        path, pack->plan.fields, pack->plan.n_fields, psti_pack_assign_mark(&pack->plan),
        psti_dataset_bytes_identity(pack->source), options->writer, &done, &pack->writer, err);
    if (done) {
        pack->report.n_samples = pack->report.n_resumed = pack->n_samples;
        pack->report.n_kept_files = pack->report.n_files;
    }
    if (status != PST_OK || done)
        return status;
    pack->n_passed = pack->next_sample = pst_writer_count(pack->writer);
    pack->report.n_samples = pack->report.n_resumed = pack->n_passed;
    pack->kept = pack->report;
    status = with_workers(pack, err);
    if (status == PST_OK)
        status = finish_in_place(pack, err);
    else
        count_what_is_kept(pack);
    pst_writer_close(&pack->writer);
    return status;
}

enum pst_status pst_repack(const char *path, const struct pst_pack_options *options,
                           struct pst_pack_report *report, size_t report_nbytes,
                           struct pst_error *err)
{
    struct pst_pack_options filled;
    struct pst_writer_options writer;
    if (path == NULL)
        return psti_fail(err, PST_ERROR_ARGUMENT, "pack", "the path of the data set is NULL");
    enum pst_status status = take_options(options, &filled, &writer, err);
    if (status == PST_OK && (filled.n_parts > 0 || filled.prepare))
        status = psti_fail(err, PST_ERROR_ARGUMENT, "pack",
                           "a change in place is made by one process, not in parts");
    if (status == PST_OK && filled.plan == NULL && filled.n_forms + filled.n_mask_forms == 0)
        status =
            psti_fail(err, PST_ERROR_ARGUMENT, "pack", "a change in place needs a plan, or forms");
    if (status != PST_OK)
        return status;
    struct pack *pack = psti_calloc(1, sizeof *pack);
    if (pack == NULL)
        return psti_fail(err, PST_ERROR_MEMORY, "pack", "out of memory");
    pack->options = &filled;
    filled.made_for = PST_MADE_FOR_UNKNOWN; /* a change in place keeps the fields */
    status = psti_pack_refuse_others(path, err);
    if (status == PST_OK)
        status = open_source(pack, path, err);
    if (status == PST_OK && !pst_dataset_is_packed(pack->source)) {
        status = psti_fail(err, PST_ERROR_ARGUMENT, "pack",
                           "this is a plain folder, not a data set: pack it first");
        psti_error_set_dataset(err, path);
    }
    if (status == PST_OK)
        status = change_in_place(pack, path, err);
    end_pack(pack, report, report_nbytes);
    return status;
}
