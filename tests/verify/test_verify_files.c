/* test_verify_files.c - pst_verify of single files: images, JPEGs kept as PLI, sounds, whole and
 * damaged; what is no file of ours; and its progress and arguments.
 *
 * Argument: the folder of golden PLIs whose content is a JPEG. */
#include "pack/folder_pack.h"

#include "base/bits.h"
#include "base/fault.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static const char *golden;

static enum pst_status verify_as(const char *path, bool restore, struct pst_verify_report *report,
                                 struct pst_error *err)
{
    const struct pst_verify_options options = {.struct_size = sizeof options, .restore = restore};
    pst_error_clear(err);
    enum pst_status status = pst_verify(path, &options, report, sizeof *report, err);
    assert_int_equal(err->status, status);
    assert_int_equal(report->n_bad, status != PST_OK);
    return status;
}

/* Writes a file and verifies it. A finding must name it. */
static enum pst_status verify_bytes(void **state, const char *name, const void *bytes, size_t n,
                                    struct pst_error *err)
{
    struct pst_verify_report report;
    const char *path = folder_file(state, name, bytes, n);
    enum pst_status status = verify_as(path, true, &report, err);
    if (status == PST_OK)
        assert_true(report.n_samples == 1 && report.n_items == 1 && report.nbytes == n);
    else
        assert_string_equal(err->file, path);
    return status;
}

static uint8_t *read_golden(const char *name, size_t *n)
{
    char path[4096];
    snprintf(path, sizeof path, "%s/%s", golden, name);
    FILE *file = fopen(path, "rb");
    assert_non_null(file);
    uint8_t *bytes = malloc(1 << 16);
    *n = fread(bytes, 1, 1 << 16, file);
    assert_int_equal(fclose(file), 0);
    assert_true(*n > 40 && *n < 1 << 16);
    return bytes;
}

/* A JPEG kept as PLI has checksums of everything in it, so each changed bit, truncation and
 * appended byte is detected. */
static void damaged_plis_are_found(void **state)
{
    static const char *const names[] = {"jpeg-pixel-gray.pli", "jpeg-pixel-420.pli",
                                        "jpeg-noise-gray1.pli"};
    struct pst_error err;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        size_t n;
        uint8_t *bytes = read_golden(names[i], &n);
        assert_ok(verify_bytes(state, "a.pli", bytes, n, &err));
        for (size_t at = 0; at < n; at++) {
            uint8_t bit = (uint8_t)(1u << at % 8);
            bytes[at] ^= bit;
            if (verify_bytes(state, "a.pli", bytes, n, &err) == PST_OK)
                fail_msg("%s: bit %zu of byte %zu is not looked at", names[i], at % 8, at);
            bytes[at] ^= bit;
        }
        for (size_t length = 0; length < n; length += 1 + length / 40)
            assert_int_not_equal(verify_bytes(state, "a.pli", bytes, length, &err), PST_OK);
        bytes[n] = 0;
        assert_int_equal(verify_bytes(state, "a.pli", bytes, n + 1, &err), PST_ERROR_CORRUPT);
        free(bytes);
    }
}

static void images_are_decoded(void **state)
{
    static uint8_t png[8192];
    struct pst_error err;
    make_png(state, "a.png", 9, 7, 3, 1);
    FILE *file = fopen(folder_path(state, "a.png"), "rb");
    size_t n = fread(png, 1, sizeof png, file);
    fclose(file);
    assert_ok(verify_bytes(state, "b.png", png, n, &err));
    assert_ok(verify_bytes(state, "an image by its bytes", png, n, &err));
    assert_int_equal(verify_bytes(state, "b.png", png, n / 2, &err), PST_ERROR_TRUNCATED);
    png[n / 2] ^= 1; /* zlib's checksum or the chunk's checksum detects it */
    assert_int_not_equal(verify_bytes(state, "b.png", png, n, &err), PST_OK);
    assert_int_not_equal(verify_bytes(state, "c.png", "", 0, &err), PST_OK);
    assert_int_not_equal(verify_bytes(state, "c.jpg", "nonsense", 8, &err), PST_OK);
}

/* Makes a WAV file of n samples of 16 bits. Returns its size. */
static size_t make_wav(uint8_t *wav, uint32_t n)
{
    memcpy(wav, "RIFF....WAVEfmt ", 16);
    psti_store_u32(wav + 4, 36 + 2 * n);
    psti_store_u32(wav + 16, 16);
    psti_store_u16(wav + 20, 1);
    psti_store_u16(wav + 22, 1);
    psti_store_u32(wav + 24, 8000);
    psti_store_u32(wav + 28, 16000);
    psti_store_u16(wav + 32, 2);
    psti_store_u16(wav + 34, 16);
    memcpy(wav + 36, "data", 4);
    psti_store_u32(wav + 40, 2 * n);
    for (uint32_t i = 0; i < n; i++)
        psti_store_u16(wav + 44 + 2 * i, (uint16_t)(i * 77));
    return 44 + 2 * (size_t)n;
}

static void sounds_are_decoded(void **state)
{
    static uint8_t wav[4096];
    struct pst_error err;
    size_t n = make_wav(wav, 1000);
    assert_ok(verify_bytes(state, "a.wav", wav, n, &err));
    assert_int_not_equal(verify_bytes(state, "a.wav", wav, n - 1000, &err), PST_OK);
    assert_int_not_equal(verify_bytes(state, "a.wav", wav, 20, &err), PST_OK);
    assert_int_not_equal(verify_bytes(state, "a.wav", "", 0, &err), PST_OK);
    wav[22] = 0; /* channels */
    assert_int_not_equal(verify_bytes(state, "a.wav", wav, n, &err), PST_OK);
    make_wav(wav, 1000);
    assert_int_not_equal(verify_bytes(state, "a.png", wav, n, &err), PST_OK);
}

static void what_is_no_file_of_ours(void **state)
{
    struct pst_error err;
    struct pst_verify_report report;
    assert_int_equal(verify_bytes(state, "a.bin", "PK\3\4 and so on", 14, &err),
                     PST_ERROR_UNSUPPORTED);
    assert_int_equal(verify_bytes(state, "a.zip", "PK\3\4 and so on", 14, &err),
                     PST_ERROR_TRUNCATED);
    assert_int_equal(verify_as("s3://bucket/a.pst", false, &report, &err), PST_ERROR_UNSUPPORTED);
    assert_int_equal(verify_as(folder_path(state, "nowhere.png"), false, &report, &err),
                     PST_ERROR_NOT_FOUND);
    /* Verifying a pipe does not wait for a writer. */
    assert_int_equal(mkfifo(folder_path(state, "pipe.png"), 0600), 0);
    assert_int_not_equal(verify_as(folder_path(state, "pipe.png"), false, &report, &err), PST_OK);
    assert_int_equal(report.n_samples, 0);
}

struct watch {
    unsigned n, stop_at;
    struct pst_progress last;
};

static int watch(void *ctx, const struct pst_progress *progress)
{
    struct watch *watched = ctx;
    assert_true(progress->n_done >= watched->last.n_done);
    assert_true(progress->n_done <= progress->n_total);
    assert_true(progress->nbytes_in >= watched->last.nbytes_in);
    watched->last = *progress;
    return ++watched->n == watched->stop_at;
}

static void progress_rises_to_the_end(void **state)
{
    char from[4096];
    struct pst_error err;
    const struct pst_writer_options writer = {.struct_size = sizeof writer, .shard_nbytes = 4096};
    const struct pst_pack_options pack = {.struct_size = sizeof pack, .writer = &writer};
    make_folder(state, "f", 90);
    snprintf(from, sizeof from, "%s", folder_path(state, "f"));
    assert_ok(pst_pack(from, folder_path(state, "a.pst"), &pack, NULL, 0, &err));
    for (int decode = 0; decode < 2; decode++)
        for (int packed = 0; packed < 2; packed++) {
            struct pst_verify_report report;
            struct watch watched = {0};
            struct pst_verify_options options = {.struct_size = sizeof options,
                                                 .decode = decode,
                                                 .num_workers = 3,
                                                 .progress = watch,
                                                 .ctx = &watched};
            const char *path = packed ? folder_path(state, "a.pst") : from;
            assert_ok(pst_verify(path, &options, &report, sizeof report, &err));
            assert_true(watched.n >= 2); /* at the start and at the end */
            assert_true(watched.last.n_done == 90 && watched.last.n_total == 90);
            assert_true(watched.last.nbytes_in >= report.nbytes && report.nbytes > 0);
            /* stops at the last call of an equal run */
            watched = (struct watch){.stop_at = watched.n};
            enum pst_status status = pst_verify(path, &options, &report, sizeof report, &err);
            assert_true(status == PST_ERROR_CANCELLED || watched.n < watched.stop_at);
        }
}

static void arguments_are_checked(void **state)
{
    struct pst_error err;
    struct {
        struct pst_verify_options known;
        uint64_t unknown;
    } later = {.known = {.struct_size = sizeof later}};
    make_folder(state, "f", 3);
    const char *path = folder_path(state, "f");
    assert_int_equal(pst_verify(NULL, NULL, NULL, 0, &err), PST_ERROR_ARGUMENT);
    assert_ok(pst_verify(path, NULL, NULL, 0, &err));
    assert_ok(pst_verify(path, &later.known, NULL, 0, &err));
    later.unknown = 1;
    assert_int_equal(pst_verify(path, &later.known, NULL, 0, &err), PST_ERROR_VERSION);
    later.known.struct_size = 0;
    assert_int_equal(pst_verify(path, &later.known, NULL, 0, &err), PST_ERROR_ARGUMENT);
    assert_int_equal(pst_verify(path, NULL, NULL, 0, NULL), PST_OK);
    assert_int_equal(pst_verify(folder_path(state, "none"), NULL, NULL, 0, NULL),
                     PST_ERROR_NOT_FOUND);
}

#ifdef PST_FAULTS
static void every_failure_of_a_file_is_clean(void **state)
{
    const struct pst_verify_options options = {.struct_size = sizeof options, .restore = true};
    struct pst_error err;
    struct pst_memory_stats before, after;
    size_t n_bytes;
    uint8_t *bytes = read_golden("jpeg-noise-gray1.pli", &n_bytes);
    const char *path = folder_file(state, "a.pli", bytes, n_bytes);
    free(bytes);
    pst_memory_stats(&before, sizeof before);
    uint64_t n = 0, n_failed = 0;
    bool has_failed;
    do {
        psti_fault_arm(PSTI_FAULT_ALLOC, ++n, false);
        enum pst_status status = pst_verify(path, &options, NULL, 0, &err);
        has_failed = psti_fault_count(PSTI_FAULT_ALLOC) >= n;
        psti_fault_arm(PSTI_FAULT_ALLOC, 0, false);
        if (status != PST_OK)
            assert_true(has_failed && status == PST_ERROR_MEMORY && err.status == status);
        n_failed += status != PST_OK;
        pst_memory_stats(&after, sizeof after);
        assert_int_equal(after.live_nbytes, before.live_nbytes);
        assert_true(n < 1000);
    } while (has_failed);
    /* state, bytes, a decoder; without memory for codes of JPEGs libjpeg-turbo decodes */
    assert_true(n_failed >= 3 && n > 4);
}
#endif

#define T(f) cmocka_unit_test_setup_teardown(f, folder_setup, folder_teardown)
int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        T(damaged_plis_are_found),           T(images_are_decoded),        T(sounds_are_decoded),
        T(what_is_no_file_of_ours),          T(progress_rises_to_the_end), T(arguments_are_checked),
#ifdef PST_FAULTS
        T(every_failure_of_a_file_is_clean),
#endif
    };
    if (argc != 2)
        return 2;
    golden = argv[1];
    return cmocka_run_group_tests(tests, NULL, NULL);
}
