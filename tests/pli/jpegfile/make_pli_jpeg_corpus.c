/* make_pli_jpeg_corpus.c - writes the corpora of fuzz_pli_jpeg_file and fuzz_pli_jpeg_restore:
 * small JPEG files of every kind, and their restorations with coefficients after them.
 *
 *   make_pli_jpeg_corpus tests/fuzz/corpus/pli_jpeg_file tests/fuzz/corpus/pli_jpeg_restore */
#include "pli/jpegfile/jpeg_file_make.h"

#include "base/bits.h"

#include <stdlib.h>

#include <zlib.h>

enum { HEAD_NBYTES = 16, RESTORATION_HEAD_NBYTES = 9, COEFS_NBYTES = 300 };

static void save(const char *folder, const char *name, const void *bytes, size_t n)
{
    char path[4096];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *stream = fopen(path, "wb");
    if (!stream || fwrite(bytes, 1, n, stream) != n || fclose(stream) != 0)
        fail_msg("cannot write %s", path);
}

static uint8_t log2_of(uint8_t factor) { return factor == 4 ? 2 : factor == 2; }

/* Saves a restoration in the input format of fuzz_pli_jpeg_restore.c. */
static void save_restoration(const char *folder, const char *name, const struct jpeg_file *file)
{
    struct read_jpeg r;
    struct pst_error err;
    z_stream z = {0};
    assert_ok(read_jpeg_file(file, &r, &err));
    uint32_t n_skeleton = psti_load_u32(r.restoration + 1),
             n_extra = psti_load_u32(r.restoration + 5), n = n_skeleton + n_extra;
    uint8_t *out = calloc(1, HEAD_NBYTES + n + COEFS_NBYTES);
    assert_int_equal(inflateInit2(&z, -15), Z_OK);
    inflateSetDictionary(&z, psti_jpeg_dictionary, (uInt)psti_jpeg_dictionary_nbytes);
    z.next_in = r.restoration + RESTORATION_HEAD_NBYTES;
    z.avail_in = r.frame.restoration_nbytes - RESTORATION_HEAD_NBYTES;
    z.next_out = out + HEAD_NBYTES;
    z.avail_out = n;
    inflate(&z, Z_FINISH);
    assert_int_equal(z.avail_out, 0);
    inflateEnd(&z);
    out[0] = (uint8_t)(r.frame.width - 1);
    out[1] = (uint8_t)(r.frame.height - 1);
    out[2] = r.frame.n_components == 3;
    for (uint32_t c = 0; c < r.frame.n_components; c++) {
        const struct psti_jpeg_component *p = &r.frame.components[c];
        out[3 + c] = (uint8_t)(log2_of(p->h) | log2_of(p->v) << 2 | p->quant << 4);
    }
    psti_store_u16(out + 6, (uint16_t)(file->nbytes - 1));
    out[8] = r.restoration[0];
    psti_store_u16(out + 10, (uint16_t)n_skeleton);
    psti_store_u16(out + 12, (uint16_t)n_extra);
    out[15] = 1;
    memcpy(out + HEAD_NBYTES + n, r.coefs[0], COEFS_NBYTES);
    save(folder, name, out, HEAD_NBYTES + n + COEFS_NBYTES);
    free(out);
    free_read_jpeg(&r);
}

int main(int argc, char **argv)
{
    static const uint8_t factors[] = {0x11, 0x21, 0x22, 0x12, 0x41};
    uint64_t seed = 0;
    if (argc != 3)
        return 2;
    for (int kind = FILE_GRAY; kind <= FILE_RGB; kind++)
        for (int scans = SCANS_ONE; scans <= SCANS_FINE; scans++, seed++) {
            struct jpeg_file_spec spec = {.height = 17 + (uint32_t)seed % 9,
                                          .width = 33,
                                          .kind = (enum jpeg_file_kind)kind,
                                          .factors = {factors[seed % 5]},
                                          .quality = 20 + (int)seed * 5,
                                          .scans = (enum jpeg_file_scans)scans,
                                          .restart = (uint16_t)(seed % 3),
                                          .optimised = true,
                                          .wide_quants = seed % 4 == 1};
            struct jpeg_file file = make_jpeg_file(&spec, seed);
            char name[40];
            snprintf(name, sizeof name, "kind%d_scans%d", kind, scans);
            if (seed % 3) /* fill bytes are an event of the restoration */
                insert_bytes(&file, find_marker(&file, 0xD0, find_data(&file, 0)), "\xFF", 1);
            save(argv[1], name, file.bytes, file.nbytes);
            save_restoration(argv[2], name, &file);
            free(file.bytes);
        }
    return 0;
}
