/* codec_list.c - the families of codecs in this build, and the missing ones. */
#include "codec.h"
#include "peers.h"

/* The families of codecs, in the order of the table's lines. */
static const struct codec_family *const families[] = {
    &family_memcpy, &family_png, &family_penstock_png,
#ifdef CODEC_HAVE_SPNG
    &family_spng,
#endif
#ifdef CODEC_HAVE_QOI
    &family_qoi,
#endif
#ifdef CODEC_HAVE_WEBP
    &family_webp,
#endif
#ifdef CODEC_HAVE_JXL
    &family_jxl,
#endif
#ifdef CODEC_HAVE_CHARLS
    &family_charls,
#endif
#ifdef CODEC_HAVE_ZSTD
    &family_zstd,
#endif
    &family_l3,     &family_pli,
};

static const struct codec_absence absences[] = {
#ifndef CODEC_HAVE_SPNG
    {"libspng", "not found when this was built"},
#endif
#ifndef CODEC_HAVE_QOI
    {"qoi", "qoi.h not found when this was built"},
#endif
#ifndef CODEC_HAVE_WEBP
    {"webp", "libwebp not found when this was built"},
#endif
#ifndef CODEC_HAVE_JXL
    {"jxl", "libjxl not found when this was built"},
#endif
#ifndef CODEC_HAVE_CHARLS
    {"jpegls", "charls not found when this was built"},
#endif
#ifndef CODEC_HAVE_ZSTD
    {"zstd", "libzstd not found when this was built"},
#endif
    {"zlib-ng", "not packaged by Debian 12 and Ubuntu 24.04"},
};

const struct codec_family *const *codec_families(size_t *n)
{
    *n = sizeof families / sizeof *families;
    return families;
}

const struct codec_absence *codec_absences(size_t *n)
{
    *n = sizeof absences / sizeof *absences;
    return absences;
}
