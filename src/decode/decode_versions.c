/* decode_versions.c - lists the codecs and the libraries that they use, for `penstock env`. */
#include "decode/decode.h"
#include "pli/format/pli_head.h"

/* jpeglib.h needs the types FILE and size_t, so their headers come first. */
#include <stdio.h>

#include <jpeglib.h>
#include <libdeflate.h>
#include <png.h>
#ifdef PST_HAVE_WEBP
#include <webp/decode.h>
#endif

#define TEXT_OF(x) #x
#define TEXT(x) TEXT_OF(x)

size_t psti_decode_versions(struct psti_codec_version *out, size_t capacity)
{
    size_t n = 0;
    if (n < capacity) {
        out[n].codec = "jpeg";
        /* libjpeg-turbo has no call that returns its version at run time. */
        snprintf(out[n++].version, sizeof out->version,
                 "libjpeg-turbo " TEXT(LIBJPEG_TURBO_VERSION));
    }
    if (n < capacity) {
        out[n].codec = "png";
        /* libdeflate has no call that returns its version at run time. */
        snprintf(out[n++].version, sizeof out->version, "libpng %s, libdeflate %s",
                 png_get_libpng_ver(NULL), LIBDEFLATE_VERSION_STRING);
    }
#ifdef PST_HAVE_WEBP
    if (n < capacity) {
        int version = WebPGetDecoderVersion();
        out[n].codec = "webp";
        snprintf(out[n++].version, sizeof out->version, "libwebp %d.%d.%d", version >> 16,
                 (version >> 8) & 255, version & 255);
    }
#endif
    if (n < capacity) {
        out[n].codec = "pli";
        snprintf(out[n++].version, sizeof out->version, "our own, format version %d",
                 PSTI_PLI_VERSION);
    }
    return n;
}
