/* containers_flat.h - reads tables of FlatBuffers, in which Arrow writes what it says of its data.
 *
 * The layout is that of https://flatbuffers.dev/internals: a table begins with the distance to its
 * vtable, which has the place of each member by its number. Every distance, length and place is
 * checked against the buffer. The first one that is wrong marks the buffer as bad. From then on
 * members have their defaults and vectors are empty, so that whoever reads need only look at the
 * mark at the end.
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

/* A table. All zero: there is none, and all its members have their defaults. */
struct psti_flat_table {
    struct psti_flat *flat; /* NULL: none */
    size_t at, nbytes;      /* of the table */
    size_t members;         /* where the vtable has the places of members */
    uint32_t n_members;
};

/* A vector, or a text without its NUL. n 0: it is empty, or there is none. */
struct psti_flat_vector {
    struct psti_flat *flat;
    const uint8_t *bytes; /* of the first element */
    size_t at;            /* their place */
    size_t n;
};

/* The table that the buffer stands for. */
struct psti_flat_table psti_containers_flat_root(struct psti_flat *flat);

/* Members by their number. `otherwise` is the value of a member that is not there. */
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
/* element_nbytes: of an element as it lies in the vector: 4 of a table, 1 of a text. */
struct psti_flat_vector psti_containers_flat_vector(const struct psti_flat_table *table,
                                                    uint32_t i_member, size_t element_nbytes);
/* A text, with the NUL that FlatBuffers puts behind it. NULL: it is not there. A text that holds a
 * NUL makes the buffer bad. */
const char *psti_containers_flat_text(const struct psti_flat_table *table, uint32_t i_member);
/* Element i < n of a vector of tables. */
struct psti_flat_table psti_containers_flat_element(const struct psti_flat_vector *vector,
                                                    size_t i);

#endif
