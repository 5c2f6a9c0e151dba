/* loader_options.h - completes and checks the options of a loader. Any thread. */
#ifndef PST_LOADER_LOADER_OPTIONS_H
#define PST_LOADER_LOADER_OPTIONS_H

#include <penstock/loader.h>

/* Completes the caller's options to a struct of this library's version, and refuses impossible
 * ones. *fields must be NULL before the call. It becomes the block that holds options->fields and
 * everything that these point to. The caller frees it by psti_free, also after an error. */
enum pst_status psti_loader_take_options(const struct pst_loader_options *given,
                                         struct pst_loader_options *options, void **fields,
                                         struct pst_error *err);
/* Checks the batch size. PST_ERROR_ARGUMENT: a batch cannot have so many rows. */
enum pst_status psti_loader_check_batch_size(uint32_t batch_size, struct pst_error *err);

#endif
