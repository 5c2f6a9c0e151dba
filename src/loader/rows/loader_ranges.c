/* loader_ranges.c - reads only those parts of a PLI (pixels or coefficients) that a row needs.
 *
 * In: a located row. If the operations need only a region of a large PLI, its head is read first. A
 * second round reads the units that the region touches, each to its place in a buffer of the item's
 * full size. The decoder never reads the bytes between them.
 *
 * The item's own checksum covers all bytes, so it cannot be compared then. The checksums of head
 * and units are compared instead, and the head must state the pixel checksum that the index has for
 * the item. After any mismatch the second round reads all other bytes, and then the item is checked
 * like any other, and fails. No locks; only the thread that has the row calls. */
#include "loader/loader_fallback.h"
#include "loader/loader_draw.h"
#include "loader/loader_handle.h"
#include "loader/loader_plan.h"
#include "loader/rows/loader_ranges.h"
#include "loader/rows/loader_sound.h"

#include "base/bits.h"
#include "pli/pli.h"

#include <string.h>

/* A read in parts must save at least SAVE_NBYTES and 1 / SAVE_SHARE of the item. */
#define SAVE_NBYTES ((uint64_t)64 << 10)
#define SAVE_SHARE 4
/* A gap up to this size is read along, because that is faster than another read. */
#define GAP_NBYTES ((uint64_t)8 << 10)
/* Bytes of head and model, with some reserve. The size of the PLI's index is added. */
#define HEAD_NBYTES 2048
#define BLOCK_NBYTES 4096
#define RANGES_CAP 128

/* True if reading the image in two rounds saves enough. The second round costs one more request, so
 * it must save more bytes than a gap that the storage would read along to save a request. */
static bool saves_enough(const pst_loader *loader, uint64_t skipped, uint64_t nbytes)
{
    return skipped >= SAVE_NBYTES && skipped >= nbytes / SAVE_SHARE &&
           skipped > psti_storage_gap(loader->storage);
}

/* Returns how many units of the smallest size cover a region of the image. */
static uint64_t n_cells(uint32_t y, uint32_t x, uint32_t height, uint32_t width)
{
    enum { EDGE = 1 << PSTI_PLI_UNIT_LOG2_MIN };
    return (uint64_t)psti_pli_units_along(y, height, EDGE) * psti_pli_units_along(x, width, EDGE);
}

/* True if the PLI stores height and width swapped. The index states them as shown. */
static bool is_turned(const struct pst_item *item)
{
    return item->form == PST_FORM_PLI_JPEG && item->orientation >= 5;
}

void psti_loader_ranges_consider(const pst_loader *loader, const struct psti_draw_key *key,
                                 const struct psti_loader_plan_field *field,
                                 struct psti_loader_source *source)
{
    const struct pst_item *item = &source->item;
    const struct psti_draw *draw = &source->draw;
    struct pst_image_info info = {.form = item->form,
                                  .height = item->height,
                                  .width = item->width,
                                  .orientation = item->orientation};
    if (field->decode.ignore_orientation && is_turned(item)) {
        info.height = item->width;
        info.width = item->height;
    }
    if (!field->may_skip || (item->form != PST_FORM_PLI && item->form != PST_FORM_PLI_JPEG) ||
        !source->file || !item->height || !item->width ||
        !saves_enough(loader, item->nbytes, item->nbytes) ||
        psti_loader_draw(loader, field, source, key, &info, &source->draw, NULL) != PST_OK)
        return;
    source->is_drawn = true;
    source->drawn_for = info;
    const struct psti_rect region = {draw->region_y, draw->region_x, draw->region_height,
                                     draw->region_width};
    const struct psti_rect stored =
        psti_decode_stored(&info, &field->decode, draw->scale_log2, &region);
    uint64_t cells = n_cells(0, 0, info.height, info.width);
    uint64_t touched = n_cells(stored.y, stored.x, stored.height, stored.width);
    double share = (double)(cells - touched) / (double)cells;
    uint64_t head = HEAD_NBYTES + PSTI_PLI_INDEX_ENTRY_MAX * cells;
    /* The second round begins at a block of the file, because O_DIRECT reads whole blocks. */
    head = psti_round_up(item->offset + head, BLOCK_NBYTES) - item->offset;
    if (head >= item->nbytes ||
        !saves_enough(loader, (uint64_t)(share * (double)item->nbytes), item->nbytes))
        return;
    source->sparse = true;
    source->n_here = (size_t)head;
    source->stored = stored;
}

/* True if the head is complete and belongs to the item in the index. Its header is kept for the
 * decoder. */
static bool head_is_good(const pst_loader *loader, struct psti_loader_source *source)
{
    const struct pst_item *item = &source->item;
    struct pst_pli_info info = {0};
    bool turned = is_turned(item);
    if (psti_pli_parse_header(source->data, source->n_here, &source->pli, NULL) != PST_OK) {
        source->pli.width = 0;
        return false;
    }
    return psti_pli_describe(&source->pli, source->data, source->n_here, &info, NULL) == PST_OK &&
           info.head_nbytes <= source->n_here && info.nbytes == item->nbytes &&
           info.height == (turned ? item->width : item->height) &&
           info.width == (turned ? item->height : item->width) &&
           (info.content == PST_PLI_CONTENT_JPEG) == (item->form == PST_FORM_PLI_JPEG) &&
           (item->form != PST_FORM_PLI_JPEG || info.orientation == item->orientation) &&
           (loader->options.no_verify || (info.has_checksums && item->has_pixel_checksum &&
                                          info.pixel_checksum == item->pixel_checksum));
}

/* Rounds ranges to blocks of the file (for O_DIRECT), removes the bytes that are already read, and
 * merges ranges that touch. Returns how many remain. */
static size_t tidy(const pst_loader *loader, const struct psti_loader_source *source,
                   struct pst_pli_range *ranges, size_t n)
{
    uint64_t alignment = psti_storage_buffer_alignment(loader->storage), base = source->item.offset;
    size_t n_out = 0;
    alignment = alignment < BLOCK_NBYTES ? 1 : alignment;
    for (size_t i = 0; i < n; i++) {
        uint64_t first = base + ranges[i].offset, end = first + ranges[i].nbytes;
        first -= first % alignment;
        end = (end + alignment - 1) / alignment * alignment;
        first = first > base + source->n_here ? first - base : source->n_here;
        end = end < base + source->item.nbytes ? end - base : source->item.nbytes;
        if (end <= first)
            continue;
        struct pst_pli_range *last = n_out > 0 ? &ranges[n_out - 1] : NULL;
        if (last && first <= last->offset + last->nbytes + GAP_NBYTES)
            last->nbytes = end - last->offset;
        else
            ranges[n_out++] = (struct pst_pli_range){first, end - first};
    }
    return n_out;
}

/* Merges the ranges with the smallest gaps until at most `most` ranges are left. */
static size_t reduce(struct pst_pli_range *ranges, size_t n, size_t most)
{
    while (n > most) {
        size_t best = 1;
        uint64_t smallest = UINT64_MAX;
        for (size_t i = 1; i < n; i++) {
            uint64_t gap = ranges[i].offset - ranges[i - 1].offset - ranges[i - 1].nbytes;
            if (gap < smallest) {
                smallest = gap;
                best = i;
            }
        }
        ranges[best - 1].nbytes =
            ranges[best].offset + ranges[best].nbytes - ranges[best - 1].offset;
        memmove(&ranges[best], &ranges[best + 1], (n - best - 1) * sizeof *ranges);
        n--;
    }
    return n;
}

/* Chooses the ranges that the second round reads. Sets source->partial if bytes are left out. */
static size_t choose(const pst_loader *loader, struct psti_loader_source *source,
                     struct pst_pli_range ranges[RANGES_CAP])
{
    const struct psti_rect *r = &source->stored;
    const struct pst_pli_region region = {r->y, r->x, r->height, r->width};
    size_t n = 0;
    source->partial = false;
    if (head_is_good(loader, source) &&
        psti_pli_find_ranges(&source->pli, source->data, &region, ranges, RANGES_CAP, &n, NULL) ==
            PST_OK &&
        n <= RANGES_CAP) {
        uint64_t skipped = source->item.nbytes - source->n_here;
        n = reduce(ranges, tidy(loader, source, ranges, n), PSTI_LOADER_RANGES_MAX);
        for (size_t i = 0; i < n; i++)
            skipped -= ranges[i].nbytes;
        source->partial = saves_enough(loader, skipped, source->item.nbytes);
    }
    if (source->partial)
        return n;
    ranges[0] = (struct pst_pli_range){source->n_here, source->item.nbytes - source->n_here};
    return 1;
}

uint32_t psti_loader_ranges_reads(pst_loader *loader, struct psti_loader_source *sources,
                                  struct psti_read *reads)
{
    struct pst_pli_range ranges[RANGES_CAP];
    uint32_t n_reads = 0;
    for (uint32_t i = 0; i < loader->plan.n_items; i++) {
        struct psti_loader_source *source = &sources[i];
        if (!source->sparse)
            continue;
        const struct psti_loader_plan_field *field =
            &loader->plan.fields[loader->plan.fields_of_items[i]];
        if (field->fill == PSTI_LOADER_FILL_SOUND) {
            ranges[0] = psti_loader_sound_range(loader, field, source);
            source->n_more = ranges[0].nbytes > 0;
        } else {
            source->n_more = (uint32_t)choose(loader, source, ranges);
            psti_loader_fell_back(loader, PST_FALLBACK_RANGE, !source->partial);
        }
        for (uint32_t k = 0; k < source->n_more; k++) {
            struct psti_read *read = &reads[n_reads++];
            read->file = source->file;
            read->path = source->path;
            read->stamp = source->stamp;
            read->file_nbytes = source->path ? source->item.nbytes : 0;
            read->offset = source->item.offset + ranges[k].offset;
            read->nbytes = (size_t)ranges[k].nbytes;
            read->drop = false;
            read->buffer = (char *)source->buffer +
                           ((const char *)source->data - (char *)source->buffer) + ranges[k].offset;
            read->data = NULL;
            read->status = PST_OK;
        }
    }
    return n_reads;
}

enum pst_status psti_loader_ranges_take(const pst_loader *loader, uint64_t sample,
                                        const struct psti_loader_source *sources,
                                        const struct psti_read *reads, struct pst_error *err)
{
    for (uint32_t i = 0; i < loader->plan.n_items; i++)
        for (uint32_t k = 0; k < sources[i].n_more; k++, reads++) {
            if (reads->status == PST_OK)
                continue;
            if (err)
                *err = reads->error;
            psti_loader_source_name_error(loader, sample, &sources[i], err);
            return reads->status;
        }
    return PST_OK;
}
