/* test_share_dataset.c - sends data sets to the host service: folders with classes, label files,
 * masks and lists of files arrive unchanged; messages and descriptors of a hostile client are
 * refused, and no descriptor leaks. */
#include "../dataset/folder_test.h"

#include "base/fault.h"
#include "base/files/sealed.h"
#include "dataset/dataset.h"
#include "share/share_dataset_options.h"

#include <penstock/penstock.h>

#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* A message that the service has received. */
struct received {
    struct psti_share_dataset there;
    int fds[PSTI_SHARE_DATASET_FDS];
    uint32_t n_fds;
};

static unsigned n_open_files(void)
{
    unsigned n = 0;
    DIR *dir = opendir("/proc/self/fd");
    assert_non_null(dir);
    while (readdir(dir))
        n++;
    closedir(dir);
    return n;
}

static void close_fds(struct received *received)
{
    while (received->n_fds > 0)
        close(received->fds[--received->n_fds]);
}

/* Parses a body as the service does. Returns false if it is refused. */
static bool read_body(uint8_t *bytes, struct psti_wire_out *out, struct received *received)
{
    size_t n = psti_share_finish(out, PSTI_MESSAGE_CACHE_OPEN, 1, received->n_fds);
    assert_true(n > 0);
    struct psti_wire_in in = psti_share_body(bytes, n);
    psti_share_get_dataset(&in, &received->there);
    return psti_share_end(&in, "test", NULL) == PST_OK;
}

static void send_dataset(const pst_dataset *dataset, struct received *received)
{
    static uint8_t bytes[PSTI_MESSAGE_NBYTES];
    struct pst_error err;
    struct psti_wire_out out = psti_share_begin(bytes);
    assert_ok(psti_share_put_dataset(&out, dataset, received->fds, &received->n_fds, &err));
    assert_true(read_body(bytes, &out, received));
}

static enum pst_status open_received(const struct received *received, pst_dataset **out,
                                     struct pst_error *err)
{
    pst_error_clear(err);
    return psti_share_open_dataset(&received->there, received->fds, received->n_fds, out, err);
}

/* Sends a data set, opens it on the other side, and compares both. Closes it. */
static void comes_back(pst_dataset *dataset, uint32_t n_fds)
{
    struct pst_error err;
    struct received received;
    pst_dataset *theirs;
    unsigned before = n_open_files();
    send_dataset(dataset, &received);
    assert_int_equal(received.n_fds, n_fds);
    assert_string_equal(received.there.path, pst_dataset_path(dataset));
    assert_ok(open_received(&received, &theirs, &err));
    assert_memory_equal(psti_dataset_bytes_identity(theirs), psti_dataset_bytes_identity(dataset),
                        PST_IDENTITY_NBYTES);
    assert_int_equal(pst_dataset_count(theirs), pst_dataset_count(dataset));
    assert_int_equal(pst_dataset_n_fields(theirs), pst_dataset_n_fields(dataset));
    for (uint32_t f = 0; f < pst_dataset_n_fields(dataset); f++) {
        assert_string_equal(pst_dataset_field(theirs, f)->name,
                            pst_dataset_field(dataset, f)->name);
        assert_int_equal(pst_dataset_field(theirs, f)->type, pst_dataset_field(dataset, f)->type);
    }
    for (uint64_t i = 0; i < pst_dataset_count(dataset); i++) {
        char name[PST_NAME_CAP], other[PST_NAME_CAP];
        assert_ok(pst_dataset_sample_name(dataset, i, name, &err));
        assert_ok(pst_dataset_sample_name(theirs, i, other, &err));
        assert_string_equal(name, other);
    }
    pst_dataset_close(&theirs);
    close_fds(&received);
    assert_int_equal(n_open_files(), before);
    pst_dataset_close(&dataset);
}

static pst_dataset *open_with(void **state, struct pst_dataset_options options)
{
    struct pst_error err;
    pst_dataset *dataset;
    options.struct_size = sizeof options;
    assert_ok(pst_dataset_open(folder_path(state, "f"), &options, &dataset, &err));
    return dataset;
}

static void make_files(void **state)
{
    folder_text(state, "f/a/0.png", "one");
    folder_text(state, "f/a/1.png", "two");
    folder_text(state, "f/b/0.png", "three");
    folder_text(state, "f/m/0.png", "a mask");
}

static void folders_come_back(void **state)
{
    make_files(state);
    comes_back(open_with(state, (struct pst_dataset_options){0}), 1);
    comes_back(open_with(state, (struct pst_dataset_options){.ignore_labels = true}), 1);
    comes_back(open_with(state, (struct pst_dataset_options){.allow_unreadable = true}), 1);
}

static void label_files_come_back(void **state)
{
    static const char *const masks[] = {"outline"};
    make_files(state);
    const char *labels = folder_text(
        state, "l.csv",
        "file,label,outline\na/0.png,x,m/0.png\nb/0.png,y,m/0.png\na/1.png,x,m/0.png\n");
    comes_back(open_with(state, (struct pst_dataset_options){.labels = labels}), 2);
    comes_back(
        open_with(state,
                  (struct pst_dataset_options){.labels = labels, .masks = masks, .n_masks = 1}),
        2);
}

static void lists_of_files_come_back(void **state)
{
    static const char *const files[] = {"b/0.png", "a/1.png", "m/0.png"};
    make_files(state);
    comes_back(open_with(state, (struct pst_dataset_options){.files = files, .n_files = 3}), 2);
}

static pst_dataset *open_tars(void **state)
{
    struct pst_error err;
    pst_dataset *dataset;
    char command[3 * PATH_MAX];
    make_files(state);
    folder_mkdir(state, "tars");
    snprintf(command, sizeof command,
             "cd '%s' && tar -cf ../tars/a.tar a && tar -cf ../tars/b.tar b",
             folder_path(state, "f"));
    assert_int_equal(system(command), 0);
    assert_ok(pst_dataset_open(folder_path(state, "tars"), NULL, &dataset, &err));
    assert_int_equal(pst_dataset_count(dataset), 3);
    return dataset;
}

static void tars_come_back(void **state) { comes_back(open_tars(state), 2); }

static void tars_that_changed_are_refused(void **state)
{
    struct pst_error err;
    struct received received;
    pst_dataset *theirs, *dataset = open_tars(state);
    send_dataset(dataset, &received);
    assert_true(received.there.is_container);
    folder_text(state, "tars/b.tar", "shorter");
    assert_int_equal(open_received(&received, &theirs, &err), PST_ERROR_STATE);
    assert_null(theirs);
    received.n_fds--; /* the descriptor of the index is missing */
    assert_int_equal(open_received(&received, &theirs, &err), PST_ERROR_CORRUPT);
    received.n_fds++;
    pst_dataset_close(&dataset);
    close_fds(&received);
}

/* The service may see other paths, so it uses the descriptors. */
static void a_folder_that_was_renamed_is_opened(void **state)
{
    char to[4096];
    struct pst_error err;
    struct received received;
    pst_dataset *theirs;
    make_files(state);
    pst_dataset *dataset = open_with(state, (struct pst_dataset_options){0});
    send_dataset(dataset, &received);
    snprintf(to, sizeof to, "%s", folder_path(state, "other"));
    assert_int_equal(rename(folder_path(state, "f"), to), 0);
    assert_ok(open_received(&received, &theirs, &err));
    assert_int_equal(pst_dataset_count(theirs), pst_dataset_count(dataset));
    pst_dataset_close(&theirs);
    pst_dataset_close(&dataset);
    close_fds(&received);
}

static void a_changed_data_set_is_refused(void **state)
{
    struct pst_error err;
    struct received received;
    pst_dataset *theirs;
    make_files(state);
    pst_dataset *dataset = open_with(state, (struct pst_dataset_options){0});
    send_dataset(dataset, &received);
    folder_text(state, "f/c/new.png", "four");
    assert_int_equal(open_received(&received, &theirs, &err), PST_ERROR_STATE);
    assert_null(theirs);
    assert_string_equal(err.dataset, pst_dataset_path(dataset));
    /* The folder itself was removed, so nothing can be sent. */
    close_fds(&received);
    assert_int_equal(rename(folder_path(state, "f"), folder_path(state, "g")), 0);
    uint8_t bytes[64];
    struct psti_wire_out out = {.bytes = bytes, .capacity = sizeof bytes};
    assert_int_equal(psti_share_put_dataset(&out, dataset, received.fds, &received.n_fds, &err),
                     PST_ERROR_NOT_FOUND);
    assert_true(received.n_fds == 0 && out.nbytes == 0);
    pst_dataset_close(&dataset);
}

/* Opens a mixture of two folders, one of them twice, with a renamed and a left-out field. */
static pst_dataset *open_mixture(void **state)
{
    static const char *const rename_a[] = {"image", "picture"}, *const fields[] = {"picture"};
    struct pst_error err;
    pst_dataset *a, *b, *mixture;
    make_files(state);
    folder_text(state, "second/x/0.png", "zero");
    a = open_with(state, (struct pst_dataset_options){0});
    assert_ok(pst_dataset_open(folder_path(state, "second"), NULL, &b, &err));
    const struct pst_mixture_source sources[] = {
        {.dataset = a, .renames = rename_a, .n_renames = 1},
        {.dataset = b, .renames = rename_a, .n_renames = 1},
        {.dataset = a, .renames = rename_a, .n_renames = 1}};
    const struct pst_mixture_options options = {
        .struct_size = sizeof options, .fields = fields, .n_fields = 1};
    assert_ok(pst_dataset_open_many(sources, 3, &options, &mixture, &err));
    pst_dataset_close(&a);
    pst_dataset_close(&b);
    return mixture;
}

static void mixtures_come_back(void **state)
{
    comes_back(open_mixture(state), 3); /* a blob and two folders are sent as descriptors */
}

/* Each changed byte of the description is detected: the description is refused, or the identity
 * differs, or the byte decides nothing, as in a path. */
static void a_damaged_mixture_is_refused(void **state)
{
    struct pst_error err;
    struct received received;
    pst_dataset *theirs = NULL, *mixture = open_mixture(state);
    const void *blob;
    size_t nbytes;
    uint64_t digest, again;
    uint32_t stamped[PSTI_SHARE_DATASET_FDS], n;
    send_dataset(mixture, &received);
    assert_true(received.there.is_mixture);
    assert_ok(psti_share_mixture_digest(received.fds, received.n_fds, &digest, stamped, &n, &err));
    assert_int_equal(n, 0);
    assert_ok(psti_sealed_blob_map(received.fds[0], 1 << 20, &blob, &nbytes, &err));
    uint8_t *bytes = malloc(nbytes);
    assert_non_null(bytes);
    int good = received.fds[0];
    unsigned n_opened = 0, before = n_open_files();
    for (size_t i = 0; i < nbytes; i++) {
        memcpy(bytes, blob, nbytes);
        bytes[i] ^= 1;
        assert_ok(psti_sealed_blob_make("test", bytes, nbytes, &received.fds[0], &err));
        enum pst_status status = open_received(&received, &theirs, &err);
        assert_true(status == PST_OK || (err.text[0] && !theirs));
        if (status == PST_OK) {
            n_opened++;
            assert_memory_equal(psti_dataset_bytes_identity(theirs),
                                psti_dataset_bytes_identity(mixture), PST_IDENTITY_NBYTES);
            pst_dataset_close(&theirs);
            if (psti_share_mixture_digest(received.fds, received.n_fds, &again, stamped, &n,
                                          &err) == PST_OK &&
                again == digest)
                n_opened--; /* jobs that send it form one group, so only paths may differ */
        }
        close(received.fds[0]);
        assert_int_equal(n_open_files(), before);
    }
    assert_true(n_opened <= 4); /* options of the two folders, which the digest tells apart */
    received.fds[0] = good;
    for (size_t cut = 0; cut < 40; cut++) {
        assert_ok(psti_sealed_blob_make("test", blob, nbytes - 1 - cut, &received.fds[0], &err));
        assert_int_equal(open_received(&received, &theirs, &err), PST_ERROR_CORRUPT);
        close(received.fds[0]);
    }
    received.fds[0] = good;
    received.n_fds--;
    assert_int_equal(open_received(&received, &theirs, &err), PST_ERROR_CORRUPT);
    received.n_fds++;
    free(bytes);
    psti_sealed_unmap(blob, nbytes);
    close_fds(&received);
    pst_dataset_close(&mixture);
}

static bool body_is_read(const char *path, uint32_t flags, uint32_t n_masks, const char *mask)
{
    static uint8_t bytes[PSTI_MESSAGE_NBYTES];
    static const uint8_t version[16];
    struct received received = {.n_fds = 1};
    struct psti_wire_out out = psti_share_begin(bytes);
    psti_share_put_text(&out, path);
    psti_share_put_bytes(&out, version, sizeof version);
    psti_share_put_u32(&out, flags);
    psti_share_put_u32(&out, n_masks);
    for (uint32_t i = 0; i < n_masks && i <= PST_MAX_FIELDS; i++)
        psti_share_put_text(&out, mask);
    return read_body(bytes, &out, &received);
}

static void impossible_values_are_refused(void **state)
{
    enum { LABELS = 2, FILES = 4, CONTAINER = 16, MIXTURE = 32, UNKNOWN = 64 };
    char longest[PST_MAX_FIELDS], too_long[PST_MAX_FIELDS + 1];
    (void)state;
    memset(longest, 'm', sizeof longest);
    longest[sizeof longest - 1] = '\0';
    memset(too_long, 'm', sizeof too_long);
    too_long[sizeof too_long - 1] = '\0';
    assert_true(body_is_read("/f", 0, 0, NULL));
    assert_true(body_is_read("/f", LABELS, 2, "mask"));
    assert_true(body_is_read("/f", LABELS, PST_MAX_FIELDS, longest));
    assert_false(body_is_read("", 0, 0, NULL));
    assert_false(body_is_read("/f", UNKNOWN, 0, NULL));
    assert_true(body_is_read("/f", MIXTURE, 0, NULL));
    /* files are listed for its data sets, not for the mixture */
    assert_false(body_is_read("/f", MIXTURE | FILES, 0, NULL));
    assert_false(body_is_read("/f", MIXTURE, 1, "m"));
    assert_true(body_is_read("/f", CONTAINER, 0, NULL));
    assert_false(body_is_read("/f", CONTAINER | LABELS, 0, NULL));
    assert_false(body_is_read("/f", UINT32_MAX, 0, NULL));
    assert_false(body_is_read("/f", 0, 1, "mask"));
    assert_false(body_is_read("/f", FILES | LABELS, 0, NULL));
    assert_false(body_is_read("/f", LABELS, PST_MAX_FIELDS + 1, "mask"));
    assert_false(body_is_read("/f", LABELS, UINT32_MAX, "mask"));
    assert_false(body_is_read("/f", LABELS, 1, NULL));
    assert_false(body_is_read("/f", LABELS, 1, too_long));
}

/* Opens a data set with descriptors that do not match the message, and expects an error. Closes
 * `second`. */
static void assert_not_opened(struct received *received, int second, enum pst_status wanted)
{
    struct pst_error err;
    pst_dataset *theirs;
    struct received other = *received;
    if (second >= 0) {
        other.fds[1] = second;
        other.n_fds = 2;
    }
    assert_int_equal(open_received(&other, &theirs, &err), wanted);
    assert_null(theirs);
    if (second >= 0)
        close(second);
}

static int blob_of(const void *bytes, size_t nbytes)
{
    int fd;
    struct pst_error err;
    assert_ok(psti_sealed_blob_make("test", bytes, nbytes, &fd, &err));
    return fd;
}

/* The service does not wait for the writer of a pipe, and verifies lists of names. */
static void other_descriptors_are_refused(void **state)
{
    int ends[2];
    struct pst_error err;
    struct received received;
    pst_dataset *theirs;
    make_files(state);
    const char *list = folder_text(state, "names", "a/0.png");
    unsigned before = n_open_files();
    pst_dataset *dataset = open_with(state, (struct pst_dataset_options){0});
    send_dataset(dataset, &received);
    pst_dataset_close(&dataset);
    assert_int_equal(pipe(ends), 0);
    /* a message with one descriptor more than it states */
    assert_not_opened(&received, ends[0], PST_ERROR_CORRUPT);
    received.there.has_labels = true;
    assert_not_opened(&received, -1, PST_ERROR_CORRUPT); /* one less */
    assert_not_opened(&received, ends[1], PST_ERROR_CORRUPT);
    assert_not_opened(&received, open(folder_path(state, "f"), O_RDONLY | O_DIRECTORY),
                      PST_ERROR_CORRUPT);
    received.there.has_labels = false;
    received.there.has_files = true;
    assert_not_opened(&received, open(list, O_RDONLY), PST_ERROR_CORRUPT);  /* not sealed */
    assert_not_opened(&received, blob_of("a/0.png", 7), PST_ERROR_CORRUPT); /* without a NUL */
    assert_not_opened(&received, blob_of("a/0.png\0a/1.png", 15), PST_ERROR_CORRUPT);
    /* a list of another data set */
    assert_not_opened(&received, blob_of("a/0.png", 8), PST_ERROR_STATE);
    assert_not_opened(&received, blob_of("a/none.png", 11), PST_ERROR_NOT_FOUND);
    assert_not_opened(&received, blob_of("\0\0\0", 3), PST_ERROR_ARGUMENT);
    received.there.has_files = false;
    close(received.fds[0]);
    received.fds[0] = open(list, O_RDONLY);
    assert_int_equal(open_received(&received, &theirs, &err), PST_ERROR_CORRUPT);
    close_fds(&received);
    assert_int_equal(n_open_files(), before);
}

#ifdef PST_FAULTS
/* Sends and opens the data set while each allocation fails in turn, and closes it. */
static void fails_cleanly(pst_dataset *dataset)
{
    static uint8_t bytes[PSTI_MESSAGE_NBYTES];
    struct pst_error err;
    struct received received;
    struct pst_memory_stats before, after;
    pst_dataset *theirs;
    pst_memory_stats(&before, sizeof before);
    unsigned n_files = n_open_files();
    enum pst_status status = PST_ERROR_MEMORY;
    for (uint64_t n = 1; status != PST_OK; n++) {
        struct psti_wire_out out = psti_share_begin(bytes);
        psti_fault_arm(PSTI_FAULT_ALLOC, n, false);
        status = psti_share_put_dataset(&out, dataset, received.fds, &received.n_fds, &err);
        if (status == PST_OK) {
            assert_true(read_body(bytes, &out, &received));
            status = open_received(&received, &theirs, &err);
        }
        psti_fault_arm(PSTI_FAULT_ALLOC, 0, false);
        assert_true(status == PST_OK || status == PST_ERROR_MEMORY);
        if (status == PST_OK)
            pst_dataset_close(&theirs);
        close_fds(&received);
        pst_memory_stats(&after, sizeof after);
        assert_int_equal(after.live_nbytes, before.live_nbytes);
        assert_int_equal(n_open_files(), n_files);
        assert_true(n > 3 || status != PST_OK);
    }
    pst_dataset_close(&dataset);
}

static void every_failed_allocation_is_clean(void **state)
{
    static const char *const files[] = {"b/0.png", "a/1.png"};
    make_files(state);
    fails_cleanly(open_with(state, (struct pst_dataset_options){.files = files, .n_files = 2}));
    fails_cleanly(open_mixture(state));
}
#endif

#define T(f) cmocka_unit_test_setup_teardown(f, folder_setup, folder_teardown)
int main(void)
{
    const struct CMUnitTest tests[] = {
        T(folders_come_back),
        T(mixtures_come_back),
        T(a_damaged_mixture_is_refused),
        T(label_files_come_back),
        T(lists_of_files_come_back),
        T(a_folder_that_was_renamed_is_opened),
        T(a_changed_data_set_is_refused),
        T(tars_come_back),
        T(tars_that_changed_are_refused),
        cmocka_unit_test(impossible_values_are_refused),
        T(other_descriptors_are_refused),
#ifdef PST_FAULTS
        T(every_failed_allocation_is_clean),
#endif
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
