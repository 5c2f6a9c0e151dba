/* writer_state.c - basic state of a writer, which the other files of src/writer build on: the list
 * of its shards, and how a writer ends.
 *
 * One thread. Shards get their file names here; in a change in place the names have the new
 * generation. */
#include "writer/writer_int.h"

#include "base/alloc.h"
#include "base/fail.h"

#include <string.h>
#include <unistd.h>

bool psti_writer_push_shard(pst_writer *writer, uint64_t nbytes, uint64_t n_items)
{
    if (writer->n_shards == writer->shards_cap) {
        uint32_t cap = writer->shards_cap == 0 ? 64 : writer->shards_cap * 2;
        struct psti_writer_shard *larger =
            cap > writer->shards_cap ? psti_realloc(writer->shards, cap * sizeof *larger) : NULL;
        if (larger == NULL)
            return false;
        writer->shards = larger;
        writer->shards_cap = cap;
    }
    struct psti_writer_shard *shard = &writer->shards[writer->n_shards];
    *shard = (struct psti_writer_shard){.nbytes = nbytes, .n_items = n_items};
    if (writer->rewrites)
        psti_format_rewritten_name(writer->n_shards, writer->base_generation + 1, shard->name);
    else
        psti_format_shard_name(writer->n_shards, shard->name);
    writer->n_shards++;
    return true;
}

bool psti_writer_is_adopted(const pst_writer *writer, uint32_t number)
{
    char name[PSTI_SHARD_NAME_CAP];
    psti_format_rewritten_name(number, writer->base_generation + 1, name);
    return strcmp(name, writer->shards[number].name) != 0;
}

uint32_t psti_writer_rewrite_n_adopted(const pst_writer *writer)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < writer->n_shards; i++)
        n += psti_writer_is_adopted(writer, i);
    return n;
}

/* Ends all writing, because bytes written to disk since the last commit cannot be trusted any more.
 */
enum pst_status psti_writer_give_up(pst_writer *writer, enum pst_status status,
                                    struct pst_error *err)
{
    writer->state = PSTI_WRITER_FAILED;
    psti_error_set_dataset(err, writer->path);
    return status;
}

/* Does nothing without the lock, because the directory may then belong to another writer. */
void psti_writer_undo_directory(pst_writer *writer)
{
    if (!writer->made_directory || writer->lock_fd < 0 ||
        psti_writer_exists(&writer->dir, PSTI_JOURNAL_NAME))
        return;
    unlinkat(writer->dir.fd, PSTI_JOURNAL_TMP_NAME, 0);
    unlinkat(writer->dir.fd, PSTI_INDEX_TMP_NAME, 0);
    psti_writer_unlock(&writer->dir, PSTI_LOCK_NAME, &writer->lock_fd);
    rmdir(writer->path);
}

void psti_writer_destroy(pst_writer *writer)
{
    psti_decode_close(&writer->decoder);
    psti_output_close(&writer->shard);
    psti_output_close(&writer->journal);
    psti_writer_names_free(&writer->names);
    for (uint32_t i = 0; i < PST_MAX_FIELDS; i++)
        psti_free(writer->classes[i].text);
    for (uint32_t i = 0; i < PST_MAX_FIELDS; i++)
        psti_free(writer->pairs[i]);
    psti_free(writer->shards);
    psti_free(writer->body);
    pst_dataset_close(&writer->base);
    if (writer->pid == getpid())
        psti_writer_unlock(&writer->dir, PSTI_LOCK_NAME, &writer->lock_fd);
    else if (writer->lock_fd >= 0)
        close(writer->lock_fd);
    if (writer->dir.fd >= 0)
        close(writer->dir.fd);
    psti_free(writer->path);
    psti_free(writer);
}
