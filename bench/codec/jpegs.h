/* jpegs.h - shared by the parts of the benchmark of JPEG files kept as PLI against
 * libjpeg-turbo. */
#ifndef PST_BENCH_JPEGS_H
#define PST_BENCH_JPEGS_H

#include "crops.h"

enum { JPEG_DRAWS = 2 }; /* RandomResizedCrop rectangles that are drawn for each file */

struct jpeg {
    char *name;
    struct bytes file, pli; /* pli.nbytes is 0 if this file was not converted and stays a JPEG */
    uint32_t height, width;
    uint8_t channels;
    size_t scratch_nbytes;
    struct pst_pli_region regions[JPEG_DRAWS];
};

struct jpegs {
    const char *name;
    struct jpeg *files;
    size_t n;
    size_t pixels_nbytes; /* bytes of the largest image's pixels */
};

/* Finds every *.jpg, *.jpeg and *.JPEG below `root`/`folder`, sorted by name. If `folder` is NULL:
 * below `root`. */
void jpegs_find(struct jpegs *jpegs, const char *root, const char *folder, size_t max);
/* Makes JPEGs of the photographs of `root`/clic2025 and hrstereo, by libjpeg with its standard
 * tables. */
void jpegs_make(struct jpegs *jpegs, const char *name, const char *root, int quality,
                bool subsampled, size_t max);
void jpegs_free(struct jpegs *jpegs);

/* libjpeg-turbo in its fastest use: its object and buffers are reused, and each call decodes 16
 * rows. */
struct peer;
struct peer *peer_open(void);
void peer_close(struct peer *peer);
void peer_size(struct peer *peer, struct jpeg *jpeg);
/* Decodes a whole image. Rows of pixels are `row_nbytes` bytes apart. */
void peer_whole(struct peer *peer, const struct jpeg *jpeg, uint8_t *pixels, size_t row_nbytes);
/* Decodes a region. libjpeg may write more columns than the region has. */
void peer_region(struct peer *peer, const struct jpeg *jpeg, const struct pst_pli_region *region,
                 uint8_t *pixels, size_t row_nbytes);
/* Encodes a JPEG by libjpeg, for the files that the benchmark makes. */
void peer_encode(const struct image *image, int quality, bool subsampled, struct bytes *out);

/* CPU seconds of a pass over all files that are kept as PLI: medians over repeats. */
struct jpegs_result {
    size_t n_kept, n_same_pixels, n_restored;
    double file_nbytes, pli_nbytes; /* total bytes of all files; a file that stays a JPEG counts the
                                     * same in both */
    double from_seconds, to_seconds;
    double peer_whole, peer_crop, pli_whole, pli_crop;
};
void jpegs_measure(struct jpegs *jpegs, const struct settings *settings,
                   struct jpegs_result *result);

#endif
