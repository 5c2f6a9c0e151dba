/* test_containers_npy.c - are dtype, shape and offset of the data read from the header of a numpy
 * file, and are wrong headers refused? */
#include "test.h"

#include "base/bits.h"
#include "containers/containers_npy.h"

#include <stdlib.h>
#include <string.h>

/* Makes a .npy file of a version with that dictionary, padded to `align`, and `nbytes` of elements.
 * Returns its length. */
static size_t make(uint8_t *file, int version, const char *dictionary, size_t align, size_t nbytes)
{
    size_t begin = version == 1 ? 10 : 12, n = begin + strlen(dictionary) + 1;
    size_t end = (n + align - 1) / align * align;
    memset(file, ' ', end);
    memcpy(file, "\x93NUMPY", 6);
    file[6] = (uint8_t)version;
    file[7] = 0;
    if (version == 1)
        psti_store_u16(file + 8, (uint16_t)(end - begin));
    else
        psti_store_u32(file + 8, (uint32_t)(end - begin));
    memcpy(file + begin, dictionary, strlen(dictionary));
    file[end - 1] = '\n';
    memset(file + end, 7, nbytes);
    return end + nbytes;
}

static enum pst_status parse(const uint8_t *file, size_t n, struct psti_npy *npy,
                             const char **problem)
{
    size_t n_head = n < PSTI_NPY_HEAD_NBYTES ? n : PSTI_NPY_HEAD_NBYTES;
    uint8_t *head = malloc(n_head > 0 ? n_head : 1); /* a sanitizer detects reads behind its end */
    assert_non_null(head);
    memcpy(head, file, n_head);
    enum pst_status status = psti_containers_npy_parse(head, n_head, n, npy, problem);
    free(head);
    return status;
}

static void each_version_has_its_header(void **state)
{
    (void)state;
    static uint8_t file[70000];
    for (int version = 1; version <= 3; version++) {
        for (size_t align = 16; align <= 4096; align *= 4) {
            struct psti_npy npy;
            const char *problem = NULL;
            size_t n =
                make(file, version, "{'descr': '<f4', 'fortran_order': False, 'shape': (3, 5), }",
                     align, 60);
            assert_int_equal(parse(file, n, &npy, &problem), PST_OK);
            assert_int_equal(npy.dtype, PST_DTYPE_F32);
            assert_int_equal(npy.ndim, 2);
            assert_int_equal(npy.shape[0], 3);
            assert_int_equal(npy.shape[1], 5);
            assert_int_equal(npy.offset, n - 60);
        }
    }
}

static void types_and_shapes_are_read(void **state)
{
    (void)state;
    static const struct {
        const char *dictionary;
        size_t nbytes;
        enum pst_dtype dtype;
        uint8_t ndim;
        uint32_t last; /* dimension */
    } right[] = {
        {"{'descr': '|u1', 'fortran_order': False, 'shape': (7,), }", 7, PST_DTYPE_U8, 1, 7},
        {"{'descr': '|i1', 'fortran_order': False, 'shape': (7,)}", 7, PST_DTYPE_I8, 1, 7},
        {"{'descr': '|b1', 'fortran_order': False, 'shape': (), }", 1, PST_DTYPE_BOOL, 0, 0},
        {"{'descr': '<u2', 'fortran_order': False, 'shape': (2, 1,), }", 4, PST_DTYPE_U16, 2, 1},
        {"{'descr': '<i2', 'fortran_order': False, 'shape': (2L, 3L), }", 12, PST_DTYPE_I16, 2, 3},
        {"{'descr': '<u4', 'fortran_order': False, 'shape': (2,), }", 8, PST_DTYPE_U32, 1, 2},
        {"{'descr': '<i4', 'fortran_order': False, 'shape': (2,), }", 8, PST_DTYPE_I32, 1, 2},
        {"{'descr': '<u8', 'fortran_order': False, 'shape': (2,), }", 16, PST_DTYPE_U64, 1, 2},
        {"{'descr': '<i8', 'fortran_order': False, 'shape': (2,), }", 16, PST_DTYPE_I64, 1, 2},
        {"{'descr': '<f2', 'fortran_order': False, 'shape': (2,), }", 4, PST_DTYPE_F16, 1, 2},
        {"{'descr': '=f8', 'fortran_order': False, 'shape': (2,), }", 16, PST_DTYPE_F64, 1, 2},
        /* Keys in any order, both kinds of quotes, no white space. */
        {"{\"shape\":(2,0,3),\"descr\":\"<f4\",\"fortran_order\":False}", 0, PST_DTYPE_F32, 3, 3},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (4294967295, 0), }", 0, PST_DTYPE_F32,
         2, 0},
        {"{'descr': '|u1', 'fortran_order': False, 'shape': (1, 1, 1, 1, 1, 1, 1, 2), }", 2,
         PST_DTYPE_U8, 8, 2},
    };
    static uint8_t file[4096];
    for (size_t i = 0; i < sizeof right / sizeof *right; i++) {
        struct psti_npy npy;
        const char *problem = NULL;
        size_t n = make(file, 1, right[i].dictionary, 64, right[i].nbytes);
        assert_int_equal(parse(file, n, &npy, &problem), PST_OK);
        assert_int_equal(npy.dtype, right[i].dtype);
        assert_int_equal(npy.ndim, right[i].ndim);
        if (npy.ndim > 0)
            assert_int_equal(npy.shape[npy.ndim - 1], right[i].last);
        /* The shape needs exactly n bytes, so one byte more or less is refused. */
        assert_int_equal(parse(file, n + 1, &npy, &problem), PST_ERROR_CORRUPT);
        assert_non_null(strstr(problem, "as its shape says"));
        assert_int_equal(parse(file, n - 1, &npy, &problem), PST_ERROR_CORRUPT);
    }
}

#define D(descr, order, shape)                                                                     \
    "{'descr': " descr ", 'fortran_order': " order ", 'shape': " shape ", }"

static void wrong_headers_are_refused(void **state)
{
    (void)state;
    static const struct {
        const char *dictionary, *problem;
        enum pst_status status;
    } wrong[] = {
        {D("'|O'", "False", "(1,)"), "pickles", PST_ERROR_UNSUPPORTED},
        {D("'O'", "False", "(1,)"), "pickles", PST_ERROR_UNSUPPORTED},
        {D("'|O8'", "False", "(1,)"), "pickles", PST_ERROR_UNSUPPORTED},
        {D("'>f4'", "False", "(1,)"), "big-endian", PST_ERROR_UNSUPPORTED},
        {D("'<c8'", "False", "(1,)"), "plain numbers", PST_ERROR_UNSUPPORTED},
        {D("'<U3'", "False", "(1,)"), "plain numbers", PST_ERROR_UNSUPPORTED},
        {D("'<f16'", "False", "(1,)"), "plain numbers", PST_ERROR_UNSUPPORTED},
        {D("'<M8[ns]'", "False", "(1,)"), "plain numbers", PST_ERROR_UNSUPPORTED},
        {D("''", "False", "(1,)"), "plain numbers", PST_ERROR_UNSUPPORTED},
        {D("[('x', '<f4')]", "False", "(1,)"), "records", PST_ERROR_UNSUPPORTED},
        {D("'<f4'", "True", "(2, 2)"), "Fortran", PST_ERROR_UNSUPPORTED},
        {D("'<f4'", "False", "(4294967296,)"), "dimension", PST_ERROR_UNSUPPORTED},
        {D("'<f4'", "False", "(99999999999999999999999,)"), "dimension", PST_ERROR_UNSUPPORTED},
        {D("'<f4'", "False", "(1, 1, 1, 1, 1, 1, 1, 1, 1)"), "8 dim", PST_ERROR_UNSUPPORTED},
        {D("'|f4'", "False", "(1,)"), "cannot be read", PST_ERROR_CORRUPT},
        {D("'xf4'", "False", "(1,)"), "cannot be read", PST_ERROR_CORRUPT},
        {D("'<f4'", "0", "(1,)"), "cannot be read", PST_ERROR_CORRUPT},
        {D("'<f4'", "False", "(1)"), "cannot be read", PST_ERROR_CORRUPT},
        {D("'<f4'", "False", "1"), "cannot be read", PST_ERROR_CORRUPT},
        {D("'<f4'", "False", "(-1,)"), "cannot be read", PST_ERROR_CORRUPT},
        {D("'<f4'", "False", "(,)"), "cannot be read", PST_ERROR_CORRUPT},
        {D("'<f4'", "False", "(1,,)"), "cannot be read", PST_ERROR_CORRUPT},
        {D("'<f4'", "False", "(1 2)"), "cannot be read", PST_ERROR_CORRUPT},
        {D("'<f4", "False", "(1,)"), "plain numbers", PST_ERROR_UNSUPPORTED},
        {"{'descr': '<f4", "cannot be read", PST_ERROR_CORRUPT},
        {"{'descr': '<f4', 'shape': (1,), }", "cannot be read", PST_ERROR_CORRUPT},
        {"{'descr': '<f4', 'fortran_order': False, }", "cannot be read", PST_ERROR_CORRUPT},
        {"{'descr': '<f4', 'descr': '<f4', 'fortran_order': False, 'shape': (1,), }",
         "cannot be read", PST_ERROR_CORRUPT},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (1,), 'more': 1}", "cannot be read",
         PST_ERROR_CORRUPT},
        {"{'descr': '<f4' 'fortran_order': False, 'shape': (1,)}", "cannot be read",
         PST_ERROR_CORRUPT},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (1,)} x", "cannot be read",
         PST_ERROR_CORRUPT},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (1,)", "cannot be read",
         PST_ERROR_CORRUPT},
        {"", "cannot be read", PST_ERROR_CORRUPT},
        /* The product of the shape overflows 64 bits, and its low 64 bits would fit. */
        {D("'|u1'", "False", "(4294967295, 4294967295, 4294967295)"), "its shape",
         PST_ERROR_CORRUPT},
        {D("'<f4'", "False", "(2147483648, 2147483648, 4)"), "its shape", PST_ERROR_CORRUPT},
    };
    static uint8_t file[4096];
    for (size_t k = 0; k < 2 * (sizeof wrong / sizeof *wrong); k++) {
        struct psti_npy npy;
        const char *problem = NULL;
        size_t i = k / 2, nbytes = k % 2 == 0 ? 4 : 0; /* bytes of the elements */
        size_t n = make(file, 1 + (int)(i % 3), wrong[i].dictionary, 64, nbytes);
        enum pst_status status = parse(file, n, &npy, &problem);
        if (status != wrong[i].status || strstr(problem, wrong[i].problem) == NULL)
            print_error("%s: %s\n", wrong[i].dictionary, problem);
        assert_int_equal(status, wrong[i].status);
        assert_non_null(strstr(problem, wrong[i].problem));
    }
}

static void what_is_no_numpy_file_is_refused(void **state)
{
    (void)state;
    static uint8_t file[4096];
    struct psti_npy npy;
    const char *problem = NULL;
    size_t n = make(file, 1, D("'<f4'", "False", "(1,)"), 64, 4);
    /* Every truncation of the header is refused. */
    for (size_t cut = 0; cut < n; cut++)
        assert_int_equal(parse(file, cut, &npy, &problem), PST_ERROR_CORRUPT);
    for (int version = 0; version < 256; version += 4) {
        file[6] = (uint8_t)version;
        assert_int_equal(parse(file, n, &npy, &problem), PST_ERROR_UNSUPPORTED);
    }
    file[6] = 1;
    file[7] = 1;
    assert_int_equal(parse(file, n, &npy, &problem), PST_ERROR_UNSUPPORTED);
    file[7] = 0;
    file[0] = 'x';
    assert_int_equal(parse(file, n, &npy, &problem), PST_ERROR_CORRUPT);
    assert_string_equal(problem, "is no numpy file");
}

/* A dictionary that is longer than the bytes read is refused with a named reason. Longer padding is
 * allowed. */
static void long_headers_need_a_short_dictionary(void **state)
{
    (void)state;
    static uint8_t file[70000];
    char dictionary[1024];
    struct psti_npy npy;
    const char *problem = NULL;
    for (int n_spaces = 0; n_spaces < 400; n_spaces++) {
        snprintf(dictionary, sizeof dictionary,
                 "{'descr': '<f4', 'fortran_order': False, 'shape':%*s(1,)}", n_spaces, "");
        size_t n = make(file, 2, dictionary, 4096, 4);
        bool is_short = 12 + strlen(dictionary) < PSTI_NPY_HEAD_NBYTES;
        enum pst_status status = parse(file, n, &npy, &problem);
        if (is_short)
            assert_int_equal(status, PST_OK);
        else if (12 + strlen(dictionary) > PSTI_NPY_HEAD_NBYTES)
            assert_int_equal(status, PST_ERROR_UNSUPPORTED);
    }
    /* The header states a false length. */
    size_t n = make(file, 2, D("'<f4'", "False", "(1,)"), 64, 4);
    psti_store_u32(file + 8, UINT32_MAX);
    assert_int_equal(parse(file, n, &npy, &problem), PST_ERROR_CORRUPT);
    assert_string_equal(problem, "ends within its header");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_version_has_its_header),
        cmocka_unit_test(types_and_shapes_are_read),
        cmocka_unit_test(wrong_headers_are_refused),
        cmocka_unit_test(what_is_no_numpy_file_is_refused),
        cmocka_unit_test(long_headers_need_a_short_dictionary),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
