/* dataset.h - the inner door of the room, beside <penstock/dataset.h>: early checks, and the facts
 * that a writer needs to add to a data set. */
#ifndef PST_DATASET_DATASET_H
#define PST_DATASET_DATASET_H

#include <penstock/dataset.h>

/* Checks a shard's header (magic, version, data set id, number, header checksum) and that the file
 * is as long as the index says: one small read, remembered. Loader and verify call it once per file
 * before they use it; pst_dataset_read does so by itself. Nothing to check in a folder: PST_OK.
 * Thread-safe. */
enum pst_status psti_dataset_check_shard(const pst_dataset *dataset, uint32_t i_file,
                                         struct pst_error *err);

/* Verifies every block of the index now instead of at first use. Folder: PST_OK. Thread-safe. */
enum pst_status psti_dataset_check_index(const pst_dataset *dataset, struct pst_error *err);

/* Walks a shard from end to end by its records. Compares each with its checksum and with the index:
 * position, length, checksum of the item that it claims to be. Reads the whole file.
 * PST_ERROR_ARGUMENT in a folder. Thread-safe. */
enum pst_status psti_dataset_scan_shard(const pst_dataset *dataset, uint32_t i_file,
                                        uint64_t *n_items, struct pst_error *err);

/* For written data sets only (is_folder is false): */
uint64_t psti_dataset_generation(const pst_dataset *dataset);
uint16_t psti_dataset_minor_version(const pst_dataset *dataset);
/* Names the change in place that made the index; 0: none did. */
uint64_t psti_dataset_mark(const pst_dataset *dataset);
/* The index's entry of shard i_file. */
struct psti_index_shard;
enum pst_status psti_dataset_shard(const pst_dataset *dataset, uint32_t i_file,
                                   struct psti_index_shard *shard, struct pst_error *err);

/* PST_IDENTITY_BYTES, which cannot fail: 16 bytes that live as long as the data set. */
const uint8_t *psti_dataset_bytes_identity(const pst_dataset *dataset);

/* Compares the identity of the samples that the index states with the names and labels: a pass over
 * all of them. PST_ERROR_CORRUPT: they differ. PST_OK if none is stated. Any thread. */
enum pst_status psti_dataset_check_identity(const pst_dataset *dataset, struct pst_error *err);

/* How to open file i_file: by openat(*at, name). A shard is opened in the directory that the data
 * set was opened in, whatever its path leads to by now; a folder's file by its path. */
enum pst_status psti_dataset_file_at(const pst_dataset *dataset, uint32_t i_file, int *at,
                                     char *name, size_t capacity, struct pst_error *err);

/* The short stamp (base/files/stamp.h) of a folder's file when the folder was opened. A file with
 * another one was replaced or changed since. 0: not known, as for shards, which may grow. Any
 * thread. */
uint64_t psti_dataset_file_stamp(const pst_dataset *dataset, uint32_t i_file);

/* Where the disk has the file, for the order in which files are read: less is further ahead. In a
 * folder it is made of device and inode number as they were when it was opened, because ext4, XFS
 * and others lay out inodes, and the blocks of the files, by inode number: those of one directory
 * together, then by the time of creation. Only a hint, another one on each machine. 0: not known.
 * Any thread. */
uint64_t psti_dataset_file_place(const pst_dataset *dataset, uint32_t i_file);
/* Gives a folder's samples by the relative path of their first file, in byte order: *samples, u32
 * (count), which the caller frees by psti_free. *samples NULL: that is the order of the samples, as
 * it is in a scanned folder, or the data set is no folder. The same on each machine. Any thread. */
enum pst_status psti_dataset_by_path(const pst_dataset *dataset, uint32_t **samples,
                                     struct pst_error *err);

/* Files numbered below this hold items of many samples; those from it on are one item each, as in a
 * folder. */
uint32_t psti_dataset_n_shared_files(const pst_dataset *dataset);
static inline bool psti_dataset_has_lone_files(const pst_dataset *dataset)
{
    return psti_dataset_n_shared_files(dataset) < pst_dataset_n_files(dataset);
}
/* The data set that has the sample, or the file, and its number there: of a mixture the source, of
 * any other the data set itself. It lives as long as `dataset`. The number must exist. Any thread.
 */
const pst_dataset *psti_dataset_leaf(const pst_dataset *dataset, uint64_t sample, uint64_t *own);
const pst_dataset *psti_dataset_leaf_of_file(const pst_dataset *dataset, uint32_t i_file,
                                             uint32_t *own);
/* Of a mixture whose field i_field has labels that have other numbers in the data set of the
 * sample: the mixture's number of each of its *n labels. NULL: the numbers are the same. Int values
 * and pst_dataset_read give the mixture's numbers; the bytes of an array in its file have the
 * others. Any thread. */
const int64_t *psti_dataset_label_map(const pst_dataset *dataset, uint64_t sample, uint32_t i_field,
                                      int64_t *n);
/* The field of source i_source that field i_field of a mixture is. Both numbers must exist. Any
 * thread. */
uint32_t psti_dataset_source_field(const pst_dataset *dataset, uint32_t i_source, uint32_t i_field);
/* Writes data set and sample into an error: of a mixture the path of the source, and the sample's
 * numbers in both. sample -1: none. NULL `err` is allowed. */
void psti_dataset_name_error(const pst_dataset *dataset, int64_t sample, struct pst_error *err);

/* False if a data set of other people's files has an index without checksums of items: nothing
 * tells then whether bytes that come from elsewhere are its own. Any thread. */
bool psti_dataset_can_check_bytes(const pst_dataset *dataset);
/* The same of one field. */
bool psti_dataset_can_check_field(const pst_dataset *dataset, uint32_t i_field);

/* Sums of items of a data set in other people's files. A reader notes them while it reads, and the
 * index gets them once it has read all items of the fields that it wants. */
struct psti_noted;
/* Bytes of memory that noting takes; 0: there is nothing to note, because the sums are there, or
 * the data set is of another kind. UINT64_MAX: more than there can be. */
uint64_t psti_dataset_noted_nbytes(const pst_dataset *dataset, const bool wanted[PST_MAX_FIELDS]);
/* The data set must outlive *out. has_others: other processes, such as ranks, read the other items;
 * the sums of all are joined, by files beside the index. PST_ERROR_MEMORY. */
enum pst_status psti_dataset_noted_open(const pst_dataset *dataset,
                                        const bool wanted[PST_MAX_FIELDS], bool has_others,
                                        struct psti_noted **out, struct pst_error *err);
void psti_dataset_noted_close(struct psti_noted **noted);
/* Notes the stored bytes of an item, if it was not noted before. Thread-safe. */
void psti_dataset_noted_add(struct psti_noted *noted, uint64_t sample, uint32_t i_field,
                            const void *bytes, uint64_t nbytes);
/* With others: writes what was noted since the last call, and takes what they wrote. Looks if all
 * is noted, and puts an index with the sums in place then, for those who open the data set from now
 * on. *is_over: false, some items are missing, or another process has the index: call again later;
 * true, with PST_OK, the index has the sums; else it never will from here. One thread, while no
 * other notes anything. */
enum pst_status psti_dataset_noted_save(struct psti_noted *noted, bool *is_over,
                                        struct pst_error *err);

/* Returns the options with which the data set was opened. They live as long as it does. */
const struct pst_dataset_options *psti_dataset_options(const pst_dataset *dataset);

/* Bytes of an item as pst_dataset_read gives it. */
static inline uint64_t psti_dataset_item_nbytes(const struct pst_item *item)
{
    return item->coding == PST_CODING_STORED ? item->nbytes : item->decoded_nbytes;
}
/* True if the item is a part of a page, which is decoded as a whole. */
static inline bool psti_dataset_item_is_paged(const struct pst_item *item)
{
    return item->coding != PST_CODING_STORED && item->page_nbytes > 0;
}
/* Bytes that decoding the item writes; 0: it is stored as it is. */
static inline uint64_t psti_dataset_item_scratch_nbytes(const struct pst_item *item)
{
    return item->coding == PST_CODING_STORED ? 0
           : item->page_nbytes > 0           ? item->page_nbytes
                                             : item->decoded_nbytes;
}
/* Bytes of an item as caches and the fleet keep it: as it is stored, or decoded if it is a part of
 * a page. The item's checksum is of these. */
static inline uint64_t psti_dataset_item_kept_nbytes(const struct pst_item *item)
{
    return psti_dataset_item_is_paged(item) ? item->decoded_nbytes : item->nbytes;
}
/* Makes the item what it is once its bytes were decoded: nbytes of them, stored as they are. A
 * checksum of stored bytes is left out; that of a part of a page is of the decoded ones, and stays.
 */
void psti_dataset_item_decoded(struct pst_item *item);
/* Describes an item of which a cache keeps nbytes that are not re-coded: one of a compressed page
 * as it is decoded. False: there is no such item, or it has another length. Any thread. */
bool psti_dataset_item_is_kept(const pst_dataset *dataset, uint64_t sample, uint32_t i_field,
                               uint32_t variant, uint64_t nbytes, struct pst_item *item);
/* Most bytes that decoding an item of a field writes (psti_dataset_item_scratch_nbytes); 0: no item
 * has a coding. It may be stated larger than it is. Any thread. */
uint64_t psti_dataset_max_decoded_nbytes(const pst_dataset *dataset, uint32_t i_field);
/* The set of codings that items have (base/codings/codings.h). Any thread. */
uint32_t psti_dataset_codings(const pst_dataset *dataset);
/* Decodes the item's stored bytes to `out`, which has room for psti_dataset_item_scratch_nbytes.
 * *bytes: those of the item, within `out`. */
struct psti_codings;
enum pst_status psti_dataset_item_decode(struct psti_codings *codings, const struct pst_item *item,
                                         const void *stored, void *out, const void **bytes,
                                         struct pst_error *err);

/* The image that a raw item has stored: its kind is not in its bytes. */
struct pst_image_info psti_dataset_raw_info(const struct pst_item *item);
/* True if the name ends as those of audio files do. */
bool psti_dataset_is_audio_name(const char *name);
/* True if the item's shape agrees with its bytes and with the schema. Its form must not be NONE. */
bool psti_dataset_item_fits(const struct pst_field *field, const struct pst_item *item);

#endif
