/* dataset_foreign.c - explains what a path is if it is no data set of Penstock: an archive, a file
 * of records, a URL.
 *
 * In: a path. Out: a sentence that names what it is and the page of the guide that helps, or NULL.
 * A file is recognised by its first bytes, or by its name if these say nothing. A URL is recognised
 * by its scheme. Kinds that can be read in place (containers_kinds.c) are not handled here, unless
 * their names do not show what they are. Any thread; nothing is stored. */
#include "dataset/dataset_int.h"

#include "base/files/read.h"
#include "containers/containers_kinds.h"

#include <fcntl.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

#define GUIDE "docs/guide/"
#define NOT_READ ", which Penstock does not read in place: see " GUIDE
#define NAMELESS(end, page)                                                                        \
    " without a name that says so: let it end in " end                                             \
    ", then Penstock reads it as it is (" GUIDE page ")"
#define WHOLE                                                                                      \
    " that is compressed as a whole, of which no part can be read alone: decompress it once, "     \
    "then "                                                                                        \
    "Penstock reads it as it is (" GUIDE
enum { HEAD_NBYTES = 512 };

/* A kind of file. Names are compared without regard to case. `ends` is terminated by NULL. */
struct kind {
    const char *advice;
    const char *ends[8];
    const char *magic; /* first bytes of the file; NULL: only the name tells */
    uint16_t magic_at, magic_nbytes;
};

static const struct kind kinds[] = {
    {"this is a compressed tar, of which no part can be read alone: unpack it to a .tar, which "
     "Penstock reads as it is (" GUIDE "from-webdataset.md)",
     {".tar.gz", ".tgz", ".tar.xz", ".tar.bz2", ".tar.zst"},
     .magic = NULL},
    {"this is a TFRecord file" WHOLE "from-tfdata.md)",
     {".tfrecord.gz", ".tfrecords.gz", ".tfrec.gz"},
     .magic = NULL},
    {"this is a shard of MosaicML Streaming" WHOLE "from-mosaic.md)",
     {".mds.zstd", ".mds.zst", ".mds.gz", ".mds.br", ".mds.bz2", ".mds.snappy"},
     .magic = NULL},
    {"this is a tar archive" NAMELESS(".tar", "from-webdataset.md"),
     {NULL},
     .magic = "ustar",
     .magic_at = 257,
     .magic_nbytes = 5},
    {"this is a Parquet file" NAMELESS(".parquet", "from-huggingface.md"),
     {NULL},
     .magic = "PAR1",
     .magic_nbytes = 4},
    {"this is an Arrow file" NAMELESS(".arrow", "from-huggingface.md"),
     {".feather"},
     .magic = "ARROW1",
     .magic_nbytes = 6},
    {"this is a RecordIO file of MXNet" NAMELESS(".rec", "from-records.md"),
     {NULL},
     .magic = "\x0a\x23\xd7\xce",
     .magic_nbytes = 4},
    {"this is an LMDB database" NAMELESS(".mdb", "from-records.md"),
     {NULL},
     .magic = "\xde\xc0\xef\xbe",
     .magic_at = 16,
     .magic_nbytes = 4},
    {"this is an HDF5 file" NOT_READ "from-records.md",
     {".h5", ".hdf5"},
     .magic = "\x89HDF\r\n\x1a\n",
     .magic_nbytes = 8},
    {"this is an ArrayRecord file" NOT_READ "from-records.md",
     {".array_record", ".arrayrecord"},
     .magic = NULL},
    {"this is a Vortex file" NOT_READ "from-records.md", {".vortex"}, .magic = NULL},
    {"this is an array of numpy" NOT_READ "from-records.md",
     {".npy"},
     .magic = "\x93NUMPY",
     .magic_nbytes = 6},
    {"this is an archive of numpy arrays" NOT_READ "from-records.md", {".npz"}, .magic = NULL},
    {"this is a zip archive" NAMELESS(".zip", "from-zip.md"),
     {NULL},
     .magic = "PK\x03\x04",
     .magic_nbytes = 4},
};
enum { N_KINDS = sizeof kinds / sizeof kinds[0] };

static bool ends_with(const char *name, const char *end)
{
    size_t n = strlen(name), n_end = strlen(end);
    return n > n_end && strcasecmp(name + n - n_end, end) == 0;
}

const char *psti_dataset_foreign_name(const char *path)
{
    const char *slash = strrchr(path, '/'), *name = slash == NULL ? path : slash + 1;
    if (psti_containers_kind_of_name(name) != PSTI_CONTAINER_NONE)
        return NULL; /* such files can be read in place */
    for (size_t i = 0; i < N_KINDS; i++)
        for (size_t k = 0; kinds[i].ends[k] != NULL; k++)
            if (ends_with(name, kinds[i].ends[k]))
                return kinds[i].advice;
    return NULL;
}

static const char *by_head(const uint8_t *head, size_t nbytes)
{
    for (size_t i = 0; i < N_KINDS; i++)
        if (kinds[i].magic != NULL && nbytes >= (size_t)kinds[i].magic_at + kinds[i].magic_nbytes &&
            memcmp(head + kinds[i].magic_at, kinds[i].magic, kinds[i].magic_nbytes) == 0)
            return kinds[i].advice;
    return psti_containers_tfrecord_is(head, nbytes)
               ? "this is a TFRecord file" NAMELESS(".tfrecord", "from-tfdata.md")
               : NULL;
}

/* Returns the advice for a URL such as s3://bucket/train, NULL for a path. */
static const char *by_scheme(const char *path)
{
    size_t n = strspn(path, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789+.-");
    if (n < 2 || strncmp(path + n, "://", 3) != 0)
        return NULL;
    if (strncasecmp(path, "file://", 7) == 0)
        return "this is an address, and a path is expected: leave out file://";
    if (strncasecmp(path, "hf://", 5) == 0)
        return "this is an address on the Hugging Face Hub, which Penstock does not open: "
               "see " GUIDE "from-huggingface.md";
    return "this is an address of object storage or the web, which Penstock does not open: "
           "see " GUIDE "object-storage.md";
}

const char *pst_path_advice(const char *path)
{
    uint8_t head[HEAD_NBYTES];
    struct stat st;
    const char *advice = path == NULL ? NULL : by_scheme(path);
    if (path == NULL || advice != NULL || stat(path, &st) != 0 || !S_ISREG(st.st_mode))
        return advice;
    if (psti_containers_kind_of_name(path) != PSTI_CONTAINER_NONE)
        return NULL; /* such files can be read in place */
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    ssize_t n = fd < 0 ? -1 : psti_read_at(fd, head, sizeof head, 0);
    if (fd >= 0)
        close(fd);
    const char *by_name = psti_dataset_foreign_name(path);
    advice = n > 0 ? by_head(head, (size_t)n) : NULL;
    /* An .npz is a zip, and an archive may contain anything, so the name says more than the
     * bytes. */
    if (by_name != NULL && (advice == NULL || memcmp(head, "PK", 2) == 0))
        return by_name;
    return advice;
}
