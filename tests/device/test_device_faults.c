/* Failures: each driver call in turn, a GPU that breaks, wrong use, a forked child. Nothing may
 * leak, and errors must say what was tried. */
#include "device_test.h"

#include "base/fault.h"

#include <penstock/penstock.h>

#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define N 64u

struct work {
    struct psti_device *device;
    struct psti_stream *stream;
    struct psti_event *event;
    uint64_t at;
    void *host;
};

/* Calls every function once, until the first failure. */
static enum pst_status work(struct work *w, struct pst_error *err)
{
    const struct psti_device_options options = {.ordinal = 0};
    bool done;
#define TRY(call)                                                                                  \
    do {                                                                                           \
        enum pst_status status_ = (call);                                                          \
        if (status_ != PST_OK)                                                                     \
            return status_;                                                                        \
    } while (0)
    TRY(psti_device_open(&options, &w->device, err));
    TRY(load_kernels(w->device, &kernel_image, kernel_names, N_KERNELS, err));
    TRY(psti_device_stream_open(w->device, true, &w->stream, err));
    TRY(psti_device_event_open(w->device, &w->event, err));
    TRY(psti_device_alloc(w->device, N * 4, &w->at, err));
    TRY(psti_device_alloc_pinned(w->device, N * 4, &w->host, err));
    const struct add_args args = {w->at, N, 1};
    TRY(psti_device_stream_clear(w->stream, w->at, N * 4, err));
    TRY(launch(w->stream, KERNEL_ADD, &args, sizeof args, err));
    TRY(psti_device_stream_download(w->stream, w->host, w->at, N * 4, err));
    TRY(psti_device_stream_upload(w->stream, w->at, w->host, N * 4, err));
    TRY(psti_device_stream_copy(w->stream, w->at, w->at, N * 4, err));
    TRY(psti_device_event_record(w->event, w->stream, err));
    TRY(psti_device_event_await(w->event, w->stream, err));
    TRY(psti_device_event_record_foreign(w->event, 0, err));
    TRY(psti_device_event_await_foreign(w->event, 0, err));
    TRY(psti_device_event_is_done(w->event, &done, err));
    TRY(psti_device_event_sync(w->event, err));
    return psti_device_stream_sync(w->stream, err);
#undef TRY
}

static void put_away(struct work *w)
{
    psti_device_stream_close(&w->stream);
    psti_device_event_close(&w->event);
    if (w->device) {
        struct psti_device_info info;
        psti_device_free(w->device, w->at, N * 4);
        psti_device_free_pinned(w->device, w->host, N * 4);
        psti_device_info(w->device, &info);
        assert_int_equal(info.device_memory_used, 0);
        assert_int_equal(info.pinned_memory_used, 0);
    }
    psti_device_close(&w->device);
}

static void assert_clean(void)
{
    struct pst_memory_stats stats;
    pst_memory_stats(&stats, sizeof stats);
    assert_int_equal(stats.live_nbytes, 0);
    assert_nothing_left();
}

static void each_call_of(enum psti_fault_kind kind, uint64_t least)
{
#ifdef PST_FAULTS
    struct pst_error err;
    enum pst_status status = PST_ERROR_DEVICE;
    uint64_t n = 0;
    while (status != PST_OK) {
        struct work w = {0};
        pst_error_clear(&err);
        psti_fault_arm(kind, ++n, false);
        status = work(&w, &err);
        psti_fault_arm(kind, 0, false);
        if (status != PST_OK) {
            assert_int_equal(status, err.status);
            assert_true(status == PST_ERROR_MEMORY || status == PST_ERROR_DEVICE);
            assert_string_equal(err.room, "device");
            assert_true(strlen(err.text) > 10);
        }
        put_away(&w);
        assert_clean();
    }
    assert_true(n > least);
#else
    (void)kind;
    (void)least;
    skip();
#endif
}

static void every_driver_call(void **state)
{
    (void)state;
    each_call_of(PSTI_FAULT_DEVICE, 40);
}

static void every_allocation(void **state)
{
    (void)state;
    each_call_of(PSTI_FAULT_ALLOC, 4);
}

/* The driver's error is passed on with its name. */
static void the_driver_fails(void **state)
{
    (void)state;
    static const struct {
        enum fake_what what;
        unsigned result;
        enum pst_status status;
        const char *text;
    } cases[] = {
        {FAKE_ALLOC, 2, PST_ERROR_MEMORY, "GPU 0: allocating 256 bytes: CUDA_ERROR_OUT_OF_MEMORY"},
        {FAKE_HOST_ALLOC, 2, PST_ERROR_MEMORY, "pinning 256 bytes of the host"},
        {FAKE_LAUNCH, 1, PST_ERROR_DEVICE, "launching kernel 0 on 1 blocks of 1 warps"},
        {FAKE_COPY, 700, PST_ERROR_DEVICE, "clearing 256 bytes: CUDA_ERROR_ILLEGAL_ADDRESS"},
        {FAKE_SYNC, 12345, PST_ERROR_DEVICE, "waiting for an event: CUDA error 12345"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct pst_error err;
        struct work w = {0};
        fake_fail(cases[i].what, 1, cases[i].result);
        assert_int_equal(work(&w, &err), cases[i].status);
        fake_fail(cases[i].what, 0, 0);
        if (!strstr(err.text, cases[i].text))
            fail_msg("'%s' does not say '%s'", err.text, cases[i].text);
        put_away(&w);
        assert_clean();
    }
}

/* A broken GPU refuses everything, all objects can be closed, and nothing hangs. */
static void a_gpu_breaks(void **state)
{
    (void)state;
    struct pst_error err;
    struct work w = {0};
    bool done;
    assert_ok(work(&w, &err));
    const struct add_args args = {w.at, N, 1};
    fake_set_delay(1000);
    assert_ok(launch(w.stream, KERNEL_ADD, &args, sizeof args, &err));
    fake_break(0, 700);
    assert_int_equal(launch(w.stream, KERNEL_ADD, &args, sizeof args, &err), PST_ERROR_DEVICE);
    assert_non_null(strstr(err.text, "CUDA_ERROR_ILLEGAL_ADDRESS"));
    assert_int_equal(psti_device_stream_sync(w.stream, &err), PST_ERROR_DEVICE);
    assert_int_equal(psti_device_event_is_done(w.event, &done, &err), PST_ERROR_DEVICE);
    assert_false(done);
    put_away(&w);
    fake_set_delay(0);
    fake_repair(0);
    assert_clean();
}

/* The fake driver detects wrong addresses as a real GPU may. Tests in other folders rely on it. */
static void wrong_addresses(void **state)
{
    (void)state;
    unsigned char pageable[N * 4];
    for (int i = 0; i < 6; i++) {
        struct pst_error err;
        struct work w = {0};
        enum pst_status status = PST_OK;
        assert_ok(work(&w, &err));
        switch (i) {
        case 0:
            status = psti_device_stream_upload(w.stream, w.at, pageable, N * 4, &err);
            break;
        case 1:
            status = psti_device_stream_upload(w.stream, w.at, w.host, N * 4 + 1, &err);
            break;
        case 2:
            status = psti_device_stream_download(w.stream, w.host, w.at + 1, N * 4, &err);
            break;
        case 3:
            status = psti_device_stream_copy(w.stream, (uintptr_t)w.host, w.at, N * 4, &err);
            break;
        case 4: /* freed before it is used; detected when the operation runs */
            fake_set_delay(3000);
            assert_ok(psti_device_stream_clear(w.stream, w.at, N * 4, &err));
            psti_device_free(w.device, w.at, N * 4);
            w.at = 0;
            status = psti_device_stream_sync(w.stream, &err);
            fake_set_delay(0);
            break;
        case 5:
            psti_device_free(w.device, w.at, N * 4);
            status = psti_device_stream_clear(w.stream, w.at, N * 4, &err);
            w.at = 0;
            break;
        }
        assert_int_equal(status, PST_ERROR_DEVICE);
        assert_non_null(strstr(err.text, "CUDA_ERROR_ILLEGAL_ADDRESS"));
        psti_device_stream_close(&w.stream);
        psti_device_event_close(&w.event);
        psti_device_free(w.device, w.at, N * 4);
        psti_device_free_pinned(w.device, w.host, N * 4);
        psti_device_close(&w.device);
        fake_repair(0);
        assert_clean();
    }
}

static int in_child(struct work *w)
{
    struct pst_error err;
    struct psti_stream *stream;
    struct psti_event *event;
    uint64_t address;
    void *memory;
    bool done;
    char reason[256];
    const struct add_args args = {w->at, N, 1};
    const struct psti_device_options options = {.ordinal = 0};
    struct psti_device *device;
    struct fake_counts before, after;
    fake_counts(&before);
    const enum pst_status statuses[] = {
        psti_device_alloc(w->device, 4, &address, &err),
        psti_device_alloc_pinned(w->device, 4, &memory, &err),
        psti_device_stream_open(w->device, true, &stream, &err),
        psti_device_event_open(w->device, &event, &err),
        launch(w->stream, KERNEL_ADD, &args, sizeof args, &err),
        psti_device_stream_clear(w->stream, w->at, 4, &err),
        psti_device_stream_sync(w->stream, &err),
        psti_device_event_record(w->event, w->stream, &err),
        psti_device_event_await_foreign(w->event, 0, &err),
        psti_device_event_is_done(w->event, &done, &err),
        psti_device_event_sync(w->event, &err),
    };
    for (size_t i = 0; i < sizeof statuses / sizeof statuses[0]; i++)
        if (statuses[i] != PST_ERROR_FORKED)
            return 10 + (int)i;
    if (!strstr(err.text, "forked"))
        return 2;
    psti_device_stream_close(&w->stream);
    psti_device_event_close(&w->event);
    psti_device_free(w->device, w->at, N * 4);
    psti_device_free_pinned(w->device, w->host, N * 4);
    psti_device_close(&w->device);
    fake_counts(&after);
    if (after.n_calls != before.n_calls)
        return 3; /* the driver was called, which is wrong */
    if (psti_device_open(&options, &device, &err) != PST_ERROR_UNSUPPORTED ||
        !strstr(err.text, "forked"))
        return 4;
    if (psti_device_count(reason, sizeof reason) != 0 || !strstr(reason, "forked"))
        return 5;
    return 0;
}

static void a_forked_child(void **state)
{
    (void)state;
    struct pst_error err;
    struct work w = {0};
    assert_ok(work(&w, &err));
    pid_t child = fork();
    if (child == 0)
        _exit(in_child(&w));
    int status = -1;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
    assert_int_equal(psti_device_stream_sync(w.stream, &err),
                     PST_OK); /* the parent's stream still works */
    put_away(&w);
    assert_clean();
}

int main(void)
{
    use_fake_driver();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_driver_call), cmocka_unit_test(every_allocation),
        cmocka_unit_test(the_driver_fails),  cmocka_unit_test(a_gpu_breaks),
        cmocka_unit_test(wrong_addresses),   cmocka_unit_test(a_forked_child),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
