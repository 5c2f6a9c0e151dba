/* containers_npy.c - parses the header of a .npy file, which is a Python dictionary as text.
 *
 * In: the file's first bytes. Out: element type, shape, and the offset of the elements. */
#include "containers/containers_npy.h"

#include "base/bits.h"
#include "base/checked.h"

#include <stdbool.h>
#include <string.h>

/* A parser's place in a text. The file's header may go on behind `end`, in bytes that were not
 * given. */
struct cursor {
    const char *at, *end;
    bool is_cut;
    enum pst_status status;
    const char *problem;
};

/* Records a failure, unless one was recorded before. Returns false. */
static bool fail(struct cursor *cursor, enum pst_status status, const char *problem)
{
    if (cursor->status == PST_OK) {
        cursor->status = status;
        cursor->problem = problem;
    }
    return false;
}

static bool no_header(struct cursor *cursor)
{
    if (cursor->at == cursor->end && cursor->is_cut)
        return fail(cursor, PST_ERROR_UNSUPPORTED, "has a longer header than arrays need");
    return fail(cursor, PST_ERROR_CORRUPT, "has a header that cannot be read");
}

static void skip_space(struct cursor *cursor)
{
    while (cursor->at < cursor->end && (*cursor->at == ' ' || *cursor->at == '\n' ||
                                        *cursor->at == '\t' || *cursor->at == '\r'))
        cursor->at++;
}

/* Takes one character, and white space around it. */
static bool take(struct cursor *cursor, char c)
{
    skip_space(cursor);
    if (cursor->at == cursor->end || *cursor->at != c)
        return false;
    cursor->at++;
    skip_space(cursor);
    return true;
}

static bool take_word(struct cursor *cursor, const char *word)
{
    size_t n = strlen(word);
    if ((size_t)(cursor->end - cursor->at) < n || memcmp(cursor->at, word, n) != 0)
        return false;
    cursor->at += n;
    return true;
}

/* Takes a quoted text. None that is supported has escapes. */
static bool take_string(struct cursor *cursor, const char **text, size_t *nbytes)
{
    if (cursor->at == cursor->end || (*cursor->at != '\'' && *cursor->at != '"'))
        return no_header(cursor);
    char quote = *cursor->at++;
    *text = cursor->at;
    while (cursor->at < cursor->end && *cursor->at != quote)
        cursor->at++;
    if (cursor->at == cursor->end)
        return no_header(cursor);
    *nbytes = (size_t)(cursor->at++ - *text);
    return true;
}

/* Finds the element type by its description, which is byte order, kind and size: "<f4". */
static bool find_dtype(struct cursor *cursor, const char *text, size_t nbytes,
                       enum pst_dtype *dtype)
{
    static const struct {
        char name[3];
        enum pst_dtype dtype;
    } known[] = {
        {"b1", PST_DTYPE_BOOL}, {"u1", PST_DTYPE_U8},  {"i1", PST_DTYPE_I8},  {"u2", PST_DTYPE_U16},
        {"i2", PST_DTYPE_I16},  {"u4", PST_DTYPE_U32}, {"i4", PST_DTYPE_I32}, {"u8", PST_DTYPE_U64},
        {"i8", PST_DTYPE_I64},  {"f2", PST_DTYPE_F16}, {"f4", PST_DTYPE_F32}, {"f8", PST_DTYPE_F64},
    };
    const char *name = text + 1;
    if ((nbytes >= 1 && text[0] == 'O') || (nbytes >= 2 && name[0] == 'O'))
        return fail(cursor, PST_ERROR_UNSUPPORTED,
                    "holds Python objects (pickles), which are code");
    for (size_t i = 0; nbytes == 3 && i < sizeof known / sizeof *known; i++) {
        if (memcmp(name, known[i].name, 2) != 0)
            continue;
        bool is_byte = name[1] == '1';
        if (text[0] == '>' && !is_byte)
            return fail(cursor, PST_ERROR_UNSUPPORTED, "holds numbers in big-endian order");
        if (text[0] != '<' && text[0] != '=' && text[0] != '>' && !(text[0] == '|' && is_byte))
            return no_header(cursor);
        *dtype = known[i].dtype;
        return true;
    }
    return fail(cursor, PST_ERROR_UNSUPPORTED,
                "holds elements that are no plain numbers of 1, 2, 4 or 8 bytes");
}

static bool take_dtype(struct cursor *cursor, struct psti_npy *npy)
{
    const char *text = NULL;
    size_t nbytes = 0;
    if (cursor->at < cursor->end && *cursor->at == '[')
        return fail(cursor, PST_ERROR_UNSUPPORTED, "holds records of several members");
    return take_string(cursor, &text, &nbytes) && find_dtype(cursor, text, nbytes, &npy->dtype);
}

static bool take_order(struct cursor *cursor)
{
    if (take_word(cursor, "False"))
        return true;
    if (take_word(cursor, "True"))
        return fail(cursor, PST_ERROR_UNSUPPORTED,
                    "holds its elements in the order of columns (Fortran)");
    return no_header(cursor);
}

/* Takes one dimension of the shape. Python 2 wrote an L after long integers. */
static bool take_dimension(struct cursor *cursor, uint32_t *out)
{
    uint64_t value = 0;
    const char *first = cursor->at;
    for (; cursor->at < cursor->end && *cursor->at >= '0' && *cursor->at <= '9'; cursor->at++)
        if ((value = value * 10 + (uint64_t)(*cursor->at - '0')) > UINT32_MAX)
            return fail(cursor, PST_ERROR_UNSUPPORTED, "has a dimension of 4,294,967,296 or more");
    if (cursor->at == first)
        return no_header(cursor);
    (void)take_word(cursor, "L");
    *out = (uint32_t)value;
    return true;
}

static bool take_shape(struct cursor *cursor, struct psti_npy *npy)
{
    if (!take(cursor, '('))
        return no_header(cursor);
    bool has_comma = true;
    npy->ndim = 0;
    while (!take(cursor, ')')) {
        if (!has_comma)
            return no_header(cursor);
        if (npy->ndim == PST_MAX_NDIM)
            return fail(cursor, PST_ERROR_UNSUPPORTED, "has more than 8 dimensions");
        if (!take_dimension(cursor, &npy->shape[npy->ndim++]))
            return false;
        has_comma = take(cursor, ',');
    }
    return npy->ndim == 1 && !has_comma ? no_header(cursor) : true;
}

/* Parses the header's dictionary. Its three keys may come in any order. */
static bool take_dictionary(struct cursor *cursor, struct psti_npy *npy)
{
    static const char *const keys[] = {"descr", "fortran_order", "shape"};
    bool has[3] = {false, false, false}, has_comma = true;
    if (!take(cursor, '{'))
        return no_header(cursor);
    while (!take(cursor, '}')) {
        const char *key = NULL;
        size_t nbytes = 0, i = 0;
        if (!has_comma || !take_string(cursor, &key, &nbytes) || !take(cursor, ':'))
            return no_header(cursor);
        while (i < 3 && !(strlen(keys[i]) == nbytes && memcmp(keys[i], key, nbytes) == 0))
            i++;
        if (i == 3 || has[i])
            return no_header(cursor);
        has[i] = true;
        if (!(i == 0   ? take_dtype(cursor, npy)
              : i == 1 ? take_order(cursor)
                       : take_shape(cursor, npy)))
            return false;
        has_comma = take(cursor, ',');
    }
    return has[0] && has[1] && has[2] ? true : no_header(cursor);
}

/* True if the elements take exactly the bytes from npy->offset to the end of the file. */
static bool fills(const struct psti_npy *npy, uint64_t nbytes)
{
    uint64_t product = pst_dtype_nbytes(npy->dtype);
    for (int i = 0; i < npy->ndim; i++)
        if (npy->shape[i] == 0)
            return nbytes == npy->offset;
    for (int i = 0; i < npy->ndim; i++)
        if (!psti_mul_u64(product, npy->shape[i], &product))
            return false;
    return product == nbytes - npy->offset;
}

enum pst_status psti_containers_npy_dtype(const char *text, enum pst_dtype *dtype,
                                          const char **problem)
{
    struct cursor cursor = {.at = text, .end = text};
    (void)find_dtype(&cursor, text, strlen(text), dtype);
    *problem = cursor.problem;
    return cursor.status;
}

enum pst_status psti_containers_npy_parse(const uint8_t *head, size_t n_head, uint64_t nbytes,
                                          struct psti_npy *npy, const char **problem)
{
    *npy = (struct psti_npy){0};
    *problem = "is no numpy file";
    if (n_head < 12 || memcmp(head, "\x93NUMPY", 6) != 0)
        return PST_ERROR_CORRUPT;
    bool is_first = head[6] == 1;
    if (head[6] < 1 || head[6] > 3 || head[7] != 0) {
        *problem = "is a numpy file of an unknown version";
        return PST_ERROR_UNSUPPORTED;
    }
    size_t begin = is_first ? 10 : 12;
    uint64_t n = is_first ? psti_load_u16(head + 8) : psti_load_u32(head + 8);
    npy->offset = begin + n;
    if (npy->offset > nbytes) {
        *problem = "ends within its header";
        return PST_ERROR_CORRUPT;
    }
    struct cursor cursor = {.at = (const char *)head + begin, .end = (const char *)head + n_head};
    cursor.is_cut = npy->offset > n_head;
    if (!cursor.is_cut)
        cursor.end = (const char *)head + npy->offset;
    if (take_dictionary(&cursor, npy) && cursor.at < cursor.end)
        (void)no_header(&cursor);
    if (cursor.status == PST_OK && !fills(npy, nbytes))
        (void)fail(&cursor, PST_ERROR_CORRUPT, "has not as many bytes as its shape says");
    *problem = cursor.problem;
    return cursor.status;
}
