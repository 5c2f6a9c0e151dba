/* containers_flat.c - finds tables, members and vectors in a FlatBuffers buffer, with every byte
 * checked.
 *
 * In: a buffer. Out: values, and offsets that lie within the buffer. */
#include "containers/arrow/containers_flat.h"

#include "base/bits.h"
#include "base/checked.h"

#include <string.h>

enum { VTABLE_HEAD_NBYTES = 4 };

static struct psti_flat_table no_table(struct psti_flat *flat)
{
    flat->is_bad = true;
    return (struct psti_flat_table){0};
}

static struct psti_flat_table table_at(struct psti_flat *flat, size_t at)
{
    if (!psti_range_fits(at, 4, flat->nbytes))
        return no_table(flat);
    int64_t vtable = (int64_t)at - (int32_t)psti_load_u32(flat->bytes + at);
    if (vtable < 0 || !psti_range_fits((uint64_t)vtable, VTABLE_HEAD_NBYTES, flat->nbytes))
        return no_table(flat);
    size_t vtable_nbytes = psti_load_u16(flat->bytes + vtable);
    size_t nbytes = psti_load_u16(flat->bytes + vtable + 2);
    if (vtable_nbytes < VTABLE_HEAD_NBYTES || vtable_nbytes % 2 != 0 || nbytes < 4 ||
        !psti_range_fits((uint64_t)vtable, vtable_nbytes, flat->nbytes) ||
        !psti_range_fits(at, nbytes, flat->nbytes))
        return no_table(flat);
    return (struct psti_flat_table){
        .flat = flat,
        .at = at,
        .nbytes = nbytes,
        .members = (size_t)vtable + VTABLE_HEAD_NBYTES,
        .n_members = (uint32_t)(vtable_nbytes - VTABLE_HEAD_NBYTES) / 2,
    };
}

struct psti_flat_table psti_containers_flat_root(struct psti_flat *flat)
{
    return flat->nbytes < 4 ? no_table(flat) : table_at(flat, psti_load_u32(flat->bytes));
}

/* Finds the bytes of a member. Returns NULL if the table does not have it. */
static const uint8_t *find(const struct psti_flat_table *table, uint32_t i_member, size_t nbytes)
{
    struct psti_flat *flat = table->flat;
    if (flat == NULL || flat->is_bad || i_member >= table->n_members)
        return NULL;
    size_t offset = psti_load_u16(flat->bytes + table->members + 2 * (size_t)i_member);
    if (offset == 0)
        return NULL;
    if (offset < 4 || !psti_range_fits(offset, nbytes, table->nbytes)) {
        flat->is_bad = true;
        return NULL;
    }
    return flat->bytes + table->at + offset;
}

int64_t psti_containers_flat_i64(const struct psti_flat_table *table, uint32_t i_member,
                                 int64_t otherwise)
{
    const uint8_t *bytes = find(table, i_member, 8);
    return bytes == NULL ? otherwise : (int64_t)psti_load_u64(bytes);
}

int32_t psti_containers_flat_i32(const struct psti_flat_table *table, uint32_t i_member,
                                 int32_t otherwise)
{
    const uint8_t *bytes = find(table, i_member, 4);
    return bytes == NULL ? otherwise : (int32_t)psti_load_u32(bytes);
}

int16_t psti_containers_flat_i16(const struct psti_flat_table *table, uint32_t i_member,
                                 int16_t otherwise)
{
    const uint8_t *bytes = find(table, i_member, 2);
    return bytes == NULL ? otherwise : (int16_t)psti_load_u16(bytes);
}

uint8_t psti_containers_flat_u8(const struct psti_flat_table *table, uint32_t i_member,
                                uint8_t otherwise)
{
    const uint8_t *bytes = find(table, i_member, 1);
    return bytes == NULL ? otherwise : *bytes;
}

/* Follows the relative offset stored at `bytes`. Returns the offset in the buffer that it points
 * to. */
static size_t follow(const struct psti_flat *flat, const uint8_t *bytes)
{
    return (size_t)(bytes - flat->bytes) + psti_load_u32(bytes);
}

struct psti_flat_table psti_containers_flat_table(const struct psti_flat_table *table,
                                                  uint32_t i_member)
{
    const uint8_t *bytes = find(table, i_member, 4);
    return bytes == NULL ? (struct psti_flat_table){0}
                         : table_at(table->flat, follow(table->flat, bytes));
}

struct psti_flat_vector psti_containers_flat_vector(const struct psti_flat_table *table,
                                                    uint32_t i_member, size_t element_nbytes)
{
    const uint8_t *bytes = find(table, i_member, 4);
    if (bytes == NULL)
        return (struct psti_flat_vector){0};
    struct psti_flat *flat = table->flat;
    size_t at = follow(flat, bytes);
    if (psti_range_fits(at, 4, flat->nbytes)) {
        size_t n = psti_load_u32(flat->bytes + at);
        if (n <= (flat->nbytes - at - 4) / element_nbytes)
            return (struct psti_flat_vector){flat, flat->bytes + at + 4, at + 4, n};
    }
    flat->is_bad = true;
    return (struct psti_flat_vector){0};
}

const char *psti_containers_flat_text(const struct psti_flat_table *table, uint32_t i_member)
{
    struct psti_flat_vector text = psti_containers_flat_vector(table, i_member, 1);
    if (text.flat == NULL)
        return NULL;
    if (text.at + text.n < text.flat->nbytes && text.bytes[text.n] == '\0' &&
        memchr(text.bytes, '\0', text.n) == NULL)
        return (const char *)text.bytes;
    text.flat->is_bad = true;
    return NULL;
}

struct psti_flat_table psti_containers_flat_element(const struct psti_flat_vector *vector, size_t i)
{
    struct psti_flat *flat = vector->flat;
    return flat->is_bad ? (struct psti_flat_table){0}
                        : table_at(flat, follow(flat, vector->bytes + 4 * i));
}
