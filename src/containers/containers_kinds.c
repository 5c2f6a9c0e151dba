/* containers_kinds.c - the table of the kinds of container files that are read in place. A new kind
 * needs one line here. Nothing else is in this file, because tests replace it by a table of their
 * own. */
#include "containers/containers_kinds.h"

#include "containers/arrow/containers_arrow.h"
#include "containers/beton/containers_beton.h"
#include "containers/lmdb/containers_lmdb.h"
#include "containers/mds/containers_mds.h"
#include "containers/parquet/containers_parquet.h"
#include "containers/recordio/containers_recordio.h"
#include "containers/tfrecord/containers_tfrecord.h"

/* clang-format off */
const struct psti_kind psti_containers_kinds[] = {
    {PSTI_CONTAINER_TAR, "tar", {".tar"}, {NULL}, true, NULL},
    {PSTI_CONTAINER_ZIP, "zip", {".zip"}, {NULL}, true, NULL},
    {PSTI_CONTAINER_PARQUET, "parquet", {".parquet", ".parq", ".pq"}, {NULL}, false,
     psti_containers_parquet_walk},
    {PSTI_CONTAINER_ARROW, "arrow", {".arrow", ".arrows", ".feather", ".ipc"},
     {"dataset_info.json"}, false,
     psti_containers_arrow_walk},
    {PSTI_CONTAINER_MDS, "mds", {".mds"}, {"index.json"}, false, psti_containers_mds_walk},
    {PSTI_CONTAINER_TFRECORD, "tfrecord", {".tfrecord", ".tfrecords", ".tfrec"},
     {"features.json", "dataset_info.json"}, false, psti_containers_tfrecord_walk},
    {PSTI_CONTAINER_LMDB, "lmdb", {".mdb", ".lmdb"}, {NULL}, false, psti_containers_lmdb_walk},
    {PSTI_CONTAINER_RECORDIO, "recordio", {".rec"}, {".idx"}, false,
     psti_containers_recordio_walk},
    {PSTI_CONTAINER_BETON, "beton", {".beton"}, {NULL}, false, psti_containers_beton_walk},
    {PSTI_CONTAINER_NONE, NULL, {NULL}, {NULL}, false, NULL},
};
/* clang-format on */
