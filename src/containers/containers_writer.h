/* containers_writer.h - writes the index of other programs' files (docs/format-container.md).
 *
 * Files, fields and samples are added in order, in one pass. Each column goes to its own unnamed
 * temporary file during the walk, so memory use does not grow with the number of samples.
 *
 * One thread uses a writer at a time. */
#ifndef PST_CONTAINERS_CONTAINERS_WRITER_H
#define PST_CONTAINERS_CONTAINERS_WRITER_H

#include "containers/containers_sink.h"

/* Begins an index at `path`, where no file may exist yet; its folder needs room for the index.
 * After psti_containers_writer_finish the index lies at `path`, and the caller renames it. */
enum pst_status psti_containers_writer_open(const char *path, struct psti_containers_writer **out,
                                            struct pst_error *err);
/* Frees the writer and sets *writer to NULL, which it may be already. Without a successful
 * psti_containers_writer_finish, all that was written is removed. */
void psti_containers_writer_close(struct psti_containers_writer **writer);

/* Returns the XXH3 of a value's item, which lies in a file or a page; 0 if the sum is not known. */
typedef uint64_t psti_known_sum(void *context, const struct psti_container_value *value);
/* Sets the function that returns the known checksums of items added from now on, which are stored
 * in the index. NULL: none are known. psti_dataset_container_add_sums computes the missing ones,
 * and marks the fields as having checksums. */
void psti_containers_writer_know_sums(struct psti_containers_writer *writer,
                                      psti_known_sum *known_sum, void *context);

/* Begins the next file: samples added from now on lie in it. `path` is relative to the data set's
 * folder. stamp: see base/files/stamp.h. sampled_hash: hash of some of the file's bytes, which
 * becomes part of the identity of the bytes. */
enum pst_status psti_containers_writer_file(struct psti_containers_writer *writer, const char *path,
                                            uint64_t file_nbytes, uint64_t stamp,
                                            uint64_t sampled_hash, struct pst_error *err);
/* Adds a field. It may come at any time: samples before it have no value of it. n_classes and shape
 * may change later (psti_containers_writer_restate). PST_ERROR_LIMIT: there are PST_MAX_FIELDS
 * already. */
enum pst_status psti_containers_writer_field(struct psti_containers_writer *writer,
                                             const struct pst_field *field, uint32_t *i_field,
                                             struct pst_error *err);
void psti_containers_writer_restate(struct psti_containers_writer *writer, uint32_t i_field,
                                    const struct pst_field *field);
/* Gives an int field with n classes the names of its classes: n texts, each with its NUL, in nbytes
 * bytes.
 *
 * PST_ERROR_CORRUPT: there are not n texts, or one is not valid as a name. */
enum pst_status psti_containers_writer_classes(struct psti_containers_writer *writer,
                                               uint32_t i_field, const char *names, size_t nbytes,
                                               uint32_t n, struct pst_error *err);
/* Adds a page of the current file. Samples added later may have items in it.
 *
 * PST_ERROR_CORRUPT: the page lies outside of the file.
 * PST_ERROR_LIMIT: it has 2 GiB or more, stored or decoded. */
enum pst_status psti_containers_writer_page(struct psti_containers_writer *writer,
                                            const struct psti_container_page *page,
                                            uint64_t *i_page, struct pst_error *err);
/* Marks an int field as optional: it is left out if a sample has no value of it. */
void psti_containers_writer_optional(struct psti_containers_writer *writer, uint32_t i_field);
/* Adds n cases to a notice about something that the data set does not show. The arguments are those
 * of psti_field_sink's `note`. */
void psti_containers_writer_note(struct psti_containers_writer *writer, enum pst_notice_kind kind,
                                 const char *name, const char *why, uint64_t n, const char *first);
/* Adds a sample. Fields that are not in `values` have no value in this sample.
 *
 * PST_ERROR_CORRUPT: `name` is not valid for a sample, or an item lies outside of its page. */
enum pst_status psti_containers_writer_sample(struct psti_containers_writer *writer,
                                              const char *name,
                                              const struct psti_container_value *values, uint32_t n,
                                              struct pst_error *err);
/* Writes the index and syncs it. `options`: a 16-byte hash of the options that the user gave.
 *
 * PST_ERROR_CORRUPT: there is no sample, or a sample lacks a value of an int or float field; the
 *     message names both. */
enum pst_status psti_containers_writer_finish(struct psti_containers_writer *writer,
                                              enum psti_container_kind kind,
                                              const uint8_t options[16], struct pst_error *err);

/* Returns a sink that calls the functions of this writer. */
struct psti_field_sink psti_containers_writer_sink(struct psti_containers_writer *writer);

#endif
