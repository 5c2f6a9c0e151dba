/* loader_recode.h - re-codes items in the form that a cache keeps. */
#ifndef PST_LOADER_LOADER_RECODE_H
#define PST_LOADER_LOADER_RECODE_H

#include "base/buffer.h"
#include "cache/cache.h"
#include "decode/decode_recode.h"
#include "loader/loader_plan.h"
#include "loader/loader_source.h"

struct psti_loader_worker;

/* Re-codes the source's bytes in the form that the cache's set keeps, into `out` (empty before, and
 * freed by the caller). DONE: `item` points to the result; else it does not change. */
enum psti_recode_result psti_loader_recode(struct psti_loader_worker *worker,
                                           const struct psti_loader_plan_field *field,
                                           const struct psti_loader_source *source,
                                           struct psti_buffer *out, struct psti_cache_span *item);

/* The same for bytes of no row, of that field of the data set: the source's data and item alone are
 * read. held: bytes of the memory for re-coding that the caller has. */
enum psti_recode_result psti_loader_recode_later(struct psti_loader_worker *worker,
                                                 uint32_t i_field,
                                                 const struct psti_loader_source *source,
                                                 uint64_t held, struct psti_buffer *out,
                                                 struct psti_cache_span *item);

/* If the source's item is to be kept at the training size, makes that picture now, and *smaller, a
 * copy of the source that points to it: the row is made of it then, and psti_loader_recode keeps
 * it, so that the image is decoded once. False: the row is made of the source itself. */
bool psti_loader_recode_ahead(struct psti_loader_worker *worker,
                              const struct psti_loader_plan_field *field,
                              const struct psti_loader_source *source,
                              struct psti_loader_source *smaller);

#endif
