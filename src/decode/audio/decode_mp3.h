/* decode_mp3.h - internal: finds all frames of an MPEG audio layer III (MP3) file, and decodes
 * frames.
 *
 * psti_decode_mp3_walk reads the headers of all frames once, without decoding, because nothing else
 * tells the length of a file. A frame is decoded from its own bits and from bits that earlier
 * frames hold for it (the bit reservoir). */
#ifndef PST_DECODE_DECODE_MP3_H
#define PST_DECODE_DECODE_MP3_H

#include <penstock/status.h>

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    PSTI_MP3_LINES = 576,         /* frequency lines of a granule, and samples of it */
    PSTI_MP3_RESERVOIR_MAX = 511, /* most bytes that earlier frames hold for a later frame */
    PSTI_MP3_FRAME_MAX = 1441,    /* most bytes of a frame */
    PSTI_MP3_BEHIND = 32,         /* bytes after the main data that decoding may read */
    PSTI_MP3_INDEX_EVERY = 64,    /* the index has the offset of every 64th frame */
    PSTI_MP3_PAIR_CODES = 15, /* Huffman codes of pairs; some tables of the format share a code */
    PSTI_MP3_CODES = 17,          /* all Huffman codes: those of pairs and two of quadruples */
    PSTI_MP3_LEAVES = 1410,
    PSTI_MP3_LUT_ENTRIES = 8192 /* 6842 entries for pairs, the rest for quadruples */
};

/* The fields of a frame's header, which has four bytes. */
struct psti_mp3_header {
    uint32_t rate, channels;
    uint32_t n_granules; /* granules of the frame: 2 for MPEG 1, 1 for MPEG 2 and 2.5 */
    uint32_t nbytes;     /* bytes of the whole frame */
    uint32_t side;       /* offset of the side information within the frame */
    uint32_t main;       /* offset of the main data within the frame */
    /* index of the sample rate, 0 to 8: 44100, 48000, 32000, then half and a quarter of these */
    uint8_t i_rate;
    bool lsf, mpeg25, ms, intensity;
};

enum psti_mp3_kind {
    PSTI_MP3_NONE,  /* not a header */
    PSTI_MP3_LAYER, /* layer I or II */
    PSTI_MP3_FREE,  /* layer III of free format */
    PSTI_MP3_FRAME
};

/* Reads the header of a frame from 4 bytes. */
enum psti_mp3_kind psti_decode_mp3_header_read(const uint8_t *bytes,
                                               struct psti_mp3_header *header);

/* Facts about a file that psti_decode_mp3_walk finds out. All zero before the call. */
struct psti_mp3_walk {
    struct psti_mp3_header first; /* header of the first frame that holds sound */
    uint64_t n_frames;            /* number of frames that hold sound */
    uint64_t skip;                /* samples before the sound, added by encoder and decoder */
    uint64_t n_samples;           /* samples of the sound in each channel */
    uint64_t *index;              /* offset of every PSTI_MP3_INDEX_EVERY-th frame */
    size_t n_index, index_capacity;
};

/* Reads all frame headers of a file whose leading tags were cut off. Returns PST_ERROR_TRUNCATED if
 * the file ends within a frame, or has fewer frames than its Xing or LAME header states;
 * PST_ERROR_CORRUPT if it holds anything but frames; PST_ERROR_UNSUPPORTED for layers I and II and
 * for the free format; or PST_ERROR_MEMORY. */
enum pst_status psti_decode_mp3_walk(const uint8_t *bytes, uint64_t nbytes,
                                     struct psti_mp3_walk *walk, struct pst_error *err);
void psti_decode_mp3_walk_free(struct psti_mp3_walk *walk);
/* Returns the offset of the next frame at or after `at`. `at` must be the end of a frame that
 * psti_decode_mp3_walk has found, and not of the last frame. */
uint64_t psti_decode_mp3_walk_next(const uint8_t *bytes, uint64_t nbytes, uint64_t at);

/* One channel of one granule: its side information, scale factors and quantised values. */
struct psti_mp3_part {
    uint32_t nbits;   /* number of bits of the scale factors and values together */
    uint32_t n_pairs; /* half the number of values that are coded in pairs */
    uint32_t gain, compress;
    uint32_t block;     /* the kind of the block: 0 long, 1 start, 2 short, 3 stop */
    uint32_t region[2]; /* ends of the first two regions, counted in pairs */
    uint8_t tables[3], subgain[3];
    bool mixed, preflag, coarse, quad;
    uint8_t reuse;     /* bit i: group i of the scale factors is the same as in the first granule */
    uint8_t scale[40]; /* scale factors in the order of the bit stream */
    uint16_t n_values; /* values from this index on are 0 */
    int16_t values[PSTI_MP3_LINES];
};

/* Lookup tables of the Huffman codes. The next 8 bits select a symbol or a second table. */
struct psti_mp3_codes {
    uint32_t base[PSTI_MP3_CODES]; /* index of the first entry of each code */
    uint32_t entries[PSTI_MP3_LUT_ENTRIES];
};
void psti_decode_mp3_codes_fill(struct psti_mp3_codes *codes);

/* Reads the side information of a frame into parts[granule][channel]. Returns NULL, or a text that
 * says what is wrong. */
const char *psti_decode_mp3_side_read(const uint8_t *frame, const struct psti_mp3_header *header,
                                      struct psti_mp3_part parts[2][2], uint32_t *main_data_begin);
/* Reads the scale factors and values of all parts from the main data. May read PSTI_MP3_BEHIND
 * bytes beyond the main data. Returns NULL, or a text that says what is wrong. */
const char *psti_decode_mp3_main_read(const struct psti_mp3_codes *codes, const uint8_t *main,
                                      size_t nbytes, const struct psti_mp3_header *header,
                                      struct psti_mp3_part parts[2][2]);

/* Constants of the synthesis, and its state between granules. */
struct psti_mp3_synthesis;
struct psti_mp3_synthesis *psti_decode_mp3_synthesis_open(void); /* NULL: no memory */
void psti_decode_mp3_synthesis_free(struct psti_mp3_synthesis *synthesis);
/* Clears the state of the synthesis that earlier granules have left. */
void psti_decode_mp3_synthesis_restart(struct psti_mp3_synthesis *synthesis);
/* Computes 576 samples of each channel of a granule, interleaved, in -1..1. */
void psti_decode_mp3_synthesis_run(struct psti_mp3_synthesis *synthesis,
                                   const struct psti_mp3_header *header,
                                   const struct psti_mp3_part parts[2], float *out);

/* The tables of decode_mp3_tables.c. */
extern const uint16_t psti_mp3_leaves[PSTI_MP3_LEAVES];
extern const uint16_t psti_mp3_leaf_at[PSTI_MP3_CODES + 1];
extern const uint16_t psti_mp3_long_bands[9][23];
extern const uint16_t psti_mp3_short_bands[9][14];
extern const int32_t psti_mp3_window[257];
extern const double psti_mp3_cos72[37];
extern const double psti_mp3_cos64[33];

#endif
