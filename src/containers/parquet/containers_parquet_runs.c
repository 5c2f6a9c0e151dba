/* containers_parquet_runs.c - decodes small integers from Parquet's packed bits.
 *
 * In: untrusted bytes in memory. Out: one number for each call. The time of a call does not depend
 * on the bytes. */
#include "containers/parquet/containers_parquet_runs.h"

#include "base/bits.h"
#include "base/codings/varint.h"

enum {
    MINI_MAX = 1 << 16, /* maximum number of differences in a mini block */
    MINIS_MAX = 1 << 12,
};

static bool read_varint(const uint8_t **at, const uint8_t *end, uint64_t *out)
{
    size_t n = psti_varint(*at, (size_t)(end - *at), out);
    *at += n;
    return n > 0;
}

/* Reads `width` bits, at most 64, from bit `at` on. They must lie before `end`. */
static uint64_t read_bits(const uint8_t *bytes, const uint8_t *end, uint64_t at, uint32_t width)
{
    const uint8_t *p = bytes + (at >> 3);
    uint32_t shift = (uint32_t)(at & 7);
    uint64_t value = 0;
    if (width == 0)
        return 0;
    if (end - p >= 9) {
        value = psti_load_bits64(bytes, at);
    } else {
        uint8_t last[10] = {0};
        memcpy(last, p, (size_t)(end - p));
        value = psti_load_bits64(last, shift);
    }
    return width == 64 ? value : value & ((UINT64_C(1) << width) - 1);
}

void psti_containers_runs_begin(struct psti_parquet_runs *runs, const uint8_t *bytes, size_t nbytes,
                                uint32_t width)
{
    *runs = (struct psti_parquet_runs){.at = bytes, .end = bytes + nbytes, .width = width};
}

static bool next_run(struct psti_parquet_runs *runs)
{
    uint64_t head = 0;
    if (!read_varint(&runs->at, runs->end, &head) || head >> 33 != 0)
        return false;
    size_t left = (size_t)(runs->end - runs->at);
    runs->is_packed = head & 1;
    if (runs->is_packed) {
        /* Some writers cut the unused bytes of the last group, so it may be shorter. */
        uint64_t nbytes = (head >> 1) * runs->width;
        runs->n_left = (head >> 1) * 8;
        runs->packed = runs->at;
        runs->i_packed = 0;
        runs->at += nbytes < left ? (size_t)nbytes : left;
        return true;
    }
    uint32_t nbytes = (runs->width + 7) / 8;
    if (nbytes > left)
        return false;
    runs->number = 0;
    for (uint32_t i = 0; i < nbytes; i++)
        runs->number |= (uint32_t)*runs->at++ << 8 * i;
    runs->n_left = head >> 1;
    return true;
}

bool psti_containers_runs_next(struct psti_parquet_runs *runs, uint32_t *number)
{
    while (runs->n_left == 0)
        if (!next_run(runs))
            return false;
    runs->n_left--;
    if (!runs->is_packed) {
        *number = runs->number;
        return true;
    }
    uint64_t bit = runs->i_packed++ * runs->width;
    if (bit + runs->width > (uint64_t)(runs->at - runs->packed) * 8)
        return false;
    *number = (uint32_t)read_bits(runs->packed, runs->at, bit, runs->width);
    return true;
}

static uint64_t unzigzag(uint64_t value) { return value >> 1 ^ (~(value & 1) + 1); }

bool psti_containers_deltas_begin(struct psti_parquet_deltas *deltas, const uint8_t *bytes,
                                  size_t nbytes)
{
    uint64_t block_n = 0, n_minis = 0, first = 0;
    *deltas = (struct psti_parquet_deltas){.at = bytes, .end = bytes + nbytes, .is_first = true};
    if (!read_varint(&deltas->at, deltas->end, &block_n) ||
        !read_varint(&deltas->at, deltas->end, &n_minis) ||
        !read_varint(&deltas->at, deltas->end, &deltas->n_left) ||
        !read_varint(&deltas->at, deltas->end, &first))
        return false;
    if (n_minis == 0 || n_minis > MINIS_MAX || block_n % n_minis != 0 || block_n == 0 ||
        block_n / n_minis > MINI_MAX || block_n / n_minis % 8 != 0)
        return false;
    deltas->number = unzigzag(first);
    deltas->n_minis = deltas->i_mini = (uint32_t)n_minis;
    deltas->mini_n = (uint32_t)(block_n / n_minis);
    return true;
}

static bool next_mini(struct psti_parquet_deltas *deltas)
{
    if (deltas->i_mini == deltas->n_minis) {
        uint64_t least = 0;
        if (!read_varint(&deltas->at, deltas->end, &least) ||
            deltas->n_minis > (size_t)(deltas->end - deltas->at))
            return false;
        deltas->least = unzigzag(least);
        deltas->widths = deltas->at;
        deltas->at += deltas->n_minis;
        deltas->i_mini = 0;
    }
    deltas->width = deltas->widths[deltas->i_mini++];
    size_t nbytes = (size_t)deltas->width * (deltas->mini_n / 8);
    if (deltas->width > 64 || nbytes > (size_t)(deltas->end - deltas->at))
        return false;
    deltas->packed = deltas->at;
    deltas->at += nbytes;
    deltas->n_packed = deltas->mini_n;
    deltas->i_packed = 0;
    return true;
}

bool psti_containers_deltas_next(struct psti_parquet_deltas *deltas, int64_t *number)
{
    if (deltas->n_left == 0)
        return false;
    if (!deltas->is_first) {
        if (deltas->i_packed == deltas->n_packed && !next_mini(deltas))
            return false;
        uint64_t bit = (uint64_t)deltas->i_packed++ * deltas->width;
        deltas->number += deltas->least + read_bits(deltas->packed, deltas->at, bit, deltas->width);
    }
    deltas->is_first = false;
    deltas->n_left--;
    *number = (int64_t)deltas->number;
    return true;
}
