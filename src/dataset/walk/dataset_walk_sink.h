/* dataset_walk_sink.h - takes fields and samples of one file, keeps none of them, and gives the
 * sums of their items to the record of the walk. One thread. */
#ifndef PST_DATASET_WALK_DATASET_WALK_SINK_H
#define PST_DATASET_WALK_DATASET_WALK_SINK_H

#include "containers/record/containers_record.h"
#include "dataset/walk/dataset_summer.h"

/* All zero is one without fields. */
struct psti_walk_sink {
    struct psti_walk_record_writer *record; /* NULL: no sums are made */
    struct psti_summer summer;              /* with the file */
    struct pst_field fields[PST_MAX_FIELDS];
    uint32_t n_fields;
    struct psti_container_page_entry *pages; /* [n_pages], of the file */
    size_t n_pages, capacity;
};

/* The sink, which must not move while it is used. */
struct psti_field_sink psti_dataset_walk_sink(struct psti_walk_sink *sink);
void psti_dataset_walk_sink_free(struct psti_walk_sink *sink);

#endif
