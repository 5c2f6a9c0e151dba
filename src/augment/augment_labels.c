/* augment_labels.c - maps the classes in masks to other classes (MapLabels).
 *
 * In: class numbers of 8 or 16 bits, one for each pixel. Out: as many numbers of the same width.
 * When a chain is compiled, it gets a table with an entry for every possible number, so mapping a
 * pixel takes a single load. Any thread. */
#include "augment/augment_int.h"

#include "base/bits.h"

const char *psti_augment_labels_problem(const struct pst_op *op, uint32_t bits)
{
    if (op->n_labels > PST_MAX_LABELS || (op->n_labels > 0 && op->labels == NULL))
        return "labels has 0 to 65536 numbers";
    bool fits = bits == 16 || op->keep_others || op->other_label <= 255;
    for (uint32_t i = 0; fits && i < op->n_labels; i++)
        fits = bits == 16 || op->labels[i] <= 255;
    return fits ? NULL : "a class above 255 does not fit the 8 bits of the mask";
}

size_t psti_augment_labels_nbytes(uint32_t bits) { return bits == 8 ? 256 : 2 * 65536; }

void psti_augment_labels_build(const struct pst_op *op, uint32_t bits, unsigned char *table)
{
    uint32_t n = bits == 8 ? 256 : 65536;
    for (uint32_t i = 0; i < n; i++) {
        uint32_t label = i < op->n_labels ? op->labels[i] : op->keep_others ? i : op->other_label;
        if (bits == 8)
            table[i] = (unsigned char)label;
        else
            psti_store_u16(table + 2 * (size_t)i, (uint16_t)label);
    }
}

void psti_augment_labels_map(const unsigned char *table, uint32_t bits, unsigned char *to,
                             const unsigned char *from, size_t n)
{
    if (bits == 8) {
        for (size_t i = 0; i < n; i++)
            to[i] = table[from[i]];
        return;
    }
    for (size_t i = 0; i < n; i++)
        psti_store_u16(to + 2 * i, psti_load_u16(table + 2 * (size_t)psti_load_u16(from + 2 * i)));
}
