/* codec.h - shared by the parts of the codec benchmark: images, codecs, and measurements.
 *
 * A peer is a `struct codec_family` in a file of its own, built only if its library is found.
 * Objects that a library can reuse (contexts, decoders) live in the state of open(); each thread
 * has its own. Rows of pixels have no gaps; samples of 16 bits are little-endian. */
#ifndef PST_BENCH_CODEC_H
#define PST_BENCH_CODEC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Decoders may write this many bytes after the pixels. */
#define CODEC_SLACK_NBYTES 64

struct image {
    char *name;
    uint8_t *pixels; /* u8 or u16 (H,W,C) */
    uint32_t height, width;
    uint8_t channels, bits;
    size_t row_nbytes, nbytes;
};

struct group {
    char *name;
    struct image *images;
    size_t n, pixel_count, nbytes, largest_nbytes;
};

/* A buffer that grows and is used again. */
struct bytes {
    uint8_t *at;
    size_t nbytes, cap;
};

/* Makes `bytes` hold `cap` bytes; its contents are kept. Ends the program if there is no memory. */
void bytes_reserve(struct bytes *bytes, size_t cap);
void bytes_put(struct bytes *bytes, const void *from, size_t nbytes);
void bytes_free(struct bytes *bytes);
void *claim(size_t nbytes);
_Noreturn void die(const char *what, const char *why);

struct codec {
    const char *name;
    int setting;         /* level, method or effort; the family interprets it */
    int tier;            /* the family interprets it */
    const char *borrows; /* the codec whose bytes this one decodes; NULL if it encodes its own */
    bool (*can)(const struct image *image);
    /* Both return false if the library reports an error. */
    bool (*encode)(void *state, const struct codec *codec, const struct image *image,
                   struct bytes *out);
    bool (*decode)(void *state, const struct codec *codec, const struct bytes *in,
                   const struct image *image, uint8_t *pixels);
};

struct codec_family {
    const char *library, *version;
    void *(*open)(void); /* NULL if there is no state */
    void (*close)(void *state);
    const struct codec *codecs;
    size_t n;
};

/* The families in this build, and the names of the others with the reasons. */
const struct codec_family *const *codec_families(size_t *n);
struct codec_absence {
    const char *name, *why;
};
const struct codec_absence *codec_absences(size_t *n);

/* True if there is an image in `directory`. */
bool group_is_there(const char *directory);
/* Loads the images of `directory` in the order of their names, at most `max_images` (0: all). */
void group_load(struct group *group, const char *directory, size_t max_images);
/* Makes the i-th group of generated images. False if there are no more. */
bool group_make(struct group *group, size_t i, size_t max_images);
/* Reads a file. Ends the program if that fails. */
void file_load(const char *path, struct bytes *out);
/* Adds an image to the sums of its group. */
void group_count(struct group *group, const struct image *image);
void group_free(struct group *group);

struct measurement {
    const struct codec_family *family;
    const struct codec *codec;
    void *state;
    struct bytes *coded; /* coded bytes of each image */
    bool owns_coded;
    size_t nbytes;               /* of all images */
    double encode;               /* bytes of pixels per second and core; 0 if not measured */
    double *decode, *decode_all; /* on one core, on all cores; one for each repeat */
    double *shortest;            /* seconds of each image's fastest decode */
    double cpu_share; /* least share of the wall time in which this thread had the core */
};

struct settings {
    double seconds, encode_seconds;
    uint32_t repeats, threads; /* threads 0: no figures for all cores */
    size_t max_images;
    bool sizes_only;
};

/* Encodes every image and compares the decoded pixels. Ends the program if they differ. `lender`
 * holds the bytes if the codec borrows. */
void measure_encode(struct measurement *m, const struct group *group,
                    const struct measurement *lender, const struct settings *settings);
void measure_decode(struct measurement *m, const struct group *group, uint32_t repeat,
                    const struct settings *settings);
/* Returns bytes of pixels per second if every image took its shortest time. */
double undisturbed_rate(const struct measurement *m, const struct group *group);
double median_of(const double *values, size_t n);
void measurement_close(struct measurement *m, size_t n_images);

/* The clocks and cores. */
uint32_t cores_allowed(void);
void pin_to_core(uint32_t i); /* the i-th of the allowed cores */
double wall_seconds(void);
double thread_cpu_seconds(void);

/* Filters of PNG, on whole images. `filtered` has one byte of filter type before each row. */
size_t filter_nbytes(const struct image *image);
void filter_left(const struct image *image, uint8_t *filtered);
void filter_min_sum(const struct image *image, uint8_t *filtered, uint8_t *row_scratch);
bool filter_undo(const struct image *image, const uint8_t *filtered, uint8_t *pixels);

/* The results to write. */
struct output;
struct output *output_open(const char *json, const char *csv, const struct settings *settings);
void output_group(struct output *out, const struct group *group, const struct measurement *rows,
                  size_t n_rows, const struct settings *settings);
void output_close(struct output *out);

#endif
