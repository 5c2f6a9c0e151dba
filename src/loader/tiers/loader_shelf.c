/* loader_shelf.c - the shelf of sibling loaders: tracks which member needs which item, and who
 * reads and decodes it.
 *
 * One lock guards the whole shelf; no other lock is taken while it is held. A member's front is the
 * position that it has reached: it has asked for all earlier positions and will ask for all later
 * ones. So an item is needed by the members that hold it and by each member whose front is before
 * the item's position. If an item must be dropped because a member is far behind, that member
 * counts as lost: nothing is kept for it until it is near another member again.
 *
 * Waiting cannot form a cycle. Rows are located in the order of positions, and a row waits only for
 * items that were put on the shelf before any row of the reading loader at a later position. A
 * worker that decodes a picture waits for nothing on the shelf. A worker that uses its loader's
 * reserve memory never waits for a picture. */
#include "loader/tiers/loader_shelf.h"

#include "loader/loader_draw.h"
#include "loader/loader_handle.h"
#include "loader/tiers/loader_tier.h"

#include "base/alloc.h"
#include "base/bits.h"
#include "base/fail.h"
#include "base/machine/memory_limit.h"

#include <string.h>

enum { BUCKETS = 4096, MEMBERS_MAX = 64, PICTURES_MAX = 3, SPARES_MAX = 64 };
#define SHELF_PART 16 /* the shelf may take 1 / SHELF_PART of the memory free at its opening */
#define SHELF_NBYTES_MAX ((uint64_t)4 << 30)
#define SPARE_NBYTES_MAX ((uint64_t)64 << 20)
#define ALIGNMENT ((size_t)4096)
#define NEAR_ROWS 512 /* distance in rows; a lost member that is this near to another member counts
                         as lost no longer */
#define PADDING 64    /* unused bytes after the pixels, which kernels may read */
/* If a row needs less than 1 / SPARSE_PART of a PLI's bytes, these are read for this loader alone,
 * without the shelf. */
#define SPARSE_PART 4

struct place {
    uint64_t epoch, position;
};

struct psti_shelf_item {
    struct psti_shelf_item *next;          /* next item in the hash bucket, or in the list of
                                              free items */
    struct psti_shelf_item *older, *newer; /* neighbours in the list of items, sorted by when
                                              they were added */
    struct place place;
    uint64_t sample;
    uint32_t i_field, variant;
    uint32_t n_refs;
    uint64_t holders; /* bit m: member m holds the item */
    enum { ITEM_OPEN, ITEM_READING, ITEM_THERE } state;
    void *buffer; /* memory with the item's bytes; NULL: the bytes lie in the members' own memory */
    size_t capacity;
    const void *data;
    struct psti_shelf_picture pictures[PICTURES_MAX];
};

struct member {
    const pst_loader *loader; /* the loader that is this member; NULL: the entry is free */
    struct place front;
    bool begun, lost;
};

struct spare {
    void *bytes;
    size_t capacity;
};

struct psti_shelf {
    pthread_mutex_t lock;
    pthread_cond_t changed; /* signalled when a read or a picture is finished */
    uint32_t n_refs, n_members;
    struct member members[MEMBERS_MAX];
    struct psti_shelf_item *buckets[BUCKETS], *oldest, *newest, *free;
    struct spare spares[SPARES_MAX];
    uint32_t n_spares;
    uint64_t limit, nbytes, spare_nbytes; /* limit: bytes that the shelf may take; nbytes: bytes of
                                             all buffers, with the spare ones */
    struct psti_shelf_counts counts;
};

enum pst_status psti_loader_shelf_open(struct psti_shelf **out, struct pst_error *err)
{
    struct psti_shelf *shelf = *out = psti_calloc(1, sizeof *shelf);
    if (!shelf)
        return psti_fail(err, PST_ERROR_MEMORY, "loader", "no memory for a shelf");
    pthread_mutex_init(&shelf->lock, NULL);
    pthread_cond_init(&shelf->changed, NULL);
    shelf->n_refs = 1;
    shelf->limit = psti_memory_available() / SHELF_PART;
    if (shelf->limit > SHELF_NBYTES_MAX)
        shelf->limit = SHELF_NBYTES_MAX;
    return PST_OK;
}

struct psti_shelf *psti_loader_shelf_retain(struct psti_shelf *shelf)
{
    pthread_mutex_lock(&shelf->lock);
    shelf->n_refs++;
    pthread_mutex_unlock(&shelf->lock);
    return shelf;
}

void psti_loader_shelf_limit(struct psti_shelf *shelf, uint64_t nbytes)
{
    pthread_mutex_lock(&shelf->lock);
    shelf->limit = nbytes;
    pthread_mutex_unlock(&shelf->lock);
}

void psti_loader_shelf_counts(struct psti_shelf *shelf, struct psti_shelf_counts *counts)
{
    pthread_mutex_lock(&shelf->lock);
    *counts = shelf->counts;
    counts->nbytes_kept = shelf->nbytes - shelf->spare_nbytes;
    pthread_mutex_unlock(&shelf->lock);
}

/* Which groups of siblings still need an item
 * ------------------------------------------------------------------------------------------------
 */

static bool is_before(struct place a, struct place b)
{
    return a.epoch < b.epoch || (a.epoch == b.epoch && a.position < b.position);
}

/* True if the member delivers the field and variant of this item. */
static bool has_field(const struct member *member, uint32_t i_field, uint32_t variant)
{
    const struct psti_loader_plan *plan = &member->loader->plan;
    for (uint32_t i = 0; i < plan->n_fields; i++)
        if (plan->fields[i].i_item >= 0 && plan->fields[i].i_field == i_field &&
            plan->fields[i].variant_mask & (1u << variant))
            return true;
    return false;
}

/* True if the member will reach the position, in this epoch or the next. */
static bool will_come(const struct member *member, struct place place)
{
    return member->loader && !member->lost &&
           (!member->begun ||
            (is_before(member->front, place) && place.epoch - member->front.epoch <= 1));
}

static bool is_needed_by(const struct psti_shelf *shelf, const struct psti_shelf_item *item,
                         uint32_t i)
{
    const struct member *member = &shelf->members[i];
    return (item->holders & (uint64_t)1 << i) != 0 ||
           (will_come(member, item->place) && has_field(member, item->i_field, item->variant));
}

static bool is_needed(const struct psti_shelf *shelf, const struct psti_shelf_item *item)
{
    if (item->n_refs > 0)
        return true;
    for (uint32_t i = 0; i < MEMBERS_MAX; i++)
        if (is_needed_by(shelf, item, i))
            return true;
    return false;
}

/* Buffers and items
 * ------------------------------------------------------------------------------------------------
 */

static void put_buffer(struct psti_shelf *shelf, void *bytes, size_t capacity)
{
    if (!bytes)
        return;
    if (shelf->n_spares < SPARES_MAX && shelf->spare_nbytes + capacity <= SPARE_NBYTES_MAX) {
        shelf->spares[shelf->n_spares++] = (struct spare){bytes, capacity};
        shelf->spare_nbytes += capacity;
    } else {
        shelf->nbytes -= capacity;
        psti_free(bytes);
    }
}

static void free_spares(struct psti_shelf *shelf)
{
    while (shelf->n_spares > 0)
        psti_free(shelf->spares[--shelf->n_spares].bytes);
    shelf->nbytes -= shelf->spare_nbytes;
    shelf->spare_nbytes = 0;
}

static void remove_item(struct psti_shelf *shelf, struct psti_shelf_item *item);

/* Removes the oldest item that no row holds. Members that still needed it are marked as lost and
 * read it themselves. False: there is no such item. */
static bool give_up_oldest(struct psti_shelf *shelf)
{
    struct psti_shelf_item *item = shelf->oldest;
    while (item && item->n_refs > 0)
        item = item->newer;
    if (!item)
        return false;
    bool needed = false;
    for (uint32_t i = 0; i < MEMBERS_MAX; i++)
        if (is_needed_by(shelf, item, i))
            needed = shelf->members[i].lost = true;
    shelf->counts.n_given_up += needed;
    remove_item(shelf, item);
    for (item = shelf->oldest; item && needed;) {
        struct psti_shelf_item *newer = item->newer;
        if (!is_needed(shelf, item))
            remove_item(shelf, item);
        item = newer;
    }
    return true;
}

static void *take_spare(struct psti_shelf *shelf, size_t nbytes, size_t *capacity)
{
    uint32_t best = SPARES_MAX;
    for (uint32_t i = 0; i < shelf->n_spares; i++)
        if (shelf->spares[i].capacity >= nbytes &&
            shelf->spares[i].capacity / 2 <= nbytes + ALIGNMENT &&
            (best == SPARES_MAX || shelf->spares[i].capacity < shelf->spares[best].capacity))
            best = i;
    if (best == SPARES_MAX)
        return NULL;
    void *bytes = shelf->spares[best].bytes;
    *capacity = shelf->spares[best].capacity;
    shelf->spares[best] = shelf->spares[--shelf->n_spares];
    shelf->spare_nbytes -= *capacity;
    return bytes;
}

/* Returns a buffer of at least nbytes. NULL: all of the shelf's memory is in use, or the system has
 * none. */
static void *take_buffer(struct psti_shelf *shelf, size_t nbytes, size_t *capacity)
{
    void *bytes = take_spare(shelf, nbytes, capacity);
    if (bytes || nbytes > shelf->limit)
        return bytes;
    size_t all = psti_round_up(nbytes + nbytes / 8, ALIGNMENT);
    if (shelf->nbytes + all > shelf->limit)
        free_spares(shelf);
    while (shelf->nbytes + all > shelf->limit) {
        if (!give_up_oldest(shelf))
            return NULL;
        free_spares(shelf);
    }
    bytes = psti_alloc_aligned(ALIGNMENT, all);
    *capacity = all;
    shelf->nbytes += bytes ? all : 0;
    return bytes;
}

static struct psti_shelf_item **bucket_of(struct psti_shelf *shelf, struct place place,
                                          uint32_t i_field)
{
    return &shelf->buckets[(place.position * 5 + place.epoch * 1009 + i_field) % BUCKETS];
}

static struct psti_shelf_item *find_item(struct psti_shelf *shelf, struct place place,
                                         const struct psti_loader_source *source, uint32_t i_field)
{
    struct psti_shelf_item *item = *bucket_of(shelf, place, i_field);
    while (item && (item->place.position != place.position || item->place.epoch != place.epoch ||
                    item->i_field != i_field || item->variant != source->variant ||
                    item->sample != source->sample))
        item = item->next;
    return item;
}

static void remove_item(struct psti_shelf *shelf, struct psti_shelf_item *item)
{
    struct psti_shelf_item **at = bucket_of(shelf, item->place, item->i_field);
    while (*at != item)
        at = &(*at)->next;
    *at = item->next;
    *(item->older ? &item->older->newer : &shelf->oldest) = item->newer;
    *(item->newer ? &item->newer->older : &shelf->newest) = item->older;
    put_buffer(shelf, item->buffer, item->capacity);
    for (uint32_t i = 0; i < PICTURES_MAX; i++)
        put_buffer(shelf, item->pictures[i].pixels, item->pictures[i].capacity);
    item->next = shelf->free;
    shelf->free = item;
}

/* Adds an item to the shelf. nbytes: size of its buffer; 0: it needs none. NULL: out of memory. */
static struct psti_shelf_item *add_item(struct psti_shelf *shelf, struct place place,
                                        const struct psti_loader_source *source, uint32_t i_field,
                                        size_t nbytes)
{
    size_t capacity = 0;
    void *buffer = nbytes ? take_buffer(shelf, nbytes, &capacity) : NULL;
    if (nbytes && !buffer)
        return NULL;
    struct psti_shelf_item *item = shelf->free; /* read after take_buffer, which may have added
                                                   items to this list */
    if (item)
        shelf->free = item->next;
    else
        item = psti_alloc(sizeof *item);
    if (!item) {
        put_buffer(shelf, buffer, capacity);
        return NULL;
    }
    memset(item, 0, sizeof *item);
    item->place = place;
    item->sample = source->sample;
    item->i_field = i_field;
    item->variant = source->variant;
    item->buffer = buffer;
    item->capacity = capacity;
    item->older = shelf->newest;
    *(shelf->newest ? &shelf->newest->newer : &shelf->oldest) = item;
    shelf->newest = item;
    struct psti_shelf_item **bucket = bucket_of(shelf, place, i_field);
    item->next = *bucket;
    *bucket = item;
    return item;
}

/* Removes the oldest items that no member needs. */
static void tidy(struct psti_shelf *shelf)
{
    while (shelf->oldest && !is_needed(shelf, shelf->oldest))
        remove_item(shelf, shelf->oldest);
}

static void tidy_all(struct psti_shelf *shelf)
{
    for (struct psti_shelf_item *item = shelf->oldest, *newer; item; item = newer) {
        newer = item->newer;
        if (!is_needed(shelf, item))
            remove_item(shelf, item);
    }
}

void psti_loader_shelf_close(struct psti_shelf **shelf_ptr)
{
    struct psti_shelf *shelf = *shelf_ptr;
    *shelf_ptr = NULL;
    if (!shelf)
        return;
    pthread_mutex_lock(&shelf->lock);
    bool last = --shelf->n_refs == 0;
    pthread_mutex_unlock(&shelf->lock);
    if (!last)
        return;
    tidy_all(shelf); /* no member is left, so this removes every item */
    free_spares(shelf);
    while (shelf->free) {
        struct psti_shelf_item *item = shelf->free;
        shelf->free = item->next;
        psti_free(item);
    }
    pthread_cond_destroy(&shelf->changed);
    pthread_mutex_destroy(&shelf->lock);
    psti_free(shelf);
}

/* Members
 * ------------------------------------------------------------------------------------------------
 */

static enum pst_status open_shelf(pst_loader *loader, const struct psti_loader_slots *slots,
                                  bool *in_use, struct pst_error *err)
{
    struct psti_shelf *shelf = slots ? slots->shelf : NULL;
    (void)err;
    if (!shelf)
        return PST_OK;
    pthread_mutex_lock(&shelf->lock);
    for (uint32_t i = 0; i < MEMBERS_MAX && !loader->tiers.shelf; i++) {
        if (shelf->members[i].loader)
            continue;
        shelf->members[i] = (struct member){.loader = loader};
        shelf->n_members++;
        shelf->n_refs++;
        loader->tiers.shelf = shelf;
        loader->tiers.i_member = i;
    }
    pthread_mutex_unlock(&shelf->lock);
    *in_use = loader->tiers.shelf != NULL;
    return PST_OK;
}

static void leave(pst_loader *loader)
{
    struct psti_shelf *shelf = loader->tiers.shelf;
    if (!shelf)
        return;
    pthread_mutex_lock(&shelf->lock);
    shelf->members[loader->tiers.i_member].loader = NULL;
    shelf->n_members--;
    tidy_all(shelf);
    pthread_mutex_unlock(&shelf->lock);
    psti_loader_shelf_close(&loader->tiers.shelf);
}

/* True if another member's front is near the position. */
static bool is_near(const struct psti_shelf *shelf, uint32_t i_member, struct place place)
{
    for (uint32_t i = 0; i < MEMBERS_MAX; i++) {
        const struct member *other = &shelf->members[i];
        if (i != i_member && other->loader && other->begun && other->front.epoch == place.epoch &&
            other->front.position <= place.position + NEAR_ROWS &&
            place.position <= other->front.position + NEAR_ROWS)
            return true;
    }
    return false;
}

/* Moves the member's front, its newest position, to `place`. True if the member jumps: `place` does
 * not directly follow its previous position. */
static bool advance(struct psti_shelf *shelf, uint32_t i_member, struct place place)
{
    struct member *member = &shelf->members[i_member];
    bool jumps = !member->begun || place.epoch != member->front.epoch ||
                 place.position != member->front.position + 1;
    member->front = place;
    member->begun = true;
    if (member->lost)
        member->lost = !is_near(shelf, i_member, place);
    return jumps;
}

/* Rows
 * ------------------------------------------------------------------------------------------------
 */

/* True if another member will need the item. */
static bool others_need(const struct psti_shelf *shelf, uint32_t i_member, struct place place,
                        uint32_t i_field, uint32_t variant)
{
    for (uint32_t i = 0; i < MEMBERS_MAX; i++)
        if (i != i_member && will_come(&shelf->members[i], place) &&
            has_field(&shelf->members[i], i_field, variant))
            return true;
    return false;
}

/* True if the row needs only a small part of a large image. That part is then read for this loader
 * alone. */
static bool is_small_part(const struct psti_loader_source *source)
{
    uint64_t part = (uint64_t)source->stored.height * source->stored.width;
    uint64_t all = (uint64_t)source->drawn_for.height * source->drawn_for.width;
    return source->sparse && part < all / SPARSE_PART;
}

/* Finds the source's item on the shelf, or adds it if another member will need it. The bytes of the
 * row's block that the source no longer needs are subtracted from items->block_nbytes. */
static void ask_item(pst_loader *loader, struct psti_loader_source *source, uint32_t i_field,
                     struct place place, struct psti_loader_items *items)
{
    struct psti_shelf *shelf = loader->tiers.shelf;
    struct psti_shelf_item *item = find_item(shelf, place, source, i_field);
    if (!item) {
        size_t nbytes =
            source->data
                ? 0
                : psti_storage_buffer_nbytes(loader->storage, source->item.nbytes) + 2 * ALIGNMENT;
        if (is_small_part(source) ||
            !others_need(shelf, loader->tiers.i_member, place, i_field, source->variant))
            return;
        item = add_item(shelf, place, source, i_field, nbytes);
        if (!item)
            return;
    }
    source->shelved = item;
    item->n_refs++;
    item->holders |= (uint64_t)1 << loader->tiers.i_member;
    if (source->data || !item->buffer)
        return;
    source->sparse = false;
    items->block_nbytes -= psti_loader_source_buffer_nbytes(loader, source);
    source->reads_shelf = item->state == ITEM_OPEN;
    source->waits_shelf = item->state == ITEM_READING;
    if (item->state == ITEM_THERE) {
        source->data = item->data;
        shelf->counts.n_read_shared++;
        shelf->counts.nbytes_read_shared += source->item.nbytes;
    } else if (source->reads_shelf) {
        item->state = ITEM_READING;
        source->buffer = item->buffer;
    }
}

/* Moves the member's front to the row's position, and finds the row's items on the shelf or adds
 * them. */
static void join(pst_loader *loader, struct psti_loader_items *items, uint64_t epoch,
                 uint64_t position)
{
    struct psti_shelf *shelf = loader->tiers.shelf;
    const struct psti_loader_plan *plan = &loader->plan;
    const struct place place = {epoch, position};
    pthread_mutex_lock(&shelf->lock);
    bool jumps = advance(shelf, loader->tiers.i_member, place);
    for (uint32_t i = 0; items && i < plan->n_items; i++) {
        struct psti_loader_source *source = &items->sources[i];
        uint32_t i_field = plan->fields[plan->fields_of_items[i]].i_field;
        if (source->item.i_file != PST_FILE_NONE && source->item.nbytes > 0 && !source->asked &&
            shelf->n_members > 1)
            ask_item(loader, source, i_field, place, items);
        shelf->counts.n_cached += source->is_cached;
    }
    if (jumps)
        tidy_all(shelf);
    else
        tidy(shelf);
    pthread_mutex_unlock(&shelf->lock);
}

/* Marks the end of an item's read, and wakes the workers that wait for it. data NULL: the read
 * failed. */
static void end_read(struct psti_shelf *shelf, struct psti_shelf_item *item, const void *data)
{
    item->state = data ? ITEM_THERE : ITEM_OPEN;
    item->data = data;
    pthread_cond_broadcast(&shelf->changed);
}

static void note_read(pst_loader *loader, struct psti_loader_items *items,
                      const struct psti_read *read)
{
    struct psti_shelf *shelf = loader->tiers.shelf;
    bool first_round = items->state == PSTI_LOADER_ROW_ASKED, good = read->status == PST_OK;
    pthread_mutex_lock(&shelf->lock);
    shelf->counts.n_read += good && first_round;
    shelf->counts.nbytes_read += good ? read->nbytes : 0;
    for (uint32_t i = 0; i < loader->plan.n_items && first_round; i++) {
        struct psti_loader_source *source = &items->sources[i];
        if (source->read != read || !source->reads_shelf)
            continue;
        source->reads_shelf = false;
        end_read(shelf, source->shelved, good ? read->data : NULL);
    }
    pthread_mutex_unlock(&shelf->lock);
}

/* Waits for a change of the shelf, with the shelf's lock. Meanwhile the worker leaves its loader's
 * gate, which limits how many workers are busy, so that another worker may enter. */
static void wait_outside(const pst_loader *loader)
{
    struct psti_shelf *shelf = loader->tiers.shelf;
    if (!loader->crew.gate) {
        pthread_cond_wait(&shelf->changed, &shelf->lock);
        return;
    }
    psti_gate_leave(loader->crew.gate); /* this never waits */
    pthread_cond_wait(&shelf->changed, &shelf->lock);
    pthread_mutex_unlock(&shelf->lock);
    psti_gate_enter(loader->crew.gate);
    pthread_mutex_lock(&shelf->lock);
}

/* Reads an item in this thread, because the loader that was to read it has failed or given up. */
static enum pst_status read_here(struct psti_loader_worker *worker,
                                 struct psti_loader_source *source, struct pst_error *err)
{
    pst_loader *loader = worker->loader;
    struct psti_shelf *shelf = loader->tiers.shelf;
    struct psti_read *read = &worker->items.reads[0];
    memset(read, 0, sizeof *read);
    read->file = source->file;
    read->path = source->path;
    read->stamp = source->stamp;
    read->offset = source->item.offset;
    read->nbytes = source->item.nbytes;
    read->buffer = source->shelved->buffer;
    read->drop = source->is_wanted;
    enum pst_status status = psti_loader_worker_run_read(worker, read);
    pthread_mutex_lock(&shelf->lock);
    shelf->counts.n_read += status == PST_OK;
    shelf->counts.nbytes_read += status == PST_OK ? read->nbytes : 0;
    end_read(shelf, source->shelved, status == PST_OK ? read->data : NULL);
    pthread_mutex_unlock(&shelf->lock);
    source->data = status == PST_OK ? read->data : NULL;
    if (status != PST_OK && err)
        *err = read->error;
    return status;
}

static enum pst_status await_item(struct psti_loader_worker *worker,
                                  struct psti_loader_source *source, struct pst_error *err)
{
    struct psti_shelf *shelf = worker->loader->tiers.shelf;
    struct psti_shelf_item *item = source->shelved;
    pthread_mutex_lock(&shelf->lock);
    while (item->state == ITEM_READING)
        wait_outside(worker->loader);
    bool there = item->state == ITEM_THERE;
    if (there) {
        source->data = item->data;
        shelf->counts.n_read_shared++;
        shelf->counts.nbytes_read_shared += source->item.nbytes;
    } else {
        item->state = ITEM_READING;
    }
    source->waits_shelf = false;
    pthread_mutex_unlock(&shelf->lock);
    return there ? PST_OK : read_here(worker, source, err);
}

/* Waits for items that other loaders read. If such a read fails, reads the item in this thread. */
static enum pst_status await(struct psti_loader_worker *worker, struct psti_loader_items *items,
                             struct pst_error *err)
{
    pst_loader *loader = worker->loader;
    for (uint32_t i = 0; i < loader->plan.n_items; i++) {
        struct psti_loader_source *source = &items->sources[i];
        enum pst_status status = source->waits_shelf ? await_item(worker, source, err) : PST_OK;
        if (status != PST_OK) {
            psti_loader_source_name_error(loader, items->sample, source, err);
            return status;
        }
    }
    return PST_OK;
}

static void release(pst_loader *loader, struct psti_loader_items *items)
{
    struct psti_shelf *shelf = loader->tiers.shelf;
    pthread_mutex_lock(&shelf->lock);
    for (uint32_t i = 0; i < loader->plan.n_items; i++) {
        struct psti_loader_source *source = &items->sources[i];
        struct psti_shelf_item *item = source->shelved;
        if (!item)
            continue;
        if (source->reads_shelf) /* true if the row was dropped before its read of the item began */
            end_read(shelf, item, NULL);
        source->shelved = NULL;
        source->reads_shelf = source->waits_shelf = false;
        item->holders &= ~((uint64_t)1 << loader->tiers.i_member);
        item->n_refs--;
        if (!is_needed(shelf, item))
            remove_item(shelf, item);
    }
    pthread_mutex_unlock(&shelf->lock);
}

/* Pictures
 * ------------------------------------------------------------------------------------------------
 */

static bool is_of_kind(const struct psti_shelf_picture *a, const struct psti_shelf_picture *b)
{
    return a->options.channels == b->options.channels && a->options.bits == b->options.bits &&
           a->options.ignore_orientation == b->options.ignore_orientation &&
           a->options.palette_indices == b->options.palette_indices &&
           a->options.max_pixels == b->options.max_pixels && a->orientation == b->orientation &&
           a->scale_log2 == b->scale_log2;
}

static bool covers(const struct psti_rect *a, const struct psti_rect *b)
{
    return a->y <= b->y && a->x <= b->x && a->y + a->height >= b->y + b->height &&
           a->x + a->width >= b->x + b->width;
}

static void extend(struct psti_rect *a, const struct psti_rect *b)
{
    uint32_t bottom = a->y + a->height, right = a->x + a->width;
    a->y = a->y < b->y ? a->y : b->y;
    a->x = a->x < b->x ? a->x : b->x;
    a->height = (bottom > b->y + b->height ? bottom : b->y + b->height) - a->y;
    a->width = (right > b->x + b->width ? right : b->x + b->width) - a->x;
}

static struct psti_shelf_picture describe(const struct psti_image *image,
                                          const struct psti_loader_plan_field *plan,
                                          const struct psti_draw *draw)
{
    uint8_t channels, bits;
    psti_decode_output(&image->info, &plan->decode, &channels, &bits);
    return (struct psti_shelf_picture){
        .options = plan->decode,
        .orientation = image->info.orientation,
        .scale_log2 = draw->scale_log2,
        .rect = {draw->region_y, draw->region_x, draw->region_height, draw->region_width},
        .pixel_nbytes = (size_t)channels * (bits == 16 ? 2 : 1)};
}

/* Extends the picture's rectangle to the pixels that other members will need. Returns how many
 * members will use the picture. *n_apart: how many need pixels of another kind. */
static uint32_t gather(const pst_loader *loader, const struct psti_image *image,
                       const struct psti_draw_key *key, struct psti_shelf_picture *picture,
                       uint32_t *n_apart)
{
    const struct psti_shelf *shelf = loader->tiers.shelf;
    const struct psti_shelf_item *item = image->source->shelved;
    struct psti_draw draw;
    uint32_t n = 0;
    *n_apart = 0;
    for (uint32_t i = 0; i < MEMBERS_MAX; i++) {
        const struct member *member = &shelf->members[i];
        if (i == loader->tiers.i_member || !is_needed_by(shelf, item, i))
            continue;
        bool takes = false;
        for (uint32_t k = 0; k < member->loader->plan.n_fields; k++) {
            const struct psti_loader_plan_field *plan = &member->loader->plan.fields[k];
            if (plan->fill != PSTI_LOADER_FILL_PIXELS || plan->i_field != item->i_field ||
                plan->n_views || /* views are decoded together, without pictures of the shelf */
                psti_loader_draw(member->loader, plan, image->source, key, &image->info, &draw,
                                 NULL) != PST_OK)
                continue;
            struct psti_shelf_picture other = describe(image, plan, &draw);
            if (!is_of_kind(&other, picture))
                continue;
            extend(&picture->rect, &other.rect);
            takes = true;
        }
        n += takes;
        *n_apart += !takes;
    }
    return n;
}

static struct psti_shelf_picture *find_picture(struct psti_shelf_item *item,
                                               const struct psti_shelf_picture *wanted)
{
    for (uint32_t i = 0; i < PICTURES_MAX; i++)
        if (item->pictures[i].state != PSTI_PICTURE_NONE && is_of_kind(&item->pictures[i], wanted))
            return &item->pictures[i];
    return NULL;
}

/* Adds a picture to the item, if other members will use it. NULL: none will, or there is no
 * space. */
static struct psti_shelf_picture *add_picture(pst_loader *loader, const struct psti_image *image,
                                              const struct psti_draw_key *key,
                                              struct psti_shelf_picture wanted)
{
    struct psti_shelf *shelf = loader->tiers.shelf;
    struct psti_shelf_picture *picture = NULL;
    uint32_t n_apart;
    bool taken = gather(loader, image, key, &wanted, &n_apart) > 0;
    shelf->counts.n_apart += n_apart > 0;
    for (uint32_t i = 0; i < PICTURES_MAX && !picture && taken; i++)
        if (image->source->shelved->pictures[i].state == PSTI_PICTURE_NONE)
            picture = &image->source->shelved->pictures[i];
    if (!picture)
        return NULL;
    wanted.row_nbytes = wanted.rect.width * wanted.pixel_nbytes;
    size_t nbytes = wanted.row_nbytes * wanted.rect.height + PADDING;
    wanted.pixels = picture->pixels;
    wanted.capacity = picture->capacity;
    if (wanted.capacity < nbytes) {
        put_buffer(shelf, picture->pixels, picture->capacity);
        picture->pixels = NULL;
        picture->capacity = 0;
        wanted.pixels = take_buffer(shelf, nbytes, &wanted.capacity);
    }
    if (!wanted.pixels)
        return NULL;
    wanted.state = PSTI_PICTURE_MAKING;
    *picture = wanted;
    return picture;
}

enum psti_shelf_answer psti_loader_shelf_picture(struct psti_loader_worker *worker,
                                                 const struct psti_image *image,
                                                 const struct psti_draw_key *key,
                                                 struct psti_shelf_picture **picture)
{
    pst_loader *loader = worker->loader;
    struct psti_shelf *shelf = loader->tiers.shelf;
    struct psti_shelf_item *item = image->source->shelved;
    const struct psti_shelf_picture wanted = describe(image, image->plan, image->draw);
    enum psti_shelf_answer answer = PSTI_SHELF_ALONE;
    pthread_mutex_lock(&shelf->lock);
    *picture = find_picture(item, &wanted);
    while (*picture && (*picture)->state == PSTI_PICTURE_MAKING &&
           covers(&(*picture)->rect, &wanted.rect) && !worker->has_reserve) {
        wait_outside(loader);
        *picture = find_picture(item, &wanted);
    }
    if (!*picture && !image->source->partial) {
        *picture = add_picture(loader, image, key, wanted);
        answer = *picture ? PSTI_SHELF_MAKE : PSTI_SHELF_ALONE;
    } else if (*picture && (*picture)->state == PSTI_PICTURE_THERE &&
               covers(&(*picture)->rect, &wanted.rect)) {
        shelf->counts.n_decoded_shared++;
        answer = PSTI_SHELF_TAKE;
    }
    pthread_mutex_unlock(&shelf->lock);
    return answer;
}

void psti_loader_shelf_made(pst_loader *loader, struct psti_shelf_picture *picture, bool good)
{
    struct psti_shelf *shelf = loader->tiers.shelf;
    pthread_mutex_lock(&shelf->lock);
    picture->state = good ? PSTI_PICTURE_THERE : PSTI_PICTURE_NONE;
    shelf->counts.n_decoded += good;
    pthread_cond_broadcast(&shelf->changed);
    pthread_mutex_unlock(&shelf->lock);
}

void psti_loader_shelf_decoded(pst_loader *loader)
{
    pthread_mutex_lock(&loader->tiers.shelf->lock);
    loader->tiers.shelf->counts.n_decoded++;
    pthread_mutex_unlock(&loader->tiers.shelf->lock);
}

const struct psti_loader_tier_ops psti_loader_tier_shelf = {
    .open = open_shelf,
    .close = leave,
    .join = join,
    .note_read = note_read,
    .await = await,
    .release = release,
};
