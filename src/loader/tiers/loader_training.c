/* loader_training.c - makes pictures at the training size for caches, and reads them again.
 *
 * In: an image's bytes and the rule of its field. Out: a header (struct head), and the picture
 * after those operations that leave the fewest pixels, as pixels or as PLI. Memory is allocated for
 * one image and freed after it, at most tools->recode.nbytes_max, besides the scratch of the
 * caller's tools. Any thread, with tools of its own. */
#include "loader/tiers/loader_training.h"

#include "base/alloc.h"
#include "base/bits.h"
#include "base/checked.h"
#include "base/fail.h"
#include "pli/pli.h"

#include <string.h>

/* Header before a kept picture. It has the members of psti_training_picture, and zeros. */
struct head {
    uint32_t height, width, whole_height, whole_width;
    uint8_t channels, bits, orientation, n_ops;
    uint8_t zero[12];
};
_Static_assert(sizeof(struct head) == 32, "a multiple of 16, without padding");

size_t psti_loader_training_prefix(const struct pst_op *ops, size_t n_ops, size_t *i_op)
{
    size_t n = psti_augment_ops_fixed(ops, n_ops);
    *i_op = n;
    for (size_t i = 0; i < n; i++)
        if (ops[i].kind != PST_OP_PAD)
            return n;
    return 0;
}

const struct psti_training_field *psti_loader_training_field_of(const struct psti_training *rule,
                                                                uint32_t i_field)
{
    for (uint32_t i = 0; i < rule->n_fields; i++)
        if (rule->fields[i].i_field == i_field)
            return &rule->fields[i];
    return NULL;
}

/* The picture
 * ------------------------------------------------------------------------------------------------
 */

static struct pst_decode_options options_of(const struct psti_training_field *field)
{
    return (struct pst_decode_options){.struct_size = sizeof(struct pst_decode_options),
                                       .channels = field->channels,
                                       .bits = field->bits,
                                       .ignore_orientation = field->ignore_orientation,
                                       .palette_indices = field->is_mask,
                                       .max_pixels = field->max_pixels};
}

/* Compiles the first n operations into a chain whose output stays pixels of `bits` bits. */
static enum pst_status compile(const struct psti_training_field *field, size_t n, uint8_t channels,
                               uint8_t bits, struct psti_chain **out)
{
    struct pst_op ops[PSTI_AUGMENT_MAX_OPS];
    for (size_t i = 0; i < n; i++) {
        ops[i] = field->ops[i];
        for (int c = 0; c < 4 && field->widens && bits == 16; c++)
            ops[i].fill[c] *= 257;
    }
    const struct psti_chain_output output = {.dtype = bits == 16 ? PST_DTYPE_U16 : PST_DTYPE_U8,
                                             .layout = PST_LAYOUT_HWC,
                                             .channels = channels,
                                             .bits = bits,
                                             .is_mask = field->is_mask};
    return psti_augment_chain_compile(ops, n, &output, out, NULL);
}

/* State while one picture is made. */
struct making {
    const struct psti_training_tools *tools;
    const struct psti_training_field *field;
    const struct psti_recode_source *source;
    struct pst_decode_options options;
    struct pst_image_info info;
    struct psti_pli_header pli;
    struct head head;
    struct psti_chain *chain; /* chain of the operations that are applied */
    struct psti_draw draw;
    size_t row_nbytes, nbytes; /* length of a line of the picture, and of the whole picture */
};

/* Finds the number of operations after which the picture has the fewest pixels, and the size of
 * that picture. */
static enum pst_status choose(struct making *m, uint32_t *n_ops)
{
    static const struct psti_draw_key none;
    const struct psti_training_field *field = m->field;
    uint64_t least = (uint64_t)m->info.height * m->info.width;
    *n_ops = 0;
    enum pst_status status =
        compile(field, field->n_ops, m->head.channels, m->head.bits, &m->chain);
    if (status == PST_OK)
        status =
            psti_augment_chain_draw(m->chain, &none, m->info.height, m->info.width, &m->draw, NULL);
    for (uint32_t n = 1; status == PST_OK && n <= field->n_ops; n++) {
        uint32_t height, width;
        psti_augment_chain_size_after(m->chain, &m->draw, n, &height, &width);
        if ((uint64_t)height * width >= least)
            continue;
        least = (uint64_t)height * width;
        m->head.height = height;
        m->head.width = width;
        *n_ops = n;
    }
    if (status != PST_OK || *n_ops == 0 || *n_ops == field->n_ops)
        return status;
    psti_augment_chain_free(&m->chain);
    status = compile(field, *n_ops, m->head.channels, m->head.bits, &m->chain);
    if (status == PST_OK)
        status =
            psti_augment_chain_draw(m->chain, &none, m->info.height, m->info.width, &m->draw, NULL);
    return status;
}

/* Decodes the image and applies the operations, which gives the picture at the training size. */
static enum pst_status draw_once(struct making *m, struct psti_decoder *decoder,
                                 struct psti_run *run, void *pixels)
{
    const struct psti_rect region = {m->draw.region_y, m->draw.region_x, m->draw.region_height,
                                     m->draw.region_width};
    const struct psti_target target = {.data = pixels, .row_nbytes = m->row_nbytes};
    const struct psti_recode_source *source = m->source;
    enum pst_form form = m->info.form;
    bool is_pli = form == PST_FORM_PLI || form == PST_FORM_PLI_JPEG;
    enum pst_status status = psti_augment_run_begin(run, m->chain, &m->draw, &target, NULL);
    if (status == PST_OK)
        status = psti_decode_rows_scaled(decoder, source->bytes, (size_t)source->nbytes, &m->info,
                                         is_pli ? &m->pli : NULL, &m->options, 0, &region,
                                         psti_augment_run_rows, run, NULL);
    return status == PST_OK ? psti_augment_run_end(run, NULL) : status;
}

static enum pst_status draw_picture(struct making *m, void *pixels)
{
    const struct psti_recode_tools *tools = &m->tools->recode;
    struct psti_decoder *decoder = tools->decoder(tools->ctx, false);
    struct psti_run *own = NULL;
    enum pst_status status = PST_ERROR_MEMORY;
    if (!m->tools->run && psti_augment_run_open(&own, NULL) != PST_OK)
        return PST_ERROR_MEMORY;
    while (decoder) {
        struct psti_run *run = own ? own : m->tools->run(tools->ctx);
        status = run ? draw_once(m, decoder, run, pixels) : PST_ERROR_MEMORY;
        decoder = status == PST_ERROR_LIMIT ? tools->decoder(tools->ctx, true) : NULL;
    }
    psti_augment_run_close(&own);
    return status;
}

static enum pst_status store_raw(struct making *m, struct psti_buffer *out,
                                 struct psti_recoded *recoded)
{
    uint64_t nbytes = sizeof m->head + (uint64_t)m->nbytes;
    if (nbytes > m->tools->recode.nbytes_max)
        return PST_ERROR_LIMIT;
    enum pst_status status = psti_buffer_reserve(out, nbytes, "loader", "for a picture", NULL);
    if (status == PST_OK) {
        memcpy(out->bytes, &m->head, sizeof m->head);
        status = draw_picture(m, (char *)out->bytes + sizeof m->head);
    }
    *recoded = (struct psti_recoded){out->bytes, nbytes, PST_FORM_RAW};
    return status;
}

static struct pst_pixels pixels_of(const struct head *head, void *data)
{
    uint8_t pixel_nbytes = (uint8_t)(head->channels * (head->bits / 8));
    return (struct pst_pixels){.data = data,
                               .height = head->height,
                               .width = head->width,
                               .channels = head->channels,
                               .bits = head->bits,
                               .row_nbytes = (int64_t)head->width * pixel_nbytes,
                               .pixel_nbytes = pixel_nbytes,
                               .channel_nbytes = head->bits / 8};
}

uint64_t psti_loader_training_nbytes(const void *picture)
{
    struct head head;
    memcpy(&head, picture, sizeof head);
    const struct pst_pixels pixels = pixels_of(&head, NULL);
    return sizeof head + (uint64_t)pixels.row_nbytes * head.height;
}

enum pst_status psti_loader_training_encode(const struct psti_recode_tools *tools,
                                            enum pst_cache_form form, void *picture,
                                            struct psti_buffer *out, struct psti_recoded *recoded)
{
    struct head head;
    memcpy(&head, picture, sizeof head);
    const struct pst_pixels pixels = pixels_of(&head, (char *)picture + sizeof head);
    if (!psti_decode_recode_fits(tools, &pixels, sizeof head))
        return PST_ERROR_LIMIT;
    enum pst_pli_tier tier =
        form == PST_CACHE_FORM_PLI_FAST ? PST_PLI_TIER_FAST : PST_PLI_TIER_SMALL;
    enum pst_status status =
        psti_decode_recode_pixels(tools, tier, &pixels, sizeof head, out, recoded);
    if (status == PST_OK)
        memcpy(out->bytes, &head, sizeof head);
    return status;
}

static enum pst_status store_pli(struct making *m, enum pst_cache_form form,
                                 struct psti_buffer *out, struct psti_recoded *recoded)
{
    struct psti_buffer picture = {0};
    const struct pst_pixels pixels = pixels_of(&m->head, NULL);
    if (!psti_decode_recode_fits(&m->tools->recode, &pixels, sizeof m->head))
        return PST_ERROR_LIMIT;
    enum pst_status status = store_raw(m, &picture, recoded);
    if (status == PST_OK)
        status = psti_loader_training_encode(&m->tools->recode, form, picture.bytes, out, recoded);
    psti_buffer_free(&picture);
    return status;
}

/* Reads the image's header. False: the image must be kept whole. */
static bool read_header(struct making *m)
{
    const struct psti_recode_source *source = m->source;
    m->info = source->raw;
    m->options.orientation = source->orientation;
    if (source->nbytes > SIZE_MAX ||
        psti_decode_probe_pli(source->bytes, (size_t)source->nbytes, source->form, &m->options,
                              &m->info, &m->pli, NULL) != PST_OK)
        return false;
    psti_decode_output(&m->info, &m->options, &m->head.channels, &m->head.bits);
    m->head.whole_height = m->info.height;
    m->head.whole_width = m->info.width;
    m->head.orientation = m->info.orientation;
    /* A mask that is rotated, by its own orientation or its image's, is rotated before it is
     * resized, so its picture cannot be kept. */
    return !m->field->is_mask || (m->info.orientation <= 1 && !m->tools->is_turned);
}

enum psti_recode_result psti_loader_training_make(const struct psti_training_tools *tools,
                                                  const struct psti_training_field *field,
                                                  enum pst_cache_form form,
                                                  const struct psti_recode_source *source,
                                                  struct psti_buffer *out,
                                                  struct psti_recoded *recoded)
{
    struct making m = {
        .tools = tools, .field = field, .source = source, .options = options_of(field)};
    uint32_t n_ops = 0;
    if (!read_header(&m))
        return PSTI_RECODE_NOT_FOR;
    enum pst_status status = choose(&m, &n_ops);
    m.head.n_ops = (uint8_t)n_ops;
    m.row_nbytes = (size_t)m.head.width * m.head.channels * (m.head.bits / 8);
    if (status == PST_OK && n_ops > 0 && !psti_mul_size(m.row_nbytes, m.head.height, &m.nbytes))
        status = PST_ERROR_LIMIT;
    if (status == PST_OK && n_ops > 0)
        status = form == PST_CACHE_FORM_RAW ? store_raw(&m, out, recoded)
                                            : store_pli(&m, form, out, recoded);
    psti_augment_chain_free(&m.chain);
    if (status != PST_OK)
        return PSTI_RECODE_FAILED;
    return n_ops == 0 ? PSTI_RECODE_NOT_FOR : PSTI_RECODE_DONE;
}

enum pst_status psti_loader_training_compile(struct psti_training_field *field,
                                             struct pst_error *err)
{
    if (compile(field, field->n_ops, 1, 8, &field->sizes) == PST_OK)
        return PST_OK;
    return psti_fail(err, PST_ERROR_ARGUMENT, "loader", "a rule of the cache is not possible");
}

/* True if the picture has the size that the field's operations give for the whole image. */
static bool has_size(const struct psti_training_field *field, const struct head *head)
{
    static const struct psti_draw_key none;
    struct psti_draw draw;
    uint32_t height, width;
    if (psti_augment_chain_draw(field->sizes, &none, head->whole_height, head->whole_width, &draw,
                                NULL) != PST_OK)
        return false;
    psti_augment_chain_size_after(field->sizes, &draw, head->n_ops, &height, &width);
    return height == head->height && width == head->width;
}

bool psti_loader_training_take(const struct psti_training_field *field, enum pst_form form,
                               const void *bytes, uint64_t nbytes,
                               struct psti_training_picture *picture, const void **pixels,
                               uint64_t *pixels_nbytes)
{
    static const uint8_t zero[sizeof((struct head *)0)->zero];
    struct head head;
    if (nbytes < sizeof head || (form != PST_FORM_RAW && form != PST_FORM_PLI))
        return false;
    memcpy(&head, bytes, sizeof head);
    bool fits = (field->channels == 0 || head.channels == field->channels) &&
                (field->bits == 0 || head.bits == field->bits) && head.channels >= 1 &&
                head.channels <= 4 && (head.bits == 8 || head.bits == 16) && head.n_ops >= 1 &&
                head.n_ops <= field->n_ops && head.orientation <= 8 &&
                memcmp(head.zero, zero, sizeof zero) == 0;
    if (!fits || !has_size(field, &head))
        return false;
    *picture = (struct psti_training_picture){.n_ops = head.n_ops,
                                              .height = head.height,
                                              .width = head.width,
                                              .channels = head.channels,
                                              .bits = head.bits,
                                              .whole_height = head.whole_height,
                                              .whole_width = head.whole_width,
                                              .orientation = head.orientation};
    *pixels = (const char *)bytes + sizeof head;
    *pixels_nbytes = nbytes - sizeof head;
    return true;
}
