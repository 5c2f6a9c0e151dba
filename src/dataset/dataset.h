/* dataset.h - internal interface of src/dataset, besides <penstock/dataset.h>: early checks, and
 * what a writer needs to know to extend a data set. */
#ifndef PST_DATASET_DATASET_H
#define PST_DATASET_DATASET_H

#include <penstock/dataset.h>

/* Checks a shard's header (magic, version, data set id, number, header checksum) and that the file
 * has the length that the index states. That is one small read, done once per shard. Loaders and
 * verify call it before they use a file; pst_dataset_read calls it by itself. Folders have nothing
 * to check: PST_OK. Thread-safe. */
enum pst_status psti_dataset_check_shard(const pst_dataset *dataset, uint32_t i_file,
                                         struct pst_error *err);

/* Verifies every block of the index now instead of at first use. For a folder PST_OK.
 * Thread-safe. */
enum pst_status psti_dataset_check_index(const pst_dataset *dataset, struct pst_error *err);

/* Reads a shard from end to end, record by record. Compares each record with its checksum and with
 * the index entry of its item: position, length, checksum. PST_ERROR_ARGUMENT for a folder.
 * Thread-safe. */
enum pst_status psti_dataset_scan_shard(const pst_dataset *dataset, uint32_t i_file,
                                        uint64_t *n_items, struct pst_error *err);

/* For packed data sets only: the generation of the index. */
uint64_t psti_dataset_generation(const pst_dataset *dataset);
uint16_t psti_dataset_minor_version(const pst_dataset *dataset);
/* Number of the in-place change that made the index; 0: none did. */
uint64_t psti_dataset_mark(const pst_dataset *dataset);
/* Reads the index entry of shard i_file. */
struct psti_index_shard;
enum pst_status psti_dataset_shard(const pst_dataset *dataset, uint32_t i_file,
                                   struct psti_index_shard *shard, struct pst_error *err);

/* Returns the identity of the bytes, 16 bytes that live as long as the data set. Cannot fail. */
const uint8_t *psti_dataset_bytes_identity(const pst_dataset *dataset);

/* Computes the identity of the samples from all names and labels and compares it with the one in
 * the index. PST_ERROR_CORRUPT: they differ. PST_OK if the index states none. Any thread. */
enum pst_status psti_dataset_check_identity(const pst_dataset *dataset, struct pst_error *err);

/* States how to open file i_file: openat(*at, name). A shard is opened in the directory that the
 * data set was opened in, even if its path now leads elsewhere. A folder's file is opened by its
 * path. */
enum pst_status psti_dataset_file_at(const pst_dataset *dataset, uint32_t i_file, int *at,
                                     char *name, size_t capacity, struct pst_error *err);

/* Returns the short stamp (base/files/stamp.h) that a folder's file had when the folder was opened.
 * If the file's stamp differs now, it was replaced or changed. 0: not known, as for shards, which
 * may grow. Any thread. */
uint64_t psti_dataset_file_stamp(const pst_dataset *dataset, uint32_t i_file);

/* Returns a number for sorting files by their position on the disk: smaller means earlier. For a
 * folder's file it is made of device and inode number at open, because ext4, XFS and others place
 * inodes and file blocks by inode number: first by directory, then by time of creation. It is only
 * a hint and differs between machines. 0: not known. Any thread. */
uint64_t psti_dataset_file_place(const pst_dataset *dataset, uint32_t i_file);
/* Lists a folder's samples by the relative path of their first file, in byte order. *samples: u32
 * [count], which the caller frees by psti_free. NULL: the samples have that order already, as in a
 * scanned folder, or the data set is no folder. The same on each machine. Any thread. */
enum pst_status psti_dataset_by_path(const pst_dataset *dataset, uint32_t **samples,
                                     struct pst_error *err);

/* Files with numbers below this hold items of many samples. Files from it on are one item each, as
 * in a folder. */
uint32_t psti_dataset_n_shared_files(const pst_dataset *dataset);
static inline bool psti_dataset_has_lone_files(const pst_dataset *dataset)
{
    return psti_dataset_n_shared_files(dataset) < pst_dataset_n_files(dataset);
}
/* Returns the data set that holds a sample, and the sample's number in it (or the same for a file):
 * for a mixture the source, else the data set itself. It lives as long as `dataset`. The number
 * must exist. Any thread. */
const pst_dataset *psti_dataset_leaf(const pst_dataset *dataset, uint64_t sample, uint64_t *own);
const pst_dataset *psti_dataset_leaf_of_file(const pst_dataset *dataset, uint32_t i_file,
                                             uint32_t *own);
/* For a mixture whose labels of field i_field have other numbers in the sample's source: returns
 * the mixture's number of each of the source's *n labels. NULL: the numbers are the same. Int
 * values and pst_dataset_read use the mixture's numbers; the bytes of an array in its file use the
 * source's. Any thread. */
const int64_t *psti_dataset_label_map(const pst_dataset *dataset, uint64_t sample, uint32_t i_field,
                                      int64_t *n);
/* Returns the field number in source i_source that corresponds to field i_field of a mixture. Both
 * numbers must exist. Any thread. */
uint32_t psti_dataset_source_field(const pst_dataset *dataset, uint32_t i_source, uint32_t i_field);
/* Adds data set and sample to an error: for a mixture the path of the source, and the sample's
 * numbers in both. sample -1: none. `err` may be NULL. */
void psti_dataset_name_error(const pst_dataset *dataset, int64_t sample, struct pst_error *err);

/* False if the data set lies in containers and its index has no checksums of items: then bytes from
 * a cache or another host cannot be verified. Any thread. */
bool psti_dataset_can_check_bytes(const pst_dataset *dataset);
/* Does the same as psti_dataset_can_check_bytes, for one field. */
bool psti_dataset_can_check_field(const pst_dataset *dataset, uint32_t i_field);

/* Checksums of items in containers that a reader collects while it reads. Once all items of the
 * wanted fields were read, the index gets the checksums. */
struct psti_noted;
/* Returns the bytes of memory for collecting checksums. 0: there is nothing to collect, because the
 * index has them or the data set is of another kind. UINT64_MAX: the number overflows. */
uint64_t psti_dataset_noted_nbytes(const pst_dataset *dataset, const bool wanted[PST_MAX_FIELDS]);
/* Begins to collect checksums. The data set must outlive *out. has_others: other processes, such as
 * ranks, read the other items; the checksums of all are joined through files beside the index.
 * PST_ERROR_MEMORY. */
enum pst_status psti_dataset_noted_open(const pst_dataset *dataset,
                                        const bool wanted[PST_MAX_FIELDS], bool has_others,
                                        struct psti_noted **out, struct pst_error *err);
void psti_dataset_noted_close(struct psti_noted **noted);
/* Adds the checksum of an item, given its stored bytes, unless that was done before.
 * Thread-safe. */
void psti_dataset_noted_add(struct psti_noted *noted, uint64_t sample, uint32_t i_field,
                            const void *bytes, uint64_t nbytes);
/* Exchanges checksums with the other processes, if there are any: writes those added since the last
 * call and reads theirs. If all checksums are known, replaces the index by one that has them, which
 * later opens of the data set will use. *is_over: false: items are missing, or another process is
 * writing the index; call again later. True with PST_OK: the index has the checksums. True with an
 * error: this process gives up. One thread, while no other thread adds checksums. */
enum pst_status psti_dataset_noted_save(struct psti_noted *noted, bool *is_over,
                                        struct pst_error *err);

/* Returns the options that the data set was opened with. They live as long as the data set. */
const struct pst_dataset_options *psti_dataset_options(const pst_dataset *dataset);

/* Returns the bytes of an item as pst_dataset_read gives it. */
static inline uint64_t psti_dataset_item_nbytes(const struct pst_item *item)
{
    return item->coding == PST_CODING_STORED ? item->nbytes : item->decoded_nbytes;
}
/* True if the item lies in a page, which is decoded as a whole. */
static inline bool psti_dataset_item_is_paged(const struct pst_item *item)
{
    return item->coding != PST_CODING_STORED && item->page_nbytes > 0;
}
/* Returns the bytes that decoding the item writes; 0: it is stored without coding. */
static inline uint64_t psti_dataset_item_scratch_nbytes(const struct pst_item *item)
{
    return item->coding == PST_CODING_STORED ? 0
           : item->page_nbytes > 0           ? item->page_nbytes
                                             : item->decoded_nbytes;
}
/* Returns the bytes of an item as caches and fleets keep it: the stored bytes, or the decoded ones
 * if it lies in a page. The item's checksum covers these bytes. */
static inline uint64_t psti_dataset_item_kept_nbytes(const struct pst_item *item)
{
    return psti_dataset_item_is_paged(item) ? item->decoded_nbytes : item->nbytes;
}
/* Changes the description of an item after its nbytes bytes were decoded: it is then stored without
 * coding. Drops a checksum of the stored bytes. Keeps that of an item in a page, which covers the
 * decoded bytes. */
void psti_dataset_item_decoded(struct pst_item *item);
/* Describes an item as a cache keeps it if it is not re-coded: an item of a compressed page is
 * decoded. False: there is no such item, or its length is not nbytes. Any thread. */
bool psti_dataset_item_is_kept(const pst_dataset *dataset, uint64_t sample, uint32_t i_field,
                               uint32_t variant, uint64_t nbytes, struct pst_item *item);
/* Returns the most bytes that decoding an item of a field writes
 * (psti_dataset_item_scratch_nbytes), or a larger number; 0: no item has a coding. Any thread. */
uint64_t psti_dataset_max_decoded_nbytes(const pst_dataset *dataset, uint32_t i_field);
/* Returns the set of codings that the data set's items have (base/codings/codings.h). Any
 * thread. */
uint32_t psti_dataset_codings(const pst_dataset *dataset);
/* Decodes the stored bytes of an item to `out`, which has room for
 * psti_dataset_item_scratch_nbytes. *bytes: the item's bytes within `out`. */
struct psti_codings;
enum pst_status psti_dataset_item_decode(struct psti_codings *codings, const struct pst_item *item,
                                         const void *stored, void *out, const void **bytes,
                                         struct pst_error *err);

/* Describes the image in a raw item, whose stored bytes are pixels without a header. */
struct pst_image_info psti_dataset_raw_info(const struct pst_item *item);
/* True if the name ends like that of an audio file. */
bool psti_dataset_is_audio_name(const char *name);
/* True if the item's shape agrees with its size and with the schema. Its form must not be NONE. */
bool psti_dataset_item_fits(const struct pst_field *field, const struct pst_item *item);

#endif
