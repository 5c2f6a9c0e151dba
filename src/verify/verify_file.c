/* verify_file.c - pst_verify for a single image or audio file outside of a data set.
 *
 * In: a path, whose ending tells images from sounds. Out: PST_OK, or what is wrong. The whole file
 * is decoded. A PLI's head, units and pixels are compared with the checksums in the file. For a
 * JPEG kept as PLI, the JPEG is also restored and compared if the caller wants that. One thread. */
#include "verify/verify_int.h"

#include "base/alloc.h"
#include "base/fail.h"
#include "base/files/read.h"
#include "dataset/dataset.h"
#include "dataset/dataset_members.h"
#include "decode/decode_audio.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

static enum pst_status read_all(int fd, uint8_t *bytes, size_t nbytes, const char *path,
                                struct pst_error *err)
{
    ssize_t n = psti_read_at(fd, bytes, nbytes, 0);
    if (n < 0)
        return psti_fail_os(err, errno, "verify", path, 0, "cannot read the file");
    return (size_t)n == nbytes
               ? PST_OK
               : psti_fail(err, PST_ERROR_TRUNCATED, "verify", "the file became shorter");
}

bool psti_verify_is_file(const char *path)
{
    struct stat st;
    return stat(path, &st) == 0 && S_ISREG(st.st_mode) && !psti_dataset_means_containers(path);
}

static enum pst_status verify_image(const uint8_t *bytes, struct pst_item *item, bool restore,
                                    struct pst_error *err)
{
    struct psti_decoder *decoder = NULL;
    struct psti_pli_keep jpeg = {0};
    enum pst_status status = psti_decode_open(&decoder, err);
    if (status == PST_OK)
        status = psti_verify_pixels(decoder, PST_FIELD_IMAGE, bytes, item, err);
    if (status == PST_OK && restore)
        status = psti_verify_restore(&jpeg, bytes, (size_t)item->nbytes, err);
    psti_decode_close(&decoder);
    psti_pli_keep_free(&jpeg);
    return status;
}

enum pst_status psti_verify_file(const char *path, bool restore, uint64_t *nbytes,
                                 struct pst_error *err)
{
    struct pst_item item = {.i_file = PST_FILE_NONE};
    struct stat st;
    uint8_t *bytes = NULL;
    const char *advice = pst_path_advice(path);
    if (advice != NULL)
        return psti_fail_at(err, PST_ERROR_UNSUPPORTED, "verify", path, -1, "%s", advice);
    int fd;
    enum pst_status status = psti_open_data(path, "verify", "the file", &fd, &st, err);
    if (status != PST_OK)
        goto out;
    item.nbytes = (uint64_t)st.st_size;
    bytes = item.nbytes > SIZE_MAX / 2 ? NULL : psti_alloc((size_t)item.nbytes + 1);
    if (bytes == NULL) {
        status =
            psti_fail(err, PST_ERROR_MEMORY, "verify", "out of memory for a file of %llu bytes",
                      (unsigned long long)item.nbytes);
        goto out;
    }
    status = read_all(fd, bytes, (size_t)item.nbytes, path, err);
    if (status == PST_OK && psti_dataset_is_audio_name(path))
        status = psti_decode_audio_check(bytes, (size_t)item.nbytes, err);
    else if (status == PST_OK)
        status = verify_image(bytes, &item, restore, err);
    if (status == PST_OK)
        *nbytes = item.nbytes;
out:
    if (status != PST_OK && err != NULL && err->file[0] == '\0')
        psti_error_set_file(err, path);
    psti_free(bytes);
    if (fd >= 0)
        close(fd);
    return status;
}
