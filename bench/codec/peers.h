/* peers.h - the families of codecs, each in peer_<name>.c. CMakeLists.txt decides which are
 * built. */
#ifndef PST_BENCH_CODEC_PEERS_H
#define PST_BENCH_CODEC_PEERS_H

#include "codec.h"

extern const struct codec_family family_memcpy, family_png, family_penstock_png, family_spng,
    family_webp, family_jxl, family_zstd, family_qoi, family_charls, family_l3, family_pli;

#endif
