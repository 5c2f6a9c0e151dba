/* decode_audio_ogg.c - decodes Ogg files by libsndfile, one link (logical stream) after the other.
 *
 * In: all bytes of a file. Out: interleaved floats for any range of samples. psti_decode_ogg_walk
 * has checked that all pages are complete. libsndfile is given one link at a time, or one segment
 * of an Opus link after header pages that this module writes. So its own handling of several links
 * is never used. An open file belongs to one thread. */
#include "decode/audio/decode_audio_kinds.h"

#include "base/alloc.h"
#include "base/fail.h"
#include "decode/audio/decode_audio_tags.h"
#include "decode/audio/decode_ogg.h"

#include <string.h>

#define ROOM "decode"

enum {
    SKIP_VALUES = 2048,
    /* a gap of this many samples is skipped; a shorter one is decoded and discarded */
    FAR = 4 * PSTI_VORBIS_SEGMENT,
    OPUS_RATE = 48000
};

struct psti_audio_ogg {
    struct psti_ogg_walk walk;
    uint64_t *n_samples; /* number of samples of each link */
    size_t i_link;       /* index of the link that is open */
    uint64_t next;       /* sample that is read next, counted from the start of the open part */
    uint64_t begin;      /* sample of the link at which the open part begins */
    uint64_t place_at;   /* Opus: offset of the page at which the open part begins */
    uint8_t *head;       /* header pages, written here, at the start of the open part */
};

static uint32_t opus_factor(const struct psti_audio *audio) { return OPUS_RATE / audio->info.rate; }

static const struct psti_ogg_place *place_of(const struct psti_ogg_link *link, uint64_t i_segment)
{
    return &link->places[i_segment < link->n_places ? i_segment : link->n_places - 1];
}

/* Lists the pieces that libsndfile reads as one file: header pages written here, then the link's
 * pages from a given place on. */
static enum pst_status begin_at(struct psti_audio *audio, const struct psti_ogg_link *link,
                                const struct psti_ogg_place *place,
                                struct psti_audio_piece pieces[2], struct pst_error *err)
{
    struct psti_audio_ogg *self = audio->ogg;
    uint8_t *head = psti_realloc(self->head, (size_t)psti_decode_ogg_head_nbytes(link));
    if (!head)
        return psti_fail(err, PST_ERROR_MEMORY, ROOM, "no memory to decode an audio file");
    self->head = head;
    pieces[0] = (struct psti_audio_piece){
        .own = head, .nbytes = psti_decode_ogg_head(audio->bytes, link, place, head)};
    pieces[1] = (struct psti_audio_piece){.at = place->at, .nbytes = link->end - place->at};
    return PST_OK;
}

static enum pst_status check_same(const struct psti_audio *audio,
                                  const struct pst_audio_info *before, struct pst_error *err)
{
    size_t i = audio->ogg->i_link;
    if (before->rate == 0 ||
        (before->rate == audio->info.rate && before->channels == audio->info.channels))
        return PST_OK;
    return psti_fail_at(err, PST_ERROR_CORRUPT, ROOM, NULL,
                        (int64_t)audio->ogg->walk.links[i].begin,
                        "stream %zu of the file has %u samples per second and %u channels, the "
                        "first %u and %u",
                        i, audio->info.rate, audio->info.channels, before->rate, before->channels);
}

/* Opens a part of the link by libsndfile: all pages from the start place of a segment on. */
static enum pst_status open_part(struct psti_audio *audio, size_t i_link, uint64_t i_segment,
                                 struct pst_error *err)
{
    struct psti_audio_ogg *self = audio->ogg;
    const struct psti_ogg_link *link = &self->walk.links[i_link];
    struct psti_audio_piece pieces[2] = {{.at = link->begin, .nbytes = link->end - link->begin}};
    const struct pst_audio_info before = audio->info;
    bool opus = link->codec == PSTI_OGG_OPUS, later = opus || (i_segment > 0 && link->n_places > 1);
    const struct psti_ogg_place *place = later ? place_of(link, i_segment) : NULL;
    enum pst_status status = PST_OK;
    if (audio->sndfile)
        psti_decode_sndfile_close(audio);
    self->i_link = i_link;
    self->place_at = later ? place->at : 0;
    self->next = self->begin = 0;
    if (later)
        status = begin_at(audio, link, place, pieces, err);
    if (status == PST_OK)
        status = psti_decode_sndfile_open(audio, pieces, later ? 2 : 1, err);
    if (status == PST_OK)
        status = check_same(audio, &before, err);
    if (status != PST_OK || !later)
        return status;
    if (opus)
        self->begin = (place->position - link->first_position) / opus_factor(audio);
    else if (self->n_samples[i_link] < audio->info.n_samples)
        return psti_fail(err, PST_ERROR_CORRUPT, ROOM, "positions of pages are not in order");
    else
        self->begin = self->n_samples[i_link] - audio->info.n_samples;
    return PST_OK;
}

static uint64_t opus_samples(const struct psti_audio *audio, const struct psti_ogg_link *link)
{
    uint64_t all = link->last_position - link->first_position;
    return all > link->pre_skip ? (all - link->pre_skip) / opus_factor(audio) : 0;
}

/* Opens a link by libsndfile to find its number of samples. */
static enum pst_status measure(struct psti_audio *audio, size_t i_link, struct pst_error *err)
{
    struct psti_audio_ogg *self = audio->ogg;
    const struct psti_ogg_link *link = &self->walk.links[i_link];
    if (link->codec == PSTI_OGG_OPUS && link->n_places == 0)
        return psti_fail_at(err, PST_ERROR_CORRUPT, ROOM, NULL, (int64_t)link->begin,
                            "a stream of Opus without sound");
    enum pst_status status = open_part(audio, i_link, 0, err);
    if (status == PST_OK)
        self->n_samples[i_link] =
            link->codec == PSTI_OGG_OPUS ? opus_samples(audio, link) : audio->info.n_samples;
    return status;
}

enum pst_status psti_decode_ogg_open(struct psti_audio *audio, struct pst_error *err)
{
    struct psti_audio_ogg *self = audio->ogg = psti_calloc(1, sizeof *self);
    uint64_t n_samples = 0;
    if (!self)
        return psti_fail(err, PST_ERROR_MEMORY, ROOM, "no memory to decode an audio file");
    enum pst_status status = psti_decode_sndfile_find(err);
    if (status == PST_OK)
        status = psti_decode_ogg_walk(audio->bytes,
                                      psti_decode_audio_without_tags(audio->bytes, audio->nbytes),
                                      &self->walk, err);
    if (status != PST_OK)
        return status;
    self->n_samples = psti_alloc_array(self->walk.n_links, sizeof *self->n_samples);
    if (!self->n_samples)
        return psti_fail(err, PST_ERROR_MEMORY, ROOM, "no memory to decode an audio file");
    for (size_t i = 0; status == PST_OK && i < self->walk.n_links; i++) {
        status = measure(audio, i, err);
        n_samples += status == PST_OK ? self->n_samples[i] : 0;
    }
    audio->info.n_samples = n_samples;
    return status;
}

/* Reads n samples of the open part from its sample `first` on. The samples from *at up to `first`
 * are decoded and discarded. */
static enum pst_status read_on(struct psti_audio *audio, uint64_t *at, uint64_t first, size_t n,
                               float *out, struct pst_error *err)
{
    float dropped[SKIP_VALUES];
    enum pst_status status = PST_OK;
    while (status == PST_OK && *at < first) {
        uint64_t step = SKIP_VALUES / audio->info.channels, left = first - *at;
        step = left < step ? left : step;
        status = psti_decode_sndfile_read(audio, *at, (size_t)step, dropped, err);
        *at += step;
    }
    if (status == PST_OK)
        status = psti_decode_sndfile_read(audio, *at, n, out, err);
    /* UINT64_MAX makes a later call reopen the part */
    *at = status == PST_OK ? *at + n : UINT64_MAX;
    return status;
}

/* Reads n samples of an Opus link, segment by segment. */
static enum pst_status read_opus(struct psti_audio *audio, size_t i_link, uint64_t first, size_t n,
                                 float *out, struct pst_error *err)
{
    struct psti_audio_ogg *self = audio->ogg;
    const struct psti_ogg_link *link = &self->walk.links[i_link];
    uint64_t per = PSTI_OPUS_SEGMENT / opus_factor(audio);
    uint64_t at = first + link->pre_skip / opus_factor(audio);
    enum pst_status status = PST_OK;
    while (status == PST_OK && n > 0) {
        uint64_t i_segment = at / per, left = (i_segment + 1) * per - at;
        size_t step = left < n ? (size_t)left : n;
        if (!audio->sndfile || self->i_link != i_link ||
            self->place_at != place_of(link, i_segment)->at || at < self->begin ||
            at - self->begin < self->next)
            status = open_part(audio, i_link, i_segment, err);
        if (status == PST_OK)
            status = read_on(audio, &self->next, at - self->begin, step, out, err);
        out += step * audio->info.channels;
        at += step;
        n -= step;
    }
    return status;
}

/* Reads n samples of a Vorbis link. If `first` lies a little after the last sample read, the open
 * part is read on. Otherwise the part with the segment of `first` is opened. */
static enum pst_status read_vorbis(struct psti_audio *audio, size_t i_link, uint64_t first,
                                   size_t n, float *out, struct pst_error *err)
{
    struct psti_audio_ogg *self = audio->ogg;
    const struct psti_ogg_link *link = &self->walk.links[i_link];
    uint64_t position = first + link->last_position - self->n_samples[i_link];
    uint64_t i_segment = position < link->first_position
                             ? 0
                             : (position - link->first_position) / PSTI_VORBIS_SEGMENT;
    enum pst_status status = PST_OK;
    if (!audio->sndfile || self->i_link != i_link || first < self->begin ||
        first - self->begin < self->next || first - self->begin - self->next > FAR)
        status = open_part(audio, i_link, i_segment, err);
    if (status == PST_OK && first < self->begin)
        status = open_part(audio, i_link, 0, err);
    return status == PST_OK ? read_on(audio, &self->next, first - self->begin, n, out, err)
                            : status;
}

static enum pst_status read_link(struct psti_audio *audio, size_t i_link, uint64_t first, size_t n,
                                 float *out, struct pst_error *err)
{
    struct psti_audio_ogg *self = audio->ogg;
    enum psti_ogg_codec codec = self->walk.links[i_link].codec;
    enum pst_status status = PST_OK;
    if (codec == PSTI_OGG_OPUS)
        return read_opus(audio, i_link, first, n, out, err);
    if (codec == PSTI_OGG_VORBIS)
        return read_vorbis(audio, i_link, first, n, out, err);
    if (!audio->sndfile || self->i_link != i_link)
        status = open_part(audio, i_link, 0, err);
    return status == PST_OK ? psti_decode_sndfile_read(audio, first, n, out, err) : status;
}

enum pst_status psti_decode_ogg_read(struct psti_audio *audio, uint64_t first, size_t n, float *out,
                                     struct pst_error *err)
{
    struct psti_audio_ogg *self = audio->ogg;
    uint64_t n_samples = audio->info.n_samples;
    enum pst_status status = PST_OK;
    for (size_t i = 0; status == PST_OK && n > 0 && i < self->walk.n_links; i++) {
        uint64_t here = self->n_samples[i];
        if (first >= here) {
            first -= here;
            continue;
        }
        size_t step = here - first < n ? (size_t)(here - first) : n;
        status = read_link(audio, i, first, step, out, err);
        out += step * audio->info.channels;
        n -= step;
        first = 0;
    }
    audio->info.n_samples = n_samples; /* restored: reading a link has set its own */
    return status;
}

void psti_decode_ogg_close(struct psti_audio *audio)
{
    psti_decode_ogg_walk_free(&audio->ogg->walk);
    psti_free(audio->ogg->n_samples);
    psti_free(audio->ogg->head);
    psti_free(audio->ogg);
    audio->ogg = NULL;
}
