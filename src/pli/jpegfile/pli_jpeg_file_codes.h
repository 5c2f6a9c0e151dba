/* pli_jpeg_file_codes.h - inside the reader of JPEG files: the tables in which it looks up Huffman
 * codes. */
#ifndef PST_PLI_JPEG_FILE_CODES_H
#define PST_PLI_JPEG_FILE_CODES_H

#include "pli/jpegfile/pli_jpeg_file_int.h"

enum {
    PSTI_JPEG_LOOK_BITS = 10,
    PSTI_JPEG_LOOK = 1 << PSTI_JPEG_LOOK_BITS,
    PSTI_JPEG_QUICK_BITS = 11,
    PSTI_JPEG_QUICK = 1 << PSTI_JPEG_QUICK_BITS
};

struct psti_jpeg_decoder_table {
    /* By the next bits: length of the code << 16 | symbol << 8 | length of code and value together.
     * The lower half of the symbol is the length of the value in bits. An entry of 0 says that the
     * code is longer than the index. */
    uint32_t codes[PSTI_JPEG_LOOK];
    /* For sequential scans, by the next bits. A quick entry holds the length of code and value
     * together; from bit 8 on, by how many coefficients it goes on; from bit 16 on, the value,
     * which is 0 for a code of 16 zeros. A slow entry holds PSTI_JPEG_SLOW, the length of the code
     * and, from bit 16 on, the symbol. Entries are slow for codes that end a block or have more
     * bits than the index. A length of 0 means that the code is longer than the index, or that
     * there is none. */
    uint32_t quick[PSTI_JPEG_QUICK];
    /* indexed by length: the next 16 bits are below this value if the code has at most this
     * length */
    uint32_t ends[17];
    int32_t offsets[17]; /* indexed by length: a code plus this number is the code's index in
                          * symbols */
    uint8_t symbols[256];
};
#define PSTI_JPEG_SLOW 0x8000u

/* Fills a decoder table. Returns false if libjpeg would reject the table. Progressive files get
 * `codes`, sequential ones `quick`. */
bool psti_pli_jpeg_fill_table(const struct psti_jpeg_huffman *from, bool is_dc, bool is_progressive,
                              struct psti_jpeg_decoder_table *table);

/* Returns a code that is too long for the index of `codes`, in the form of its entries, or 0 if
 * there is none. The bits are passed by value: if a call got the address of a variable, compilers
 * would not keep it in registers. */
uint32_t psti_pli_jpeg_find_long_code(uint64_t buffer, const struct psti_jpeg_decoder_table *table);

#endif
