/* dataset_walk_sink.h - a sink that drops the fields and samples of one file, and adds checksums of
 * their items to the record of the walk. One thread. */
#ifndef PST_DATASET_WALK_DATASET_WALK_SINK_H
#define PST_DATASET_WALK_DATASET_WALK_SINK_H

#include "containers/record/containers_record.h"
#include "dataset/walk/dataset_summer.h"

/* State of the sink. All members zero: it has no fields. */
struct psti_walk_sink {
    struct psti_walk_record_writer *record; /* receives the checksums; NULL: none are computed */
    struct psti_summer summer;              /* computes checksums of items in the file */
    struct pst_field fields[PST_MAX_FIELDS];
    uint32_t n_fields;
    struct psti_container_page_entry *pages; /* [n_pages] pages of the file */
    size_t n_pages, capacity;
};

/* Returns the sink. `self` must not move while it is used. */
struct psti_field_sink psti_dataset_walk_sink(struct psti_walk_sink *sink);
void psti_dataset_walk_sink_free(struct psti_walk_sink *sink);

#endif
