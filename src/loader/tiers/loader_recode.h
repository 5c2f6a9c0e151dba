/* loader_recode.h - re-codes items to the form that a cache keeps. */
#ifndef PST_LOADER_LOADER_RECODE_H
#define PST_LOADER_LOADER_RECODE_H

#include "base/buffer.h"
#include "cache/cache.h"
#include "decode/decode_recode.h"
#include "loader/loader_plan.h"
#include "loader/loader_source.h"

struct psti_loader_worker;

/* Re-codes the source's bytes to the form that the cache's set keeps, into `out`, which must be
 * empty and is freed by the caller. DONE: *item points to the result; otherwise *item is
 * unchanged. */
enum psti_recode_result psti_loader_recode(struct psti_loader_worker *worker,
                                           const struct psti_loader_plan_field *field,
                                           const struct psti_loader_source *source,
                                           struct psti_buffer *out, struct psti_cache_span *item);

/* Re-codes like psti_loader_recode, but in that form, and bytes that belong to no row: of *source,
 * only `data` and `item` are read. held: bytes of the memory for re-coding that the caller already
 * uses. */
enum psti_recode_result psti_loader_recode_later(struct psti_loader_worker *worker,
                                                 enum psti_recode_form form,
                                                 const struct psti_loader_source *source,
                                                 uint64_t held, struct psti_buffer *out,
                                                 struct psti_cache_span *item);

/* If the cache keeps the source's item at the training size, makes that picture now. *smaller
 * becomes a copy of the source that points to the picture. The row is then made from it, and
 * psti_loader_recode keeps it, so that the image is decoded only once. False: the row is made from
 * the source itself. */
bool psti_loader_recode_ahead(struct psti_loader_worker *worker,
                              const struct psti_loader_plan_field *field,
                              const struct psti_loader_source *source,
                              struct psti_loader_source *smaller);

#endif
