/* writer_parts_int.h - shared by the files of packs in parts: writer_parts.c, writer_merge.c. */
#ifndef PST_WRITER_WRITER_PARTS_INT_H
#define PST_WRITER_WRITER_PARTS_INT_H

#include "writer/writer.h"
#include "writer/writer_file.h"

#include <limits.h>

struct psti_writer_parts {
    char path[PATH_MAX];
    struct psti_writer_dir dir;    /* directory of the data set; its path is `path` */
    struct psti_writer_dir folder; /* folder of the planned shards that are packed */
    char folder_name[PSTI_PARTS_NAME_CAP], folder_path[PATH_MAX];
    struct psti_parts plan;
    uint8_t *plan_bytes; /* as they were read */
    char attempt[PSTI_PARTS_NAME_CAP]; /* folder of the shard being written, within `folder` */
};

/* Makes a handle, with nothing open. */
enum pst_status psti_writer_parts_new(const char *path, struct psti_writer_parts **out,
                                      struct pst_error *err);
/* Reads the plan in the open directory, and opens its folder. */
enum pst_status psti_writer_parts_load(struct psti_writer_parts *parts, struct pst_error *err);
/* Name of the folder that has a planned shard. */
void psti_writer_parts_name(uint32_t i_shard, char out[PSTI_PARTS_NAME_CAP]);

#endif
