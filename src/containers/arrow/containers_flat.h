/* containers_flat.h - reads FlatBuffers tables, the encoding of Arrow's metadata.
 *
 * The layout is that of https://flatbuffers.dev/internals: a table begins with the distance to its
 * vtable, which holds the offset of each member. Each distance, length and offset is checked
 * against the buffer's size. The first wrong one marks the buffer as bad. In a bad buffer all
 * members have their defaults and all vectors are empty, so callers may check the mark once, at the
 * end.
 *
 * Pure functions; no memory is allocated. */
#ifndef PST_CONTAINERS_ARROW_CONTAINERS_FLAT_H
#define PST_CONTAINERS_ARROW_CONTAINERS_FLAT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct psti_flat {
    const uint8_t *bytes;
    size_t nbytes;
    bool is_bad;
};

/* A table. All members zero: the table is absent, and its members have their defaults. */
struct psti_flat_table {
    struct psti_flat *flat; /* NULL: none */
    size_t at, nbytes;      /* offset and size of the table */
    size_t members;         /* offset of the vtable's list of member offsets */
    uint32_t n_members;
};

/* A vector, or a text without its NUL. n is 0 if it is empty or absent. */
struct psti_flat_vector {
    struct psti_flat *flat;
    const uint8_t *bytes; /* the first element */
    size_t at;            /* offset of the first element in the buffer */
    size_t n;
};

/* Returns the root table of the buffer. */
struct psti_flat_table psti_containers_flat_root(struct psti_flat *flat);

/* These return a member by its number. `otherwise` is returned if the table does not have the
 * member. */
int64_t psti_containers_flat_i64(const struct psti_flat_table *table, uint32_t i_member,
                                 int64_t otherwise);
int32_t psti_containers_flat_i32(const struct psti_flat_table *table, uint32_t i_member,
                                 int32_t otherwise);
int16_t psti_containers_flat_i16(const struct psti_flat_table *table, uint32_t i_member,
                                 int16_t otherwise);
uint8_t psti_containers_flat_u8(const struct psti_flat_table *table, uint32_t i_member,
                                uint8_t otherwise);
struct psti_flat_table psti_containers_flat_table(const struct psti_flat_table *table,
                                                  uint32_t i_member);
/* Returns a vector member. element_nbytes: stored bytes of one element; 4 for tables, 1 for
 * texts. */
struct psti_flat_vector psti_containers_flat_vector(const struct psti_flat_table *table,
                                                    uint32_t i_member, size_t element_nbytes);
/* Returns a text member with its NUL, or NULL if it is absent. A text that contains a NUL marks the
 * buffer as bad. */
const char *psti_containers_flat_text(const struct psti_flat_table *table, uint32_t i_member);
/* Returns element i < n of a vector of tables. */
struct psti_flat_table psti_containers_flat_element(const struct psti_flat_vector *vector,
                                                    size_t i);

#endif
