/* writer_parts_int.h - declarations for packing in parts: writer_parts.c, writer_merge.c. */
#ifndef PST_WRITER_WRITER_PARTS_INT_H
#define PST_WRITER_WRITER_PARTS_INT_H

#include "writer/writer.h"
#include "writer/writer_file.h"

#include <limits.h>

struct psti_writer_parts {
    char path[PATH_MAX];
    struct psti_writer_dir dir;    /* directory of the data set; its path is `path` */
    struct psti_writer_dir folder; /* folder of the packed planned shards */
    char folder_name[PSTI_PARTS_NAME_CAP], folder_path[PATH_MAX];
    struct psti_parts plan;
    uint8_t *plan_bytes;               /* the plan as read from its file */
    char attempt[PSTI_PARTS_NAME_CAP]; /* folder of the unfinished shard */
};

/* Makes a handle in which nothing is open yet. */
enum pst_status psti_writer_parts_new(const char *path, struct psti_writer_parts **out,
                                      struct pst_error *err);
/* Reads the plan in the open directory, and opens the folder that it names. */
enum pst_status psti_writer_parts_load(struct psti_writer_parts *parts, struct pst_error *err);
/* Writes the name of the folder that holds a planned shard. */
void psti_writer_parts_name(uint32_t i_shard, char out[PSTI_PARTS_NAME_CAP]);

#endif
