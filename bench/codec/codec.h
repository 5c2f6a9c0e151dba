/* codec.h - shared by the parts of the codec benchmark: images, codecs, and measurements.
 *
 * A peer is a `struct codec_family` in a file of its own, built only if its library is found.
 * Objects that a library can reuse (contexts, decoders) live in the state that open() returns; each
 * thread opens its own state. Rows of pixels have no gaps; samples of 16 bits are little-endian. */
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

/* A buffer that grows when needed and is reused. */
struct bytes {
    uint8_t *at;
    size_t nbytes, cap;
};

/* Grows `bytes` to hold at least `cap` bytes and keeps its contents. Ends the program if there is
 * no memory. */
void bytes_reserve(struct bytes *bytes, size_t cap);
void bytes_put(struct bytes *bytes, const void *from, size_t nbytes);
void bytes_free(struct bytes *bytes);
void *claim(size_t nbytes);
_Noreturn void die(const char *what, const char *why);

struct codec {
    const char *name;
    int setting;         /* level, method or effort; each family has its own meaning */
    int tier;            /* codec whose coded bytes this one decodes; NULL: its own */
    const char *borrows; /* a codec whose coded bytes are decoded here, such as libpng for libspng;
                          * NULL: encodes its own */
    bool (*can)(const struct image *image);
    /* Both return false if the library reports an error. */
    bool (*encode)(void *state, const struct codec *codec, const struct image *image,
                   struct bytes *out);
    bool (*decode)(void *state, const struct codec *codec, const struct bytes *in,
                   const struct image *image, uint8_t *pixels);
};

struct codec_family {
    const char *library, *version;
    void *(*open)(void); /* the family's state is NULL if it needs none */
    void (*close)(void *state);
    const struct codec *codecs;
    size_t n;
};

/* The families of codecs in this build, and the names of the missing ones with the reasons. */
const struct codec_family *const *codec_families(size_t *n);
struct codec_absence {
    const char *name, *why;
};
const struct codec_absence *codec_absences(size_t *n);

/* Returns whether there is an image in `directory`. */
bool group_is_there(const char *directory);
/* Loads the images of `directory` in the order of their names, at most `max_images` (0: all). */
void group_load(struct group *group, const char *directory, size_t max_images);
/* Makes group i of the generated images. Returns false if there are no more. */
bool group_make(struct group *group, size_t i, size_t max_images);
/* Reads a file. Ends the program if that fails. */
void file_load(const char *path, struct bytes *out);
/* Adds the sizes of an image to the totals of its group. */
void group_count(struct group *group, const struct image *image);
void group_free(struct group *group);

struct measurement {
    const struct codec_family *family;
    const struct codec *codec;
    void *state;
    struct bytes *coded; /* coded bytes of each image */
    bool owns_coded;
    size_t nbytes;               /* length of all images together */
    double encode;               /* bytes of pixels per second and core; 0 if not measured */
    double *decode, *decode_all; /* rate on one core and on all cores, one value for each repeat */
    double *shortest;            /* seconds of the fastest decode of each image */
    double cpu_share; /* the least share of the wall time in which this thread had the core */
};

struct settings {
    double seconds, encode_seconds;
    uint32_t repeats, threads; /* threads 0: all cores are not measured */
    size_t max_images;
    bool sizes_only;
};

/* Encodes every image and compares the decoded pixels. Ends the program if they differ. `lender`:
 * the measurement whose coded bytes are used if the codec borrows. */
void measure_encode(struct measurement *m, const struct group *group,
                    const struct measurement *lender, const struct settings *settings);
void measure_decode(struct measurement *m, const struct group *group, uint32_t repeat,
                    const struct settings *settings);
/* Returns the rate in bytes of pixels per second if every decode took its image's shortest time. */
double undisturbed_rate(const struct measurement *m, const struct group *group);
double median_of(const double *values, size_t n);
void measurement_close(struct measurement *m, size_t n_images);

/* Clocks, and the cores that this process may use. */
uint32_t cores_allowed(void);
void pin_to_core(uint32_t i); /* pins the thread to the i-th allowed core */
double wall_seconds(void);
double thread_cpu_seconds(void);

/* PNG's filters for whole images. `filtered` has one byte, the filter type, before each row. */
size_t filter_nbytes(const struct image *image);
void filter_left(const struct image *image, uint8_t *filtered);
void filter_min_sum(const struct image *image, uint8_t *filtered, uint8_t *row_scratch);
bool filter_undo(const struct image *image, const uint8_t *filtered, uint8_t *pixels);

/* The files that results are written to. */
struct output;
struct output *output_open(const char *json, const char *csv, const struct settings *settings);
void output_group(struct output *out, const struct group *group, const struct measurement *rows,
                  size_t n_rows, const struct settings *settings);
void output_close(struct output *out);

#endif
