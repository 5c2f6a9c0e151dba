/* Statuses and errors: fixed numbers, the text of an error line, and texts that are too long. */
#include "test.h"

#include "base/fail.h"
#include "base/log.h"

#include <penstock/penstock.h>

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* The numbers are repeated here on purpose, to detect a change in the list. */
static void numbers_are_pinned(void **state)
{
    (void)state;
    static const struct {
        enum pst_status status;
        int number;
        const char *name;
    } pinned[] = {
        {PST_OK, 0, "PST_OK"},
        {PST_END, 1, "PST_END"},
        {PST_ERROR_ARGUMENT, 2, "PST_ERROR_ARGUMENT"},
        {PST_ERROR_MEMORY, 3, "PST_ERROR_MEMORY"},
        {PST_ERROR_LIMIT, 4, "PST_ERROR_LIMIT"},
        {PST_ERROR_STATE, 5, "PST_ERROR_STATE"},
        {PST_ERROR_NOT_FOUND, 6, "PST_ERROR_NOT_FOUND"},
        {PST_ERROR_EXISTS, 7, "PST_ERROR_EXISTS"},
        {PST_ERROR_BUSY, 8, "PST_ERROR_BUSY"},
        {PST_ERROR_IO, 9, "PST_ERROR_IO"},
        {PST_ERROR_NO_SPACE, 10, "PST_ERROR_NO_SPACE"},
        {PST_ERROR_CORRUPT, 11, "PST_ERROR_CORRUPT"},
        {PST_ERROR_TRUNCATED, 12, "PST_ERROR_TRUNCATED"},
        {PST_ERROR_CHECKSUM, 13, "PST_ERROR_CHECKSUM"},
        {PST_ERROR_VERSION, 14, "PST_ERROR_VERSION"},
        {PST_ERROR_UNSUPPORTED, 15, "PST_ERROR_UNSUPPORTED"},
        {PST_ERROR_INCOMPLETE, 16, "PST_ERROR_INCOMPLETE"},
        {PST_ERROR_CANCELLED, 17, "PST_ERROR_CANCELLED"},
        {PST_ERROR_FORKED, 18, "PST_ERROR_FORKED"},
        {PST_ERROR_INTERNAL, 19, "PST_ERROR_INTERNAL"},
        {PST_ERROR_DEVICE, 20, "PST_ERROR_DEVICE"},
    };
    size_t n = sizeof pinned / sizeof pinned[0];
    for (size_t i = 0; i < n; i++) {
        assert_int_equal(pinned[i].status, pinned[i].number);
        assert_string_equal(pst_status_name(pinned[i].status), pinned[i].name);
        for (size_t k = 0; k < i; k++)
            assert_string_not_equal(pst_status_text(pinned[i].status),
                                    pst_status_text(pinned[k].status));
    }
    assert_string_equal(pst_status_text(PST_ERROR_IO), "input/output error");
    static const int unknown[] = {21, -1, 1000};
    for (size_t i = 0; i < 3; i++) {
        assert_string_equal(pst_status_name((enum pst_status)unknown[i]), "PST_UNKNOWN");
        assert_string_equal(pst_status_text((enum pst_status)unknown[i]), "unknown status");
    }
}

static void a_line_says_all_that_is_known(void **state)
{
    (void)state;
    struct pst_error err;
    char line[2048];
    memset(&err, 0xFF, sizeof err);
    assert_int_equal(psti_fail(&err, PST_ERROR_CORRUPT, "decode", "marker %d is missing", 7),
                     PST_ERROR_CORRUPT);
    assert_int_equal(err.status, PST_ERROR_CORRUPT);
    assert_int_equal(err.os_error, 0);
    assert_int_equal(err.sample, -1);
    assert_int_equal(err.offset, -1);
    assert_string_equal(err.room, "decode");
    assert_string_equal(err.file, "");
    pst_error_format(&err, line, sizeof line);
    assert_string_equal(line, "marker 7 is missing");

    err.sample = 12;
    err.offset = 3456;
    psti_error_set_file(&err, "shard-00000.pst");
    psti_error_set_dataset(&err, "train.pst");
    psti_error_set_codec(&err, "jpeg");
    err.os_error = ENOENT;
    size_t length = pst_error_format(&err, line, sizeof line);
    assert_string_equal(line,
                        "data set 'train.pst', sample 12, file 'shard-00000.pst', offset 3456, "
                        "codec jpeg: marker 7 is missing (No such file or directory)");
    assert_int_equal(length, strlen(line));

    pst_error_clear(&err);
    assert_int_equal(err.status, PST_OK);
    assert_int_equal(err.sample, -1);
    pst_error_format(&err, line, sizeof line);
    assert_string_equal(line, "success");
}

/* Behaves like snprintf: returns the whole length, prints as much as fits, always terminates. */
static void a_line_that_does_not_fit(void **state)
{
    (void)state;
    struct pst_error err;
    char whole[2048];
    psti_fail_os(&err, EIO, "storage", "a file", 77, "cannot read %d bytes", 5);
    psti_error_set_dataset(&err, "a data set");
    err.sample = 9;
    size_t length = pst_error_format(&err, whole, sizeof whole);
    assert_int_equal(pst_error_format(&err, NULL, 0), length);
    for (size_t capacity = 1; capacity <= length + 2; capacity++) {
        char *part = malloc(capacity); /* exact size, so that an extra byte is detected */
        memset(part, 'x', capacity);
        assert_int_equal(pst_error_format(&err, part, capacity), length);
        size_t expected = length < capacity ? length : capacity - 1;
        assert_int_equal(strlen(part), expected);
        /* The text may be cut where ", " becomes ": ". */
        assert_memory_equal(part, whole, expected > 2 ? expected - 2 : 0);
        free(part);
    }
}

static void a_long_path_keeps_its_end(void **state)
{
    (void)state;
    char path[1000];
    memset(path, 'd', sizeof path);
    memcpy(path + sizeof path - 12, "/image.jpeg", 12);
    struct pst_error err;
    psti_fail(&err, PST_ERROR_IO, "storage", "x");
    psti_error_set_file(&err, path);
    psti_error_set_dataset(&err, path);
    psti_error_set_codec(&err, path);
    const char *texts[] = {err.file, err.dataset, err.codec};
    size_t capacities[] = {sizeof err.file, sizeof err.dataset, sizeof err.codec};
    for (int i = 0; i < 3; i++) {
        assert_int_equal(strlen(texts[i]), capacities[i] - 1);
        assert_memory_equal(texts[i], "...", 3);
        assert_string_equal(texts[i] + strlen(texts[i]) - 11, "/image.jpeg");
    }
    for (size_t length = PST_ERROR_PATH_CAP - 2; length <= PST_ERROR_PATH_CAP; length++) {
        psti_error_set_file(&err, path + sizeof path - 1 - length);
        bool whole = length < PST_ERROR_PATH_CAP;
        assert_int_equal(strncmp(err.file, "...", 3) == 0, !whole);
        assert_int_equal(strlen(err.file), whole ? length : PST_ERROR_PATH_CAP - 1);
    }
    /* the error's cause keeps its beginning */
    psti_fail(&err, PST_ERROR_IO, "storage", "%s", path);
    assert_int_equal(strlen(err.text), sizeof err.text - 1);
}

static void system_errors(void **state)
{
    (void)state;
    static const struct {
        int os_error;
        enum pst_status status;
    } cases[] = {
        {ENOSPC, PST_ERROR_NO_SPACE},  {EDQUOT, PST_ERROR_NO_SPACE},   {ENOMEM, PST_ERROR_MEMORY},
        {ENOENT, PST_ERROR_NOT_FOUND}, {ENOTDIR, PST_ERROR_NOT_FOUND}, {EEXIST, PST_ERROR_EXISTS},
        {EIO, PST_ERROR_IO},           {EACCES, PST_ERROR_IO},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct pst_error err;
        assert_int_equal(psti_fail_os(&err, cases[i].os_error, "storage", "f", 5, "cannot"),
                         cases[i].status);
        assert_int_equal(err.status, cases[i].status);
        assert_int_equal(err.os_error, cases[i].os_error);
        assert_int_equal(err.offset, 5);
        assert_string_equal(err.file, "f");
        assert_int_equal(psti_fail_os(NULL, cases[i].os_error, "storage", NULL, -1, "cannot"),
                         cases[i].status);
    }
    struct pst_error err;
    psti_fail_os(&err, EIO, "storage", NULL, -1, "cannot");
    assert_string_equal(err.file, "");
}

static void detail_is_optional(void **state)
{
    (void)state;
    assert_int_equal(psti_fail(NULL, PST_ERROR_LIMIT, "base", "%d", 1), PST_ERROR_LIMIT);
    psti_error_set_file(NULL, "f");
    psti_error_set_dataset(NULL, "f");
    psti_error_set_codec(NULL, "f");
    pst_error_clear(NULL);
}

struct heard {
    int n;
    enum pst_log_level level;
    char room[16], text[2000];
};

static void hear(void *ctx, enum pst_log_level level, const char *room, const char *text)
{
    struct heard *heard = ctx;
    heard->n++;
    heard->level = level;
    snprintf(heard->room, sizeof heard->room, "%s", room);
    snprintf(heard->text, sizeof heard->text, "%s", text);
}

static void messages(void **state)
{
    (void)state;
    struct heard heard = {0};
    psti_log(PST_LOG_ERROR, "base", "nobody listens");
    pst_set_log(hear, &heard, PST_LOG_WARNING);
    psti_log(PST_LOG_INFO, "base", "too quiet");
    assert_int_equal(heard.n, 0);
    psti_log(PST_LOG_WARNING, "base", "number %d", 5);
    assert_int_equal(heard.n, 1);
    assert_int_equal(heard.level, PST_LOG_WARNING);
    assert_string_equal(heard.room, "base");
    assert_string_equal(heard.text, "number 5");
    psti_log(PST_LOG_ERROR, "base", "%01500d", 7); /* the message is cut without an overrun */
    assert_int_equal(heard.n, 2);
    assert_in_range(strlen(heard.text), 500, 1500);
    setenv("PENSTOCK_LOG_LEVEL", "debug", 1);
    pst_set_log(hear, &heard, -1);
    psti_log(PST_LOG_DEBUG, "base", "heard");
    assert_int_equal(heard.n, 3);
    setenv("PENSTOCK_LOG_LEVEL", "error", 1);
    pst_set_log(hear, &heard, -1);
    psti_log(PST_LOG_WARNING, "base", "not heard");
    assert_int_equal(heard.n, 3);
    pst_set_log(NULL, NULL, PST_LOG_DEBUG);
    psti_log(PST_LOG_ERROR, "base", "not heard");
    assert_int_equal(heard.n, 3);
}

static void names(void **state)
{
    (void)state;
    static const struct {
        enum pst_dtype dtype;
        const char *name;
        size_t nbytes;
    } dtypes[] = {
        {PST_DTYPE_U8, "uint8", 1},    {PST_DTYPE_U16, "uint16", 2},
        {PST_DTYPE_I32, "int32", 4},   {PST_DTYPE_I64, "int64", 8},
        {PST_DTYPE_F16, "float16", 2}, {PST_DTYPE_BF16, "bfloat16", 2},
        {PST_DTYPE_F32, "float32", 4}, {PST_DTYPE_F64, "float64", 8},
        {PST_DTYPE_I8, "int8", 1},     {PST_DTYPE_I16, "int16", 2},
        {PST_DTYPE_U32, "uint32", 4},  {PST_DTYPE_U64, "uint64", 8},
        {PST_DTYPE_BOOL, "bool", 1},
    };
    for (size_t i = 0; i < sizeof dtypes / sizeof dtypes[0]; i++) {
        assert_int_equal(dtypes[i].dtype, i + 1); /* the numbers are stored in files */
        assert_string_equal(pst_dtype_name(dtypes[i].dtype), dtypes[i].name);
        assert_int_equal(pst_dtype_nbytes(dtypes[i].dtype), dtypes[i].nbytes);
        assert_int_equal(pst_dtype_from_name(dtypes[i].name), dtypes[i].dtype);
    }
    static const int outside[] = {0, 14, -1, 1 << 30};
    for (size_t i = 0; i < 4; i++) {
        assert_int_equal(pst_dtype_nbytes((enum pst_dtype)outside[i]), 0);
        assert_string_equal(pst_dtype_name((enum pst_dtype)outside[i]), "none");
    }
    assert_int_equal(pst_dtype_from_name("none"), 0);
    assert_int_equal(pst_dtype_from_name(""), 0);
    static const enum pst_form forms[] = {PST_FORM_RAW, PST_FORM_JPEG, PST_FORM_PNG, PST_FORM_WEBP,
                                          PST_FORM_PLI, PST_FORM_PLI_JPEG, PST_FORM_BYTES};
    for (size_t i = 0; i < sizeof forms / sizeof forms[0]; i++)
        assert_int_equal(pst_form_from_name(pst_form_name(forms[i])), forms[i]);
    assert_string_equal(pst_form_name(PST_FORM_JPEG), "jpeg");
    assert_string_equal(pst_form_name((enum pst_form)99), "none");
    assert_int_equal(pst_form_from_name("gif"), PST_FORM_NONE);
    char version[32];
    snprintf(version, sizeof version, "%d.%d.%d", PST_VERSION_MAJOR, PST_VERSION_MINOR,
             PST_VERSION_PATCH);
    assert_string_equal(pst_version(), version);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(numbers_are_pinned),
        cmocka_unit_test(a_line_says_all_that_is_known),
        cmocka_unit_test(a_line_that_does_not_fit),
        cmocka_unit_test(a_long_path_keeps_its_end),
        cmocka_unit_test(system_errors),
        cmocka_unit_test(detail_is_optional),
        cmocka_unit_test(messages),
        cmocka_unit_test(names),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
