/* decode_audio_sndfile.c - decodes FLAC, Ogg and all other kinds that libsndfile knows, from
 * memory.
 *
 * libsndfile (LGPL 2.1 or later, https://libsndfile.github.io) is loaded at run time, so Penstock
 * builds and starts without it. Each open file has its own handle; threads share nothing.
 * libsndfile has no hooks for memory, so it does not allocate through base/alloc.h. */
#include "decode/audio/decode_audio_kinds.h"

#include "base/alloc.h"
#include "base/fail.h"
#include "decode/audio/decode_audio_bytes.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ROOM "decode"
#define INSTALL                                                                                    \
    "install the system's libsndfile (Debian: libsndfile1) or pip install 'penstock[audio]', or "  \
    "name its library by PENSTOCK_SNDFILE"

/* The part of the header sndfile.h that is used here. Its ABI has been stable since version
 * 1.0.0. */
struct sf_info {
    int64_t frames;
    int samplerate, channels, format, sections, seekable;
};
struct sf_virtual_io {
    int64_t (*get_filelen)(void *);
    int64_t (*seek)(int64_t, int, void *);
    int64_t (*read)(void *, int64_t, void *);
    int64_t (*write)(const void *, int64_t, void *);
    int64_t (*tell)(void *);
};
enum { MODE_READ = 0x10, TYPE_MASK = 0x0FFF0000, SUBTYPE_MASK = 0xFFFF, ERROR_BAD_FORMAT = 1 };

/* The functions of libsndfile that are used: symbol, name of the member, result and arguments. */
#define SNDFILE_LIST(F)                                                                            \
    F(sf_open_virtual, open_virtual, void *,                                                       \
      (struct sf_virtual_io *, int, struct sf_info *, void *))                                     \
    F(sf_close, close, int, (void *))                                                              \
    F(sf_seek, seek, int64_t, (void *, int64_t, int))                                              \
    F(sf_readf_float, readf_float, int64_t, (void *, float *, int64_t))                            \
    F(sf_strerror, strerror, const char *, (void *))                                               \
    F(sf_error, error, int, (void *))                                                              \
    F(sf_version_string, version_string, const char *, (void))

struct psti_sndfile {
#define MEMBER(symbol, member, result, arguments) result(*member) arguments;
    SNDFILE_LIST(MEMBER)
#undef MEMBER
    void *handle;
    const struct psti_audio *audio;
    struct psti_audio_piece pieces[PSTI_AUDIO_PIECES_MAX];
    size_t n_pieces;
    int64_t nbytes, at; /* length of all pieces together, and the read position in them */
    uint64_t next;      /* number of the sample that would be read next */
};

/* The "module" in errors about the library is its name, not decode. A missing library is no fault
 * of a sample, and a loader that skips bad samples would hide it by skipping every sample. */
#define LIBRARY "libsndfile"

static enum pst_status open_library(struct psti_sndfile *lib, struct pst_error *err)
{
    const char *named = getenv("PENSTOCK_SNDFILE");
    const char *name = named && *named ? named : "libsndfile.so.1";
    void *library = dlopen(name, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
    if (!library) {
        const char *why = dlerror();
        return psti_fail(err, PST_ERROR_UNSUPPORTED, LIBRARY,
                         "audio files other than WAV and MP3 need libsndfile: " INSTALL " (%s)",
                         why ? why : name);
    }
#define LOOK_UP(symbol, member, result, arguments)                                                 \
    *(void **)&lib->member = dlsym(library, #symbol);                                              \
    if (!lib->member)                                                                              \
        return psti_fail(err, PST_ERROR_UNSUPPORTED, LIBRARY, "%s has no %s: " INSTALL, name,      \
                         #symbol);
    SNDFILE_LIST(LOOK_UP)
#undef LOOK_UP
    (void)dlclose(library); /* RTLD_NODELETE keeps the library loaded for other handles */
    return PST_OK;
}

enum pst_status psti_decode_sndfile_find(struct pst_error *err)
{
    struct psti_sndfile lib;
    return open_library(&lib, err);
}

bool pst_audio_has_sndfile(char *version, size_t version_nbytes)
{
    struct psti_sndfile lib;
    struct pst_error err;
    enum pst_status status = open_library(&lib, &err);
    if (version)
        snprintf(version, version_nbytes, "%s", status == PST_OK ? lib.version_string() : err.text);
    return status == PST_OK;
}

static int64_t io_length(void *user) { return ((struct psti_sndfile *)user)->nbytes; }
static int64_t io_tell(void *user) { return ((struct psti_sndfile *)user)->at; }

static int64_t io_seek(int64_t offset, int whence, void *user)
{
    struct psti_sndfile *self = user;
    int64_t base = whence == SEEK_SET ? 0 : whence == SEEK_CUR ? self->at : self->nbytes, at;
    if (!__builtin_add_overflow(base, offset, &at) && at >= 0)
        self->at = at > self->nbytes ? self->nbytes : at;
    return self->at;
}

/* Copies bytes from self->at on, at most n, up to the end of the piece that holds them. Returns how
 * many bytes were copied. */
static int64_t read_piece(const struct psti_sndfile *self, uint8_t *to, int64_t n)
{
    uint64_t at = (uint64_t)self->at;
    const struct psti_audio_piece *piece = self->pieces;
    for (; at >= piece->nbytes; piece++)
        at -= piece->nbytes;
    n = (uint64_t)n > piece->nbytes - at ? (int64_t)(piece->nbytes - at) : n;
    if (piece->own)
        memcpy(to, piece->own + at, (size_t)n);
    else if (psti_decode_audio_bring(self->audio, piece->at + at, (uint64_t)n))
        memcpy(to, self->audio->bytes + piece->at + at, (size_t)n);
    else
        return 0; /* the callback that reads bytes reports the reason */
    return n;
}

static int64_t io_read(void *to, int64_t n, void *user)
{
    struct psti_sndfile *self = user;
    int64_t done = 0, left = self->nbytes - self->at;
    n = n < 0 ? 0 : n > left ? left : n;
    while (done < n) {
        int64_t got = read_piece(self, (uint8_t *)to + done, n - done);
        if (got == 0)
            break;
        done += got;
        self->at += got;
    }
    return done;
}

static int64_t io_write(const void *from, int64_t n, void *user)
{
    (void)from;
    (void)n;
    (void)user;
    return 0;
}

static void describe(const struct sf_info *sf, struct pst_audio_info *info)
{
    enum { PCM_S8 = 1, PCM_16 = 2, PCM_24 = 3, PCM_32 = 4, PCM_U8 = 5, FLOAT = 6, DOUBLE = 7 };
    static const uint8_t bits[] = {[PCM_S8] = 8, [PCM_16] = 16, [PCM_24] = 24, [PCM_32] = 32,
                                   [PCM_U8] = 8, [FLOAT] = 32,  [DOUBLE] = 64};
    unsigned subtype = (unsigned)sf->format & SUBTYPE_MASK;
    info->rate = (uint32_t)sf->samplerate;
    info->channels = (uint32_t)sf->channels;
    info->n_samples = (uint64_t)sf->frames;
    info->bits = subtype < sizeof bits ? bits[subtype] : 0;
    info->is_float = subtype == FLOAT || subtype == DOUBLE;
}

enum pst_status psti_decode_sndfile_open(struct psti_audio *audio,
                                         const struct psti_audio_piece *pieces, size_t n_pieces,
                                         struct pst_error *err)
{
    struct psti_sndfile *self = audio->sndfile = psti_calloc(1, sizeof *self);
    struct sf_virtual_io io = {io_length, io_seek, io_read, io_write, io_tell};
    struct sf_info sf = {0};
    const char *kind = audio->info.codec;
    if (!self)
        return psti_fail(err, PST_ERROR_MEMORY, ROOM, "no memory to decode an audio file");
    enum pst_status status = open_library(self, err);
    if (status != PST_OK)
        return status;
    self->audio = audio;
    self->n_pieces = n_pieces;
    for (size_t i = 0; i < n_pieces; i++) {
        self->pieces[i] = pieces[i];
        self->nbytes += (int64_t)pieces[i].nbytes;
    }
    self->handle = self->open_virtual(&io, MODE_READ, &sf, self);
    if (!self->handle) {
        bool unknown = self->error(NULL) == ERROR_BAD_FORMAT && strcmp(kind, "audio") == 0;
        return psti_fail(err, unknown ? PST_ERROR_UNSUPPORTED : PST_ERROR_CORRUPT, ROOM,
                         "libsndfile %s cannot open it: %s", self->version_string(),
                         self->strerror(NULL));
    }
    if (sf.frames < 0 || sf.frames > INT64_MAX / 4096 || sf.samplerate <= 0 || sf.channels <= 0 ||
        sf.channels > 1024)
        return psti_fail(err, PST_ERROR_CORRUPT, ROOM, "%lld samples of %d channels, %d per second",
                         (long long)sf.frames, sf.channels, sf.samplerate);
    describe(&sf, &audio->info);
    return PST_OK;
}

enum pst_status psti_decode_sndfile_read(struct psti_audio *audio, uint64_t first, size_t n,
                                         float *out, struct pst_error *err)
{
    struct psti_sndfile *self = audio->sndfile;
    if (first != self->next && self->seek(self->handle, (int64_t)first, SEEK_SET) != (int64_t)first)
        return psti_fail(err, PST_ERROR_CORRUPT, ROOM, "sample %llu of %llu cannot be found: %s",
                         (unsigned long long)first, (unsigned long long)audio->info.n_samples,
                         self->strerror(self->handle));
    int64_t got = self->readf_float(self->handle, out, (int64_t)n);
    /* libsndfile may have skipped a damaged block silently */
    bool wrong = self->error(self->handle) != 0;
    self->next = first + (uint64_t)(got > 0 ? got : 0);
    if (got == (int64_t)n && !wrong)
        return PST_OK;
    return psti_fail(err, wrong ? PST_ERROR_CORRUPT : PST_ERROR_TRUNCATED, ROOM,
                     wrong ? "the sound is damaged before sample %llu of %llu (%s)"
                           : "the sound ends at sample %llu of %llu (%s)",
                     (unsigned long long)self->next, (unsigned long long)audio->info.n_samples,
                     wrong ? self->strerror(self->handle) : "no error stated");
}

void psti_decode_sndfile_close(struct psti_audio *audio)
{
    if (audio->sndfile->handle)
        (void)audio->sndfile->close(audio->sndfile->handle);
    psti_free(audio->sndfile);
    audio->sndfile = NULL;
}
