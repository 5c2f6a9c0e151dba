/* Hazard: the header of a hostile JPEG is read beyond its end, or a file is given to nvJPEG whose
 * size is not the one that the rest of the loader goes by: pixels would be written where there is
 * no room for them. */
#include "decode/decode.h"
#include "device/device_nvjpeg.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t nbytes);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t nbytes)
{
    const struct pst_decode_options options = {.struct_size = sizeof options,
                                               .ignore_orientation = true};
    struct pst_image_info info = {0};
    struct psti_nvjpeg_file file;
    struct pst_error err;
    const char *why;
    if (!psti_device_nvjpeg_takes(data, nbytes, &file, &why)) {
        if (!why)
            abort();
        return 0;
    }
    if (why || file.height == 0 || file.width == 0 || (file.channels != 1 && file.channels != 3))
        abort();
    enum pst_status status =
        pst_image_probe(data, nbytes, PST_FORM_JPEG, &options, &info, sizeof info, &err);
    if (status == PST_ERROR_LIMIT) /* too many pixels */
        return 0;
    if (status != PST_OK || info.height != file.height || info.width != file.width ||
        info.channels != file.channels || info.bits != 8)
        abort();
    return 0;
}
