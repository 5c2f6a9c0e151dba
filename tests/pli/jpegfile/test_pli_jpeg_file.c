/* JPEG files of every kind are restored byte for byte. Their coefficients are libjpeg's. Files that
 * cannot be kept are refused with a reason. Damage to a restoration is detected. */
#include "pli/jpegfile/jpeg_file_make.h"

#include "base/fault.h"
#include "base/hash.h"

#include <stdlib.h>

static const uint8_t samplings[][3] = {{0x11, 0x11, 0x11}, {0x21, 0x11, 0x11}, {0x22, 0x11, 0x11},
                                       {0x12, 0x11, 0x11}, {0x41, 0x11, 0x11}, {0x14, 0x11, 0x11},
                                       {0x22, 0x22, 0x11}, {0x22, 0x12, 0x21}, {0x11, 0x21, 0x11},
                                       {0x42, 0x11, 0x11}, {0x21, 0x21, 0x21}};
enum { N_SAMPLINGS = sizeof samplings / sizeof samplings[0] };

static void test_every_kind(void **state)
{
    static const uint32_t sizes[][2] = {{1, 1},   {8, 8},   {9, 17},  {16, 33},
                                        {47, 31}, {64, 64}, {70, 100}};
    static const int qualities[] = {1, 40, 75, 95, 100};
    static const uint16_t restarts[] = {0, 0, 1, 3, 7};
    uint64_t seed = 1;
    (void)state;
    for (int kind = FILE_GRAY; kind <= FILE_RGB; kind++)
        for (int sampling = 0; sampling < (kind == FILE_GRAY ? 1 : N_SAMPLINGS); sampling++)
            for (int scans = SCANS_ONE; scans <= SCANS_FINE; scans++)
                for (size_t size = 0; size < sizeof sizes / sizeof sizes[0]; size++, seed++) {
                    struct jpeg_file_spec spec = {
                        .height = sizes[size][0],
                        .width = sizes[size][1],
                        .kind = (enum jpeg_file_kind)kind,
                        .quality = qualities[seed % 5],
                        .scans = (enum jpeg_file_scans)scans,
                        .restart = restarts[seed / 3 % 5],
                        .optimised = seed % 2,
                        .wide_quants = seed % 3 == 0,
                        .smooth = seed % 4 == 0,
                    };
                    char what[99];
                    memcpy(spec.factors, samplings[sampling], 3);
                    /* the factors of a single component have no meaning */
                    if (kind == FILE_GRAY && seed % 2)
                        spec.factors[0] = 0x22;
                    snprintf(what, sizeof what, "kind %d, sampling %d, scans %d, size %zu", kind,
                             sampling, scans, size);
                    struct jpeg_file file = make_jpeg_file(&spec, seed);
                    check_round_trip(&file, true, what);
                    free(file.bytes);
                }
}

static struct jpeg_file plain_file(enum jpeg_file_scans scans, uint16_t restart)
{
    struct jpeg_file_spec spec = {.height = 90,
                                  .width = 120,
                                  .kind = FILE_YCC,
                                  .factors = {0x22},
                                  .quality = 80,
                                  .scans = scans,
                                  .restart = restart};
    return make_jpeg_file(&spec, 7);
}

/* -- Bytes around the entropy-coded data -- */

static void test_bytes_around(void **state)
{
    static const uint8_t fill[] = {0xFF, 0xFF, 0xFF}, stray[] = {1, 2, 0xFF, 0, 3},
                         no_length[] = {0xFF, 0xD3, 0xFF, 0x01}, dnl[] = {0xFF, 0xDC, 0, 4, 0, 90};
    static const struct {
        uint8_t marker; /* marker before which the bytes are inserted */
        const uint8_t *bytes;
        size_t n;
        const char *what;
    } cases[] = {
        {0xDB, fill, 3, "fill bytes before DQT"},   {0xC4, stray, 5, "stray bytes before DHT"},
        {0xDA, fill, 2, "fill bytes before SOS"},   {0xD9, fill, 3, "fill bytes before EOI"},
        {0xD9, stray, 5, "stray bytes before EOI"}, {0xD9, no_length, 4, "RST3 and TEM before EOI"},
        {0xD9, dnl, 6, "DNL before EOI"},           {0xDA, no_length, 2, "RST3 before SOS"}};
    (void)state;
    for (int scans = SCANS_ONE; scans <= SCANS_FINE; scans++)
        for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
            struct jpeg_file file = plain_file((enum jpeg_file_scans)scans, i % 2 ? 2 : 0);
            size_t from = cases[i].marker == 0xD9 ? file.nbytes - 2 : 0;
            insert_bytes(&file, find_marker(&file, cases[i].marker, from), cases[i].bytes,
                         cases[i].n);
            check_round_trip(&file, false, cases[i].what);
            free(file.bytes);
        }
}

static void test_tails(void **state)
{
    (void)state;
    for (int scans = SCANS_ONE; scans <= SCANS_FINE; scans++) {
        struct jpeg_file file = plain_file((enum jpeg_file_scans)scans, 0);
        struct jpeg_file twice = copy_jpeg_file(&file), cut = copy_jpeg_file(&file);
        insert_bytes(&twice, twice.nbytes, file.bytes, file.nbytes);
        check_round_trip(&twice, true, "a second image behind EOI");
        insert_bytes(&twice, file.nbytes, "\0\0\xFF\xFF\0garbage\xFF", 13);
        check_round_trip(&twice, true, "garbage behind EOI");
        cut.nbytes -= 1;
        check_round_trip(&cut, false, "half an EOI");
        cut.nbytes -= 1;
        check_round_trip(&cut, false, "no EOI");
        free(file.bytes);
        free(twice.bytes);
        free(cut.bytes);
    }
}

static void test_restart_markers(void **state)
{
    struct jpeg_file file = plain_file(SCANS_ONE, 1);
    (void)state;
    size_t at = find_marker(&file, 0xD3, find_data(&file, 0));
    insert_bytes(&file, at, "\xFF\xFF", 2);
    check_round_trip(&file, true, "fill bytes before a restart marker");
    at = find_marker(&file, 0xD9, file.nbytes - 2);
    insert_bytes(&file, at, "\xFF\xD5", 2);
    check_round_trip(&file, false, "a restart marker behind the data");

    struct pst_error err;
    struct read_jpeg r;
    at = find_marker(&file, 0xD4, find_data(&file, 0));
    file.bytes[at + 1] = 0xD5;
    assert_int_equal(read_jpeg_file(&file, &r, &err), PST_ERROR_CORRUPT);
    file.bytes[at + 1] = 0xD4;
    insert_bytes(&file, at, "\x12", 1);
    assert_int_equal(read_jpeg_file(&file, &r, &err), PST_ERROR_UNSUPPORTED);
    assert_non_null(strstr(err.text, "stray bytes"));
    free(file.bytes);
}

static void test_segments(void **state)
{
    static const char exif[] = "\xFF\xE1\0\x22"
                               "Exif\0\0MM\0*\0\0\0\x08\0\1\1\x12\0\3\0\0\0\1\0\6\0\0\0\0\0\0";
    static const uint8_t unused_quant[] = {0xFF, 0xDB, 0, 67, 3},
                         unused_huffman[] = {0xFF, 0xC4, 0, 20, 0x13, 0, 1, 0, 0, 0, 0,
                                             0,    0,    0, 0,  0,    0, 0, 0, 0, 0, 9};
    uint8_t values[64];
    struct psti_jpeg_frame frame;
    struct pst_error err;
    struct jpeg_file file = plain_file(SCANS_ONE, 0);
    uint32_t before = check_round_trip(&file, true, "as it is");
    (void)state;
    insert_bytes(&file, 2, exif, 2 + 0x22);
    check_round_trip(&file, true, "EXIF");
    assert_ok(psti_pli_jpeg_probe(file.bytes, file.nbytes, &frame, &err));
    assert_int_equal(frame.orientation, 6);
    remove_bytes(&file, 2, 2 + 0x22);

    /* Unused tables, and a table that occurs twice in the file, stay in the skeleton with their
     * values. */
    for (int i = 0; i < 64; i++)
        values[i] = (uint8_t)(i * 37 + 1);
    insert_bytes(&file, find_marker(&file, 0xC4, 0), unused_huffman, sizeof unused_huffman);
    size_t at = find_marker(&file, 0xDB, 0);
    insert_bytes(&file, at, values, 64);
    insert_bytes(&file, at, unused_quant, sizeof unused_quant);
    check_round_trip(&file, true, "tables of no use");
    file.bytes[at + 4] = 0; /* the table is now in use, but the file defines it again later */
    uint32_t told_twice = check_round_trip(&file, true, "a table told twice");
    assert_true(told_twice > before + 100);
    free(file.bytes);
}

/* Puts both tables into one segment, one of them with 16 bits. */
static void test_quantisation_segments(void **state)
{
    struct jpeg_file file = plain_file(SCANS_PROGRESSIVE, 0);
    size_t first = find_marker(&file, 0xDB, 0), second = find_marker(&file, 0xDB, first + 2);
    uint8_t wide[128];
    (void)state;
    uint32_t before = check_round_trip(&file, true, "as it is");
    remove_bytes(&file, second, 4);
    file.bytes[first + 3] = 2 + 65 + 65;
    check_round_trip(&file, true, "two tables in a segment");
    for (int i = 0; i < 64; i++) {
        wide[2 * i] = 0;
        wide[2 * i + 1] = file.bytes[second + 1 + (size_t)i];
    }
    file.bytes[second] |= 0x10;
    remove_bytes(&file, second + 1, 64);
    insert_bytes(&file, second + 1, wide, 128);
    file.bytes[first + 3] = 2 + 65 + 129;
    uint32_t after = check_round_trip(&file, true, "a table of 16 bits");
    assert_true(after < before + 16); /* the 16-bit values are left out of the skeleton, too */
    free(file.bytes);
}

static void test_many_quantisation_tables(void **state)
{
    struct jpeg_file file = plain_file(SCANS_ONE, 0);
    size_t at = find_marker(&file, 0xDB, 0);
    uint8_t segment[69];
    (void)state;
    memcpy(segment, file.bytes + at, sizeof segment);
    for (int i = 0; i < 40; i++)
        insert_bytes(&file, at, segment, sizeof segment);
    check_round_trip(&file, true, "a table told 41 times");
    free(file.bytes);
}

/* -- Files that libjpeg would not have written -- */

static const uint8_t symbols[] = {0x00, 0xF0, 0x01, 0x11, 0x21, 0x51, 0xE1, 0xF1, 0x02,
                                  0x10, 0x20, 0x30, 0x40, 0x50, 0x60, 0x70, 0x80, 0x90,
                                  0xA0, 0xB0, 0xC0, 0xD0, 0xE0, 0x0F, 0x03};

static void test_zeros_at_the_end(void **state)
{
    struct code_writer w;
    (void)state;
    begin_codes(&w, 8, 8 * 20, false, symbols, sizeof symbols);
    begin_scan(&w, 0, 63, 0, 0);
    for (int i = 0; i < 20; i++) {
        put_dc_code(&w, 0);
        if (i % 2) { /* one coefficient, number 1 or 6 */
            put_ac_code(&w, i % 4 == 1 ? 0x01 : 0x51);
            put_bits(&w, 1, 1);
        }
        for (int zeros = 0; zeros < i % 5 && zeros < 3; zeros++)
            put_ac_code(&w, 0xF0);
        if (i % 5 == 4) /* zeros up to the end of the block or beyond need no code for its end */
            put_ac_code(&w, 0xF0);
        else
            put_ac_code(&w, 0x00);
    }
    end_data(&w, 0x7F);
    end_codes(&w);
    check_round_trip(&w.file, true, "zeros at the end of blocks");
    free(w.file.bytes);
}

static void test_paddings(void **state)
{
    (void)state;
    for (unsigned padding = 0; padding < 128; padding++) {
        struct code_writer w;
        begin_codes(&w, 8, 8 * 20, false, symbols, sizeof symbols);
        insert_bytes(&w.file, w.file.nbytes, "\xFF\xDD\0\4\0\3", 6);
        begin_scan(&w, 0, 63, 0, 0);
        for (unsigned i = 0; i < 20; i++) {
            if (i > 0 && i % 3 == 0) {
                uint8_t marker[] = {0xFF, (uint8_t)(0xD0 + (i / 3 - 1) % 8)};
                end_data(&w, padding % 3 ? (uint8_t)padding : (uint8_t)(padding ^ i));
                insert_bytes(&w.file, w.file.nbytes, marker, 2);
            }
            put_dc_code(&w, 0);
            put_ac_code(&w, 0x01);
            put_bits(&w, i & 1, 1);
            put_ac_code(&w, 0x00);
        }
        end_data(&w, (uint8_t)padding);
        end_codes(&w);
        uint32_t nbytes = check_round_trip(&w.file, true, "padding");
        assert_true(nbytes < 200);
        free(w.file.bytes);
    }
}

/* Writes an end-of-block run (progressive) of a length that libjpeg's encoder would not choose. */
static void put_run(struct code_writer *w, uint32_t length)
{
    uint32_t size = 31u - (uint32_t)__builtin_clz(length);
    put_ac_code(w, (uint8_t)(size << 4));
    put_bits(w, length - (1u << size), size);
}

static void begin_progressive(struct code_writer *w, uint32_t rows, uint32_t columns, uint8_t low)
{
    begin_codes(w, 8 * rows, 8 * columns, true, symbols, sizeof symbols);
    begin_scan(w, 0, 0, 0, 0);
    for (uint32_t i = 0; i < rows * columns; i++)
        put_dc_code(w, 0);
    end_data(w, 0xFF);
    begin_scan(w, 1, 63, 0, low);
}

static void test_runs(void **state)
{
    enum { N = 200 * 200 };
    static const uint32_t longest[] = {1, 2, 3, 7, 100, 20000, 32766, 32767};
    (void)state;
    for (size_t i = 0; i < sizeof longest / sizeof longest[0]; i++) {
        struct code_writer w;
        begin_progressive(&w, 200, 200, 0);
        uint32_t at = 0;
        for (uint32_t n; at < (i < 4 ? 400 : N); at += n) {
            n = N - at < longest[i] ? N - at : longest[i];
            put_run(&w, n);
        }
        for (; at < N; at++) { /* the remaining blocks have coefficients */
            put_ac_code(&w, 0x01);
            put_bits(&w, at & 1, 1);
            put_run(&w, 1);
        }
        end_data(&w, 0xFF);
        end_codes(&w);
        check_round_trip(&w.file, true, "runs of ends of blocks");
        free(w.file.bytes);
    }
}

/* End-of-block runs of later scans end early, or have any number of correction bits. */
static void test_runs_with_corrections(void **state)
{
    enum { N = 100 };
    static const uint32_t longest[] = {1, 13, 47, 99, 100};
    (void)state;
    for (size_t i = 0; i < sizeof longest / sizeof longest[0]; i++) {
        struct code_writer w;
        begin_progressive(&w, 10, 10, 1);
        for (int block = 0; block < N; block++)
            for (int k = 1; k <= 63; k++) { /* 63 coefficients that are not 0 */
                put_ac_code(&w, 0x01);
                put_bits(&w, (uint32_t)(k ^ block) & 1, 1);
            }
        end_data(&w, 0xFF);
        begin_scan(&w, 1, 63, 1, 0);
        for (uint32_t at = 0, n; at < N; at += n) {
            n = N - at < longest[i] ? N - at : longest[i];
            put_run(&w, n);
            for (uint32_t bit = 0; bit < n * 63; bit++)
                put_bits(&w, bit % 7 & 1, 1);
        }
        end_data(&w, 0xFF);
        end_codes(&w);
        check_round_trip(&w.file, true, "runs with corrections");
        free(w.file.bytes);
    }
}

static void test_zeros_in_progressive(void **state)
{
    struct code_writer w;
    (void)state;
    begin_progressive(&w, 2, 10, 0);
    for (int i = 0; i < 20; i++) {
        for (int zeros = 0; zeros < i % 5; zeros++)
            put_ac_code(&w, 0xF0);
        if (i % 5 < 4)
            put_run(&w, 1);
    }
    end_data(&w, 0xFF);
    end_codes(&w);
    check_round_trip(&w.file, true, "zeros at the end of blocks of a progressive file");
    free(w.file.bytes);
}

/* -- Files that are refused -- */

static void expect_refusal(const struct jpeg_file *file, enum pst_status expected, const char *word)
{
    struct pst_error err;
    struct read_jpeg r;
    pst_error_clear(&err);
    enum pst_status status = read_jpeg_file(file, &r, &err);
    if (status != expected || !strstr(err.text, word))
        fail_msg("%s: status %d, %s", word, status, err.text);
    assert_string_equal(err.codec, "jpeg");
}

static void test_other_kinds(void **state)
{
    struct jpeg_file_spec spec = {.height = 20, .width = 30, .kind = FILE_YCC, .quality = 50};
    struct jpeg_file file;
    (void)state;
    spec.arithmetic = true;
    file = make_jpeg_file(&spec, 1);
    expect_refusal(&file, PST_ERROR_UNSUPPORTED, "arithmetic");
    free(file.bytes);
    spec.arithmetic = false;
    spec.kind = FILE_CMYK;
    file = make_jpeg_file(&spec, 1);
    expect_refusal(&file, PST_ERROR_UNSUPPORTED, "4 components");
    free(file.bytes);
    spec.kind = FILE_YCC;
    spec.factors[0] = 0x31;
    file = make_jpeg_file(&spec, 1);
    expect_refusal(&file, PST_ERROR_UNSUPPORTED, "sampling factors");
    free(file.bytes);
}

static void test_patched_headers(void **state)
{
    static const struct {
        uint8_t marker;
        int offset; /* offset of the patched byte from the marker */
        uint8_t value;
        enum pst_status status;
        const char *word;
    } cases[] = {
        {0xC0, 4, 12, PST_ERROR_UNSUPPORTED, "12 bits"},
        {0xC0, 1, 0xC3, PST_ERROR_UNSUPPORTED, "SOF3"},
        {0xC0, 1, 0xC9, PST_ERROR_UNSUPPORTED, "arithmetic"},
        {0xC0, 9, 2, PST_ERROR_UNSUPPORTED, "2 components"},
        {0xC0, 6, 0, PST_ERROR_UNSUPPORTED, "height"},
        {0xC0, 8, 0, PST_ERROR_CORRUPT, "width"},
        {0xC0, 13, 1, PST_ERROR_UNSUPPORTED, "the id 1"},
        {0xC0, 12, 7, PST_ERROR_CORRUPT, "table number 7"},
        {0xC0, 12, 3, PST_ERROR_CORRUPT, "no quantisation table"},
        {0xC0, 11, 0x44, PST_ERROR_CORRUPT, "MCU"},
        {0xC0, 11, 0, PST_ERROR_UNSUPPORTED, "sampling factors"},
        {0xDB, 4, 9, PST_ERROR_CORRUPT, "quantisation table 9"},
        {0xDB, 5, 0, PST_ERROR_UNSUPPORTED, "value is 0"},
        {0xC4, 4, 5, PST_ERROR_CORRUPT, "table number 5"},
        {0xC4, 5, 3, PST_ERROR_CORRUPT, "Huffman table"},
        {0xC4, 4, 2, PST_ERROR_CORRUPT, "no sound Huffman table"},
        {0xDA, 5, 9, PST_ERROR_CORRUPT, "component 9"},
        {0xDA, 7, 1, PST_ERROR_CORRUPT, "component 1"},
        {0xDA, 6, 0x77, PST_ERROR_CORRUPT, "tables 77"},
        {0xDA, 4, 1, PST_ERROR_CORRUPT, "scan header"},
        {0xC4, 1, 0xDA, PST_ERROR_CORRUPT, "scan header"},
        {0xDB, 1, 0xDA, PST_ERROR_CORRUPT, "before the frame header"},
        {0xDB, 1, 0xF3, PST_ERROR_UNSUPPORTED, "a segment F3"},
        {0xDB, 1, 0xD8, PST_ERROR_UNSUPPORTED, "second beginning"},
        {0xC4, 1, 0xC0, PST_ERROR_CORRUPT, "two frame headers"},
        {0xD8, 0, 0, PST_ERROR_CORRUPT, "begins otherwise"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct jpeg_file file = plain_file(SCANS_ONE, 0);
        size_t at = find_marker(&file, cases[i].marker, 0);
        file.bytes[at + (size_t)cases[i].offset] = cases[i].value;
        if (cases[i].offset == 6 && cases[i].marker == 0xC0)
            file.bytes[at + 5] = 0;
        if (cases[i].offset == 8)
            file.bytes[at + 7] = 0;
        expect_refusal(&file, cases[i].status, cases[i].word);
        free(file.bytes);
    }
}

/* A quantisation table may not change between the first scans of the components that name it. */
static void test_changing_quantisation(void **state)
{
    struct jpeg_file file = plain_file(SCANS_EACH, 0);
    uint8_t segment[69] = {0xFF, 0xDB, 0, 67, 1};
    (void)state;
    for (int i = 0; i < 64; i++)
        segment[5 + i] = (uint8_t)(i + 1);
    size_t second = find_marker(&file, 0xDA, find_data(&file, 0));
    insert_bytes(&file, second, segment, sizeof segment);
    check_round_trip(&file, true, "a table told again before its first use");
    remove_bytes(&file, second, sizeof segment);
    size_t third = find_marker(&file, 0xDA, find_data(&file, second));
    insert_bytes(&file, third, segment, sizeof segment);
    expect_refusal(&file, PST_ERROR_UNSUPPORTED, "changes between");
    free(file.bytes);
}

/* Files with a missing or a doubled scan are refused. */
static void test_bad_scripts(void **state)
{
    (void)state;
    for (int kind = SCANS_EACH; kind <= SCANS_FINE; kind++) {
        struct jpeg_file file = plain_file((enum jpeg_file_scans)kind, 0);
        size_t starts[32], n = 0;
        for (size_t at = find_marker(&file, 0xDA, 0);; at = find_data(&file, at)) {
            while (at + 1 < file.nbytes && !(file.bytes[at] == 0xFF && file.bytes[at + 1] == 0xDA))
                at++;
            if (at + 1 >= file.nbytes)
                break;
            starts[n++] = at;
        }
        starts[n] = file.nbytes - 2;
        assert_true(n >= 2);
        for (size_t i = 0; i < n; i++) {
            size_t length = starts[i + 1] - starts[i];
            struct jpeg_file bad = copy_jpeg_file(&file);
            struct pst_error err;
            struct read_jpeg r;
            remove_bytes(&bad, starts[i], length);
            assert_int_not_equal(read_jpeg_file(&bad, &r, &err), PST_OK);
            free(bad.bytes);
            bad = copy_jpeg_file(&file);
            insert_bytes(&bad, starts[i], file.bytes + starts[i], length);
            expect_refusal(&bad, PST_ERROR_UNSUPPORTED, "scans that repeat");
            free(bad.bytes);
        }
        free(file.bytes);
    }
}

static void test_truncation(void **state)
{
    (void)state;
    for (int kind = SCANS_ONE; kind <= SCANS_FINE; kind++) {
        struct jpeg_file file = plain_file((enum jpeg_file_scans)kind, kind % 2 ? 0 : 2);
        for (size_t n = 0; n + 3 < file.nbytes; n += 1 + n / 40) {
            struct jpeg_file part = {malloc(n ? n : 1), n};
            struct pst_error err;
            struct read_jpeg r;
            memcpy(part.bytes, file.bytes, n);
            pst_error_clear(&err);
            enum pst_status status = read_jpeg_file(&part, &r, &err);
            if (n < 2)
                assert_int_equal(status, PST_ERROR_CORRUPT);
            /* a file that ends between two scans is a file with missing scans */
            else if (status != PST_ERROR_UNSUPPORTED)
                assert_int_equal(status, PST_ERROR_TRUNCATED);
            assert_true(err.text[0] != '\0');
            free(part.bytes);
        }
        free(file.bytes);
    }
}

/* A file with one flipped bit is refused, or is restored byte for byte. */
static void test_flipped_bytes(void **state)
{
    uint32_t n_kept = 0, n_refused = 0;
    (void)state;
    for (int kind = SCANS_ONE; kind <= SCANS_FINE; kind++) {
        struct jpeg_file file = plain_file((enum jpeg_file_scans)kind, kind % 2 ? 3 : 0);
        for (size_t at = 0; at < file.nbytes; at += 1 + at / 60) {
            struct pst_error err;
            struct read_jpeg r;
            uint8_t before = file.bytes[at];
            file.bytes[at] ^= (uint8_t)(1u << at % 8);
            if (read_jpeg_file(&file, &r, &err) == PST_OK) {
                free_read_jpeg(&r);
                char what[64];
                snprintf(what, sizeof what, "scans %d, a bit of byte %zu flipped", kind, at);
                check_round_trip(&file, false, what);
                n_kept++;
            } else {
                n_refused++;
            }
            file.bytes[at] = before;
        }
        free(file.bytes);
    }
    assert_true(n_kept > 20 && n_refused > 100);
}

/* -- Restorations that are damaged -- */

static enum pst_status write_back(struct read_jpeg *r, const uint8_t *restoration, uint8_t *bytes,
                                  size_t capacity, struct pst_error *err)
{
    pst_error_clear(err);
    return psti_pli_jpeg_write(&r->frame, (const int16_t *const *)r->coefs, restoration, bytes,
                               capacity, r->work, err);
}

static void test_damaged_restorations(void **state)
{
    (void)state;
    for (int kind = SCANS_ONE; kind <= SCANS_FINE; kind++) {
        struct jpeg_file file = plain_file((enum jpeg_file_scans)kind, kind % 2 ? 3 : 0);
        struct pst_error err;
        struct read_jpeg r;
        assert_ok(read_jpeg_file(&file, &r, &err));
        size_t n = r.frame.restoration_nbytes;
        uint8_t *bad = malloc(n), *back = malloc(file.nbytes);
        memcpy(bad, r.restoration, n);
        bad[n / 2] ^= 1;
        assert_int_equal(write_back(&r, bad, back, file.nbytes, &err), PST_ERROR_CHECKSUM);
        bad[n / 2] ^= 1;
        for (size_t at = 0; at < n; at++)
            for (int bit = 0; bit < 8; bit += 3) {
                bad[at] ^= (uint8_t)(1 << bit);
                r.frame.restoration_checksum = (uint32_t)psti_hash64(bad, n);
                enum pst_status status = write_back(&r, bad, back, file.nbytes, &err);
                if (status == PST_OK)
                    assert_memory_equal(back, file.bytes, file.nbytes);
                else
                    assert_string_equal(err.codec, "jpeg");
                bad[at] ^= (uint8_t)(1 << bit);
            }
        for (size_t cut = 0; cut < n; cut++) {
            r.frame.restoration_nbytes = (uint32_t)cut;
            r.frame.restoration_checksum = (uint32_t)psti_hash64(bad, cut);
            enum pst_status status = write_back(&r, bad, back, file.nbytes, &err);
            if (cut < n - 4)
                assert_int_not_equal(status, PST_OK);
        }
        free(bad);
        free(back);
        free_read_jpeg(&r);
        free(file.bytes);
    }
}

static void test_other_coefficients(void **state)
{
    struct jpeg_file file = plain_file(SCANS_ONE, 0);
    struct pst_error err;
    struct read_jpeg r;
    (void)state;
    assert_ok(read_jpeg_file(&file, &r, &err));
    uint8_t *back = malloc(file.nbytes);
    int16_t *coef = &r.coefs[0][64 + 3], before = *coef;
    static const int16_t others[] = {1, -1, 2047, -2048, INT16_MIN, INT16_MAX};
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++) {
        *coef = (int16_t)(before ^ others[i]);
        assert_int_not_equal(write_back(&r, r.restoration, back, file.nbytes, &err), PST_OK);
    }
    for (size_t i = 0; i < psti_pli_jpeg_n_coefs(&r.frame, 0); i++)
        r.coefs[0][i] = (int16_t)(i * 7919);
    assert_int_equal(write_back(&r, r.restoration, back, file.nbytes, &err), PST_ERROR_CORRUPT);
    free(back);
    free_read_jpeg(&r);
    free(file.bytes);
}

static void test_arguments(void **state)
{
    struct jpeg_file file = plain_file(SCANS_ONE, 0);
    struct pst_error err;
    struct read_jpeg r;
    (void)state;
    assert_ok(read_jpeg_file(&file, &r, &err));
    uint8_t *back = malloc(file.nbytes);
    assert_int_equal(write_back(&r, r.restoration, back, file.nbytes - 1, &err),
                     PST_ERROR_ARGUMENT);
    size_t bound = psti_pli_jpeg_restoration_bound(file.nbytes);
    assert_int_equal(psti_pli_jpeg_read(file.bytes, file.nbytes, &r.frame, r.coefs, r.restoration,
                                        bound - 1, r.work, &err),
                     PST_ERROR_ARGUMENT);
    r.frame.restoration_nbytes = 0;
    assert_int_equal(write_back(&r, r.restoration, back, file.nbytes, &err), PST_ERROR_UNSUPPORTED);
    r.frame.width = r.frame.width > 16 ? 16 : 17;
    assert_true(psti_pli_jpeg_frame_measure(&r.frame));
    assert_int_equal(psti_pli_jpeg_read(file.bytes, file.nbytes, &r.frame, r.coefs, r.restoration,
                                        bound, r.work, &err),
                     PST_ERROR_ARGUMENT);
    free(back);
    free_read_jpeg(&r);
    free(file.bytes);
}

static void test_no_memory(void **state)
{
#ifdef PST_FAULTS
    struct jpeg_file file = plain_file(SCANS_ONE, 0);
    struct pst_error err;
    struct read_jpeg r;
    uint64_t n = 1;
    enum pst_status status = PST_ERROR_MEMORY;
    (void)state;
    for (; status != PST_OK; n++) {
        psti_fault_arm(PSTI_FAULT_ALLOC, n, false);
        status = read_jpeg_file(&file, &r, &err);
        assert_true(status == PST_OK || status == PST_ERROR_MEMORY);
    }
    assert_true(n > 2);
    uint8_t *back = malloc(file.nbytes);
    status = PST_ERROR_MEMORY;
    for (n = 1; status != PST_OK; n++) {
        psti_fault_arm(PSTI_FAULT_ALLOC, n, false);
        status = write_back(&r, r.restoration, back, file.nbytes, &err);
        assert_true(status == PST_OK || status == PST_ERROR_MEMORY);
    }
    psti_fault_arm(PSTI_FAULT_ALLOC, 0, false);
    assert_true(n > 2);
    free(back);
    free_read_jpeg(&r);
    free(file.bytes);
#else
    (void)state;
    skip();
#endif
}

static void test_colours(void **state)
{
    static const uint8_t adobe_rgb[] = {0xFF, 0xEE, 0,   14, 'A', 'd', 'o', 'b',
                                        'e',  0,    100, 0,  0,   0,   0,   0};
    struct jpeg_file file = plain_file(SCANS_ONE, 0);
    (void)state;
    check_round_trip(&file, true, "JFIF");
    insert_bytes(&file, 2, adobe_rgb, sizeof adobe_rgb);
    check_round_trip(&file, true, "JFIF and Adobe"); /* the coefficients must be libjpeg's, too */
    size_t jfif = find_marker(&file, 0xE0, 0);
    remove_bytes(&file, jfif, 18);
    check_round_trip(&file, true, "Adobe, transform 0");
    file.bytes[2 + 15] = 1;
    check_round_trip(&file, true, "Adobe, transform 1");
    remove_bytes(&file, 2, sizeof adobe_rgb);
    check_round_trip(&file, true, "ids 1, 2, 3");
    size_t frame = find_marker(&file, 0xC0, 0), scan = find_marker(&file, 0xDA, 0);
    for (size_t c = 0; c < 3; c++)
        file.bytes[frame + 10 + 3 * c] = file.bytes[scan + 5 + 2 * c] = (uint8_t) "RGB"[c];
    check_round_trip(&file, true, "ids R, G, B");
    for (size_t c = 0; c < 3; c++)
        file.bytes[frame + 10 + 3 * c] = file.bytes[scan + 5 + 2 * c] = (uint8_t)(7 + c);
    check_round_trip(&file, true, "other ids");
    free(file.bytes);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_kind),
        cmocka_unit_test(test_bytes_around),
        cmocka_unit_test(test_tails),
        cmocka_unit_test(test_restart_markers),
        cmocka_unit_test(test_segments),
        cmocka_unit_test(test_quantisation_segments),
        cmocka_unit_test(test_many_quantisation_tables),
        cmocka_unit_test(test_zeros_at_the_end),
        cmocka_unit_test(test_paddings),
        cmocka_unit_test(test_runs),
        cmocka_unit_test(test_runs_with_corrections),
        cmocka_unit_test(test_zeros_in_progressive),
        cmocka_unit_test(test_other_kinds),
        cmocka_unit_test(test_patched_headers),
        cmocka_unit_test(test_changing_quantisation),
        cmocka_unit_test(test_bad_scripts),
        cmocka_unit_test(test_truncation),
        cmocka_unit_test(test_flipped_bytes),
        cmocka_unit_test(test_damaged_restorations),
        cmocka_unit_test(test_other_coefficients),
        cmocka_unit_test(test_arguments),
        cmocka_unit_test(test_no_memory),
        cmocka_unit_test(test_colours),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
