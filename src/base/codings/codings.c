/* codings.c - the decoders of one thread, and the libraries that are loaded for them.
 *
 * In: stored bytes and their coding. Out: the decoded bytes. libzstd and liblz4 are loaded at run
 * time, because few data sets need them. Each is loaded once in a process. libzstd allocates by
 * malloc, because its functions for other allocators are not part of its stable interface. */
#include "base/codings/codings.h"

#include "base/alloc.h"
#include "base/fail.h"
#include "base/fault.h"
#include "base/inflate.h"

#include <dlfcn.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

/* Memory in bytes: of libdeflate's decompressor, and of the state of libzstd 1.5, with a reserve
 * for later versions. */
enum { DEFLATE_NBYTES = 12 << 10, ZSTD_NBYTES = 192 << 10 };

/* The functions of libzstd that are used: symbol, name of the member, result and arguments. */
#define ZSTD_LIST(F)                                                                               \
    F(ZSTD_createDCtx, create, void *, (void))                                                     \
    F(ZSTD_freeDCtx, close, size_t, (void *))                                                      \
    F(ZSTD_decompressDCtx, decode, size_t, (void *, void *, size_t, const void *, size_t))         \
    F(ZSTD_isError, is_error, unsigned, (size_t))                                                  \
    F(ZSTD_getErrorName, error_name, const char *, (size_t))

struct psti_codings {
    const char *room;
    struct psti_inflater *inflater; /* each decoder is NULL until it is needed */
    struct {
#define MEMBER(symbol, member, result, arguments) result(*member) arguments;
        ZSTD_LIST(MEMBER)
#undef MEMBER
        void *state;
    } zstd;
    psti_lz4_block *lz4;
};

uint64_t psti_codings_nbytes(uint32_t codings)
{
    return (codings & psti_codings_of(PST_CODING_DEFLATE) ? DEFLATE_NBYTES : 0) +
           (codings & psti_codings_of(PST_CODING_ZSTD) ? ZSTD_NBYTES : 0);
}

/* A library that is loaded at run time. */
struct library {
    /* "libzstd", its file name, its packages in Debian and Fedora */
    const char *name, *file, *package;
    const char *variable; /* environment variable that may name another file */
    const char *form;
};

static const struct library libzstd = {"libzstd", "libzstd.so.1",
                                       "libzstd1 (Debian, Ubuntu) or "
                                       "libzstd (Fedora, conda zstd)",
                                       "PENSTOCK_LIBZSTD", "Zstandard"};
static const struct library liblz4 = {"liblz4", "liblz4.so.1",
                                      "liblz4-1 (Debian, Ubuntu) or "
                                      "lz4-libs (Fedora, conda lz4-c)",
                                      "PENSTOCK_LIBLZ4", "LZ4"};

/* The error names the library in place of a module of Penstock. A missing library is no fault of a
 * sample, so on_error must not skip samples for it, which would hide the cause. */
static enum pst_status fail_library(const struct library *library, const char *why,
                                    struct pst_error *err)
{
    return psti_fail(err, PST_ERROR_UNSUPPORTED, library->name,
                     "data that are compressed with %s need %s: install the package %s (%s)",
                     library->form, library->name, library->package, why);
}

/* Loads the library. It stays loaded until the process ends (RTLD_NODELETE). */
static enum pst_status open_library(const struct library *library, void **handle,
                                    struct pst_error *err)
{
    const char *named = getenv(library->variable);
    const char *file = named != NULL && *named != '\0' ? named : library->file;
    *handle = dlopen(file, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
    if (*handle != NULL)
        return PST_OK;
    const char *why = dlerror();
    return fail_library(library, why != NULL ? why : file, err);
}

static enum pst_status open_zstd(struct psti_codings *codings, struct pst_error *err)
{
    void *handle = NULL;
    enum pst_status status = open_library(&libzstd, &handle, err);
    if (status != PST_OK)
        return status;
#define LOOK_UP(symbol, member, result, arguments)                                                 \
    *(void **)&codings->zstd.member = dlsym(handle, #symbol);                                      \
    if (codings->zstd.member == NULL)                                                              \
        status = fail_library(&libzstd, "it lacks the function " #symbol, err);
    ZSTD_LIST(LOOK_UP)
#undef LOOK_UP
    (void)dlclose(handle);
    if (status != PST_OK)
        return status;
    codings->zstd.state = psti_fault(PSTI_FAULT_ALLOC) ? NULL : codings->zstd.create();
    return codings->zstd.state != NULL ? PST_OK
                                       : psti_fail(err, PST_ERROR_MEMORY, codings->room,
                                                   "out of memory to decode Zstandard");
}

static enum pst_status open_lz4(struct psti_codings *codings, struct pst_error *err)
{
    void *handle = NULL;
    enum pst_status status = open_library(&liblz4, &handle, err);
    if (status != PST_OK)
        return status;
    *(void **)&codings->lz4 = dlsym(handle, "LZ4_decompress_safe_usingDict");
    (void)dlclose(handle);
    return codings->lz4 != NULL
               ? PST_OK
               : fail_library(&liblz4, "it lacks the function LZ4_decompress_safe_usingDict", err);
}

/* Creates the decoder of a coding if it does not exist yet. */
static enum pst_status make(struct psti_codings *codings, enum pst_coding coding,
                            struct pst_error *err)
{
    switch (coding) {
    case PST_CODING_DEFLATE:
        return codings->inflater != NULL
                   ? PST_OK
                   : psti_inflate_open(&codings->inflater, codings->room, err);
    case PST_CODING_ZSTD:
        return codings->zstd.state != NULL ? PST_OK : open_zstd(codings, err);
    case PST_CODING_LZ4:
        return codings->lz4 != NULL ? PST_OK : open_lz4(codings, err);
    default:
        return PST_OK;
    }
}

enum pst_status psti_codings_open(struct psti_codings **out, uint32_t codings, const char *room,
                                  struct pst_error *err)
{
    enum pst_status status = PST_OK;
    *out = psti_calloc(1, sizeof **out);
    if (*out == NULL)
        return psti_fail(err, PST_ERROR_MEMORY, room, "out of memory to decode items");
    (*out)->room = room;
    for (int i = PST_CODING_DEFLATE; i <= PST_CODING_PIECES && status == PST_OK; i++)
        if (codings & psti_codings_of((enum pst_coding)i))
            status = make(*out, (enum pst_coding)i, err);
    if (status != PST_OK)
        psti_codings_close(out);
    return status;
}

void psti_codings_close(struct psti_codings **codings)
{
    struct psti_codings *old = codings != NULL ? *codings : NULL;
    if (old == NULL)
        return;
    psti_inflate_close(&old->inflater);
    if (old->zstd.state != NULL)
        (void)old->zstd.close(old->zstd.state);
    psti_free(old);
    *codings = NULL;
}

static enum pst_status decode_zstd(struct psti_codings *codings, const void *in, size_t n_in,
                                   void *out, size_t n_out, struct pst_error *err)
{
    size_t n = codings->zstd.decode(codings->zstd.state, out, n_out, in, n_in);
    if (codings->zstd.is_error(n))
        return psti_fail(err, PST_ERROR_CORRUPT, codings->room,
                         "the Zstandard frames are damaged, or hold more than the %zu bytes that "
                         "are stated (%s)",
                         n_out, codings->zstd.error_name(n));
    return n == n_out
               ? PST_OK
               : psti_fail(err, PST_ERROR_CORRUPT, codings->room,
                           "the Zstandard frames hold %zu bytes, and %zu are stated", n, n_out);
}

enum pst_status psti_codings_decode(struct psti_codings *codings, enum pst_coding coding,
                                    const void *in, size_t n_in, void *out, size_t n_out,
                                    struct pst_error *err)
{
    uint8_t none;
    const char *problem = NULL;
    enum pst_status status = make(codings, coding, err);
    out = n_out > 0 ? out : &none;
    if (status != PST_OK)
        return status;
    switch (coding) {
    case PST_CODING_DEFLATE:
        return psti_inflate_raw(codings->inflater, in, n_in, out, n_out, err);
    case PST_CODING_ZSTD:
        return decode_zstd(codings, in, n_in, out, n_out, err);
    case PST_CODING_SNAPPY:
        problem = psti_snappy_decode(in, n_in, out, n_out);
        break;
    case PST_CODING_LZ4:
        problem = psti_lz4_decode(codings->lz4, in, n_in, out, n_out);
        break;
    case PST_CODING_PIECES:
        problem = psti_pieces_join(in, n_in, out, n_out);
        break;
    default:
        return psti_fail(err, PST_ERROR_UNSUPPORTED, codings->room,
                         "items with the coding %d cannot be decoded", (int)coding);
    }
    return problem == NULL ? PST_OK
                           : psti_fail(err, PST_ERROR_CORRUPT, codings->room, "%s", problem);
}
