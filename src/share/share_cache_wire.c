/* share_cache_wire.c - converts the messages of a session with the host cache to bytes, and
 * back. */
#include "share/share_cache_wire.h"

enum pst_status psti_share_put_cache_open(struct psti_wire_out *out,
                                          const struct psti_share_set *set, uint32_t n_more,
                                          int fds[PSTI_SHARE_DATASET_FDS], uint32_t *n_fds,
                                          struct pst_error *err)
{
    enum pst_status status = psti_share_put_dataset(out, set->dataset, fds, n_fds, err);
    psti_share_put_u64(out, set->shape.n_samples);
    psti_share_put_u32(out, set->shape.n_items);
    psti_share_put_u64(out, set->shape.forms);
    psti_share_put_u32(out, set->later);
    psti_share_put_u32(out, n_more);
    psti_share_put_u32(out, set->rule.nbytes);
    psti_share_put_bytes(out, set->rule.bytes, set->rule.nbytes);
    return status;
}

enum pst_status psti_share_get_cache_open(struct psti_wire_in *in, struct psti_cache_open *open,
                                          struct pst_error *err)
{
    psti_share_get_dataset(in, &open->dataset);
    open->n_samples = psti_share_get_u64(in);
    open->n_items = psti_share_get_u32(in);
    open->forms = psti_share_get_u64(in);
    uint32_t later = psti_share_get_u32(in);
    open->later = later == 1;
    open->n_more = psti_share_get_u32(in);
    open->rule_nbytes = psti_share_get_u32(in);
    if (later > 1 || open->n_more >= PSTI_CACHE_SETS_MAX ||
        (open->later && open->rule_nbytes > 0))
        in->bad = true;
    if (open->rule_nbytes > sizeof open->rule) {
        open->rule_nbytes = 0;
        in->bad = true;
    }
    psti_share_get_bytes(in, open->rule, open->rule_nbytes);
    return psti_share_end(in, "cache_open", err);
}

void psti_share_put_cache_opened(struct psti_wire_out *out, const struct psti_cache_opened *opened)
{
    psti_share_put_u64(out, opened->table_nbytes);
    psti_share_put_u64(out, opened->capacity);
    psti_share_put_u64(out, opened->limit);
}

enum pst_status psti_share_get_cache_opened(struct psti_wire_in *in,
                                            struct psti_cache_opened *opened, struct pst_error *err)
{
    opened->table_nbytes = psti_share_get_u64(in);
    opened->capacity = psti_share_get_u64(in);
    opened->limit = psti_share_get_u64(in);
    return psti_share_end(in, "cache_opened", err);
}

size_t psti_share_put_cache_read(struct psti_wire_out *out, const struct psti_cache_want *wants,
                                 size_t n)
{
    n = n < PSTI_CACHE_READS_AT_ONCE ? n : PSTI_CACHE_READS_AT_ONCE;
    for (size_t i = 0; i < n; i++) {
        psti_share_put_u64(out, wants[i].number);
        psti_share_put_u64(out, wants[i].ticket);
        psti_share_put_u32(out, wants[i].i_set);
    }
    return n;
}

bool psti_share_get_cache_want(struct psti_wire_in *in, struct psti_cache_want *want)
{
    if ((in->nbytes - in->at) % PSTI_CACHE_WANT_NBYTES != 0)
        in->bad = true;
    if (in->bad || in->at == in->nbytes)
        return false;
    want->number = psti_share_get_u64(in);
    want->ticket = psti_share_get_u64(in);
    want->i_set = psti_share_get_u32(in);
    return true;
}

void psti_share_put_cache_ready(struct psti_wire_out *out, const struct psti_cache_ready *ready)
{
    psti_share_put_u64(out, ready->ticket);
    psti_share_put_u32(out, (uint32_t)ready->result);
    psti_share_put_u32(out, (uint32_t)ready->recoding);
    psti_share_put_u64(out, ready->nbytes_saved);
    psti_share_put_u64(out, ready->recode_ns);
}

enum pst_status psti_share_get_cache_ready(struct psti_wire_in *in, struct psti_cache_ready *ready,
                                           struct pst_error *err)
{
    ready->ticket = psti_share_get_u64(in);
    uint32_t result = psti_share_get_u32(in), recoding = psti_share_get_u32(in);
    ready->nbytes_saved = psti_share_get_u64(in);
    ready->recode_ns = psti_share_get_u64(in);
    if (result < PSTI_CACHE_RESULT_HERE || result > PSTI_CACHE_RESULT_FAILED ||
        recoding > PSTI_CACHE_RECODE_FAILED ||
        (result != PSTI_CACHE_RESULT_READ &&
         (recoding != 0 || ready->nbytes_saved != 0 || ready->recode_ns != 0)))
        in->bad = true;
    ready->result = in->bad ? PSTI_CACHE_RESULT_FAILED : (enum psti_cache_result)result;
    ready->recoding = in->bad ? PSTI_CACHE_NOT_TO_RECODE : (enum psti_cache_recoding)recoding;
    return psti_share_end(in, "cache_ready", err);
}

void psti_share_put_cache_round(struct psti_wire_out *out, const struct psti_cache_round *round)
{
    psti_share_put_u32(out, round->i_set);
    psti_share_put_u64(out, round->number);
}

enum pst_status psti_share_get_cache_round(struct psti_wire_in *in, struct psti_cache_round *round,
                                           struct pst_error *err)
{
    round->i_set = psti_share_get_u32(in);
    round->number = psti_share_get_u64(in);
    return psti_share_end(in, "cache_round", err);
}
