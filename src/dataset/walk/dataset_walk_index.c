/* dataset_walk_index.c - walks over all containers, or plays records of walks, and writes their
 * index.
 *
 * In: a struct psti_making. Out: the temporary file. If earlier files have no values in a column,
 * the result of a walk can depend on these files. Then a record, which was made without them, may
 * differ from a real walk. In that case the index is begun again with a real walk over that file;
 * the second time, also over all files behind it. */
#include "dataset/walk/dataset_walk_index.h"

#include "dataset/dataset_container.h"
#include "dataset/walk/dataset_walk_record.h"

#include "base/alloc.h"
#include "base/fail.h"
#include "base/log.h"

#define ROOM "dataset"

/* State while an index is written from walks or records. */
struct indexing {
    struct psti_making *making;
    struct psti_containers_writer *writer;
    bool *walks;      /* [n_shards]: files to walk over although they have records. NULL: all */
    uint32_t n_again; /* how many times the index was begun again */
    bool deviates;    /* the record of making->i_shard differs from a real walk */
};

static enum pst_status walk_shard(struct indexing *indexing, struct pst_error *err)
{
    struct psti_making *making = indexing->making;
    struct psti_walk_shard shard;
    enum pst_status status = psti_dataset_walk_open(making, &shard, err);
    if (status != PST_OK)
        return status;
    status = psti_containers_writer_file(
        indexing->writer, making->list.shards[making->i_shard].path, (uint64_t)shard.st.st_size,
        shard.stamp, shard.sampled_hash, err);
    if (status == PST_OK)
        status = psti_dataset_walk_over(making, &shard, err);
    return psti_dataset_walk_close(making, &shard, status, err);
}

static enum pst_status add_shards(struct indexing *indexing, struct pst_error *err)
{
    struct psti_making *making = indexing->making;
    enum pst_status status = psti_containers_list_indexes(&making->list, err);
    making->progress = (struct pst_progress){0};
    for (size_t i = 0; status == PST_OK && !indexing->deviates && i < making->list.n_shards; i++) {
        making->i_shard = (uint32_t)i;
        status = indexing->walks == NULL || indexing->walks[i]
                     ? walk_shard(indexing, err)
                     : psti_dataset_walk_play(making, indexing->writer, &indexing->deviates, err);
    }
    return status;
}

/* Adds all files, for kinds with members. */
static enum pst_status add_members(struct indexing *indexing, struct pst_error *err)
{
    struct psti_making *making = indexing->making;
    struct psti_field_sink sink = psti_containers_writer_sink(indexing->writer);
    struct psti_containers_fields *fields = NULL;
    enum pst_status status =
        psti_containers_fields_open(making->rules, making->n_rules, &sink, &fields, err);
    if (status == PST_OK) {
        making->inner = psti_containers_fields_taker(fields);
        status = add_shards(indexing, err);
    }
    if (status == PST_OK)
        status = psti_containers_fields_finish(fields, err);
    psti_containers_fields_close(&fields);
    return status;
}

/* Adds all files, for kinds that are tables. */
static enum pst_status add_tables(struct indexing *indexing, struct pst_error *err)
{
    struct psti_making *making = indexing->making;
    struct psti_field_sink sink = psti_containers_writer_sink(indexing->writer);
    enum pst_status status = psti_dataset_table_open(&making->table, making->rules, making->n_rules,
                                                     &sink, psti_dataset_walk_count, making, err);
    if (status == PST_OK)
        status = add_shards(indexing, err);
    if (status == PST_OK && !indexing->deviates)
        status = psti_containers_columns_finish(making->table.columns, err);
    psti_dataset_table_close(&making->table);
    return status;
}

/* Writes the index in one attempt. */
static enum pst_status write_once(struct indexing *indexing, struct pst_error *err)
{
    struct psti_making *making = indexing->making;
    indexing->deviates = false;
    enum pst_status status = psti_containers_writer_open(
        psti_dataset_saved_temporary(making->saved), &indexing->writer, err);
    if (status == PST_OK)
        status = psti_dataset_walk_kind(making)->has_members ? add_members(indexing, err)
                                                             : add_tables(indexing, err);
    if (status == PST_OK && !indexing->deviates)
        status =
            psti_containers_writer_finish(indexing->writer, making->list.kind, making->digest, err);
    psti_containers_writer_close(&indexing->writer);
    return status;
}

/* Decides to do a real walk over the file making->i_shard, because its record cannot be used. */
static void walk_instead(struct indexing *indexing)
{
    const struct psti_making *making = indexing->making;
    psti_log(PST_LOG_INFO, ROOM,
             "%s: the files before it tell more of its columns than its part knew: it is walked "
             "over",
             making->list.shards[making->i_shard].path);
    size_t end = indexing->n_again++ == 0 ? making->i_shard + 1 : making->list.n_shards;
    for (size_t i = making->i_shard; i < end; i++)
        indexing->walks[i] = true;
}

enum pst_status psti_dataset_walk_index(struct psti_making *making, struct pst_error *err)
{
    struct indexing indexing = {.making = making};
    enum pst_status status = PST_OK;
    if (making->merges) {
        indexing.walks = psti_calloc(making->list.n_shards + 1, sizeof *indexing.walks);
        status = indexing.walks != NULL
                     ? psti_dataset_walk_check_records(making, err)
                     : psti_fail(err, PST_ERROR_MEMORY, ROOM, "no memory to merge an index");
    }
    if (status == PST_OK)
        status = write_once(&indexing, err);
    while (status == PST_OK && indexing.deviates) {
        walk_instead(&indexing);
        status = write_once(&indexing, err);
    }
    psti_free(indexing.walks);
    if (status == PST_OK && making->options->sums)
        status = psti_dataset_container_add_sums(making->base,
                                                 psti_dataset_saved_temporary(making->saved),
                                                 making->saved, NULL, making->merges, err);
    return status;
}
