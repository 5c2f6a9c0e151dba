/* containers_writer.h - writes the index of other people's files (docs/format-container.md).
 *
 * Files, fields and samples are given in order, once. Each column goes to a file of its own without
 * a name while the walk runs, so that memory does not grow with the number of samples.
 *
 * One thread uses a writer at a time. */
#ifndef PST_CONTAINERS_CONTAINERS_WRITER_H
#define PST_CONTAINERS_CONTAINERS_WRITER_H

#include "containers/containers_sink.h"

/* Begins an index. `path`: a file that does not exist, in the folder where there is room. The
 * index lies there after psti_containers_writer_finish, and whoever gave the path gives it its
 * lasting name. */
enum pst_status psti_containers_writer_open(const char *path, struct psti_containers_writer **out,
                                            struct pst_error *err);
/* Removes what was written if psti_containers_writer_finish did not succeed. *writer becomes NULL.
 * NULL is fine. */
void psti_containers_writer_close(struct psti_containers_writer **writer);

/* Gives the XXH3 of the item of a value, if it lies in a file or a page; 0: it is not known. */
typedef uint64_t psti_known_sum(void *context, const struct psti_container_value *value);
/* States who knows sums of the items that follow: they are written into their rows. NULL: nobody.
 * psti_dataset_container_add_sums adds the others, and marks the fields. */
void psti_containers_writer_know_sums(struct psti_containers_writer *writer,
                                      psti_known_sum *known_sum, void *context);

/* Begins the next file: the samples that follow lie in it. `path` is relative to the data set's
 * folder. stamp: base/files/stamp.h. sampled_hash: of some of its bytes, for the identity. */
enum pst_status psti_containers_writer_file(struct psti_containers_writer *writer, const char *path,
                                            uint64_t file_nbytes, uint64_t stamp,
                                            uint64_t sampled_hash, struct pst_error *err);
/* Adds a field, at any time: earlier samples have no value of it. Its n_classes and shape may be
 * stated later (psti_containers_writer_restate). PST_ERROR_LIMIT: there are PST_MAX_FIELDS. */
enum pst_status psti_containers_writer_field(struct psti_containers_writer *writer,
                                             const struct pst_field *field, uint32_t *i_field,
                                             struct pst_error *err);
void psti_containers_writer_restate(struct psti_containers_writer *writer, uint32_t i_field,
                                    const struct pst_field *field);
/* Gives an int field with n classes their names: n texts, each with its NUL, in nbytes bytes.
 *
 * PST_ERROR_CORRUPT: they are not n, or cannot be names. */
enum pst_status psti_containers_writer_classes(struct psti_containers_writer *writer,
                                               uint32_t i_field, const char *names, size_t nbytes,
                                               uint32_t n, struct pst_error *err);
/* Adds a page of the current file. Samples of this file may have items in it.
 *
 * PST_ERROR_CORRUPT: it lies outside of the file. PST_ERROR_LIMIT: it has 2 GiB or more, as it is
 * stored or when it is decoded. */
enum pst_status psti_containers_writer_page(struct psti_containers_writer *writer,
                                            const struct psti_container_page *page,
                                            uint64_t *i_page, struct pst_error *err);
/* States that the int field is left out if some sample has no value of it. */
void psti_containers_writer_optional(struct psti_containers_writer *writer, uint32_t i_field);
/* Adds n cases to a notice: what the data set does not show. As psti_field_sink's note. */
void psti_containers_writer_note(struct psti_containers_writer *writer, enum pst_notice_kind kind,
                                 const char *name, const char *why, uint64_t n, const char *first);
/* Adds a sample. Fields that `values` does not name have no value in it.
 *
 * PST_ERROR_CORRUPT: the name cannot name a sample, or an item lies outside of its page. */
enum pst_status psti_containers_writer_sample(struct psti_containers_writer *writer,
                                              const char *name,
                                              const struct psti_container_value *values, uint32_t n,
                                              struct pst_error *err);
/* Writes the index and syncs it. `options`: 16 bytes that stand for what the user asked for.
 *
 * PST_ERROR_CORRUPT: there is no sample, or an int or float field lacks a value in some sample; the
 * text names both. */
enum pst_status psti_containers_writer_finish(struct psti_containers_writer *writer,
                                              enum psti_container_kind kind,
                                              const uint8_t options[16], struct pst_error *err);

/* All of these as a sink. */
struct psti_field_sink psti_containers_writer_sink(struct psti_containers_writer *writer);

#endif
