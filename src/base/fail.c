/* fail.c - fills struct pst_error and prints it as one line.
 *
 * It allocates nothing and takes no locks, so an error can be reported when nothing else works. A
 * caller that knows more than the failed function (the sample, the data set) adds it on the way
 * up. */
#include "base/fail.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#undef psti_fail
#undef psti_fail_at
#undef psti_fail_os

void pst_error_clear(struct pst_error *err)
{
    if (!err)
        return;
    memset(err, 0, sizeof *err);
    err->sample = -1;
    err->offset = -1;
}

/* Copies `text` into `out`. If it is too long, its end is kept, because the end of a path tells the
 * most. */
static void copy_end(char *out, size_t capacity, const char *text)
{
    size_t length = strlen(text);
    if (length < capacity) {
        memcpy(out, text, length + 1);
        return;
    }
    memcpy(out, "...", 3);
    memcpy(out + 3, text + length - (capacity - 4), capacity - 3);
}

enum pst_status psti_fail_args(struct pst_error *err, enum pst_status status, const char *room,
                               const char *file, int64_t offset, const char *format, va_list args)
{
    if (!err)
        return status;
    pst_error_clear(err);
    err->status = status;
    err->offset = offset;
    copy_end(err->room, sizeof err->room, room);
    if (file)
        copy_end(err->file, sizeof err->file, file);
    vsnprintf(err->text, sizeof err->text, format, args);
    return status;
}

enum pst_status psti_fail(struct pst_error *err, enum pst_status status, const char *room,
                          const char *format, ...)
{
    va_list args;
    va_start(args, format);
    psti_fail_args(err, status, room, NULL, -1, format, args);
    va_end(args);
    return status;
}

enum pst_status psti_fail_at(struct pst_error *err, enum pst_status status, const char *room,
                             const char *file, int64_t offset, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    psti_fail_args(err, status, room, file, offset, format, args);
    va_end(args);
    return status;
}

static enum pst_status status_of_os_error(int os_error)
{
    switch (os_error) {
    case ENOSPC:
    case EDQUOT:
        return PST_ERROR_NO_SPACE;
    case ENOMEM:
        return PST_ERROR_MEMORY;
    case ENOENT:
    case ENOTDIR:
        return PST_ERROR_NOT_FOUND;
    case EEXIST:
        return PST_ERROR_EXISTS;
    default:
        return PST_ERROR_IO;
    }
}

enum pst_status psti_fail_os(struct pst_error *err, int os_error, const char *room,
                             const char *file, int64_t offset, const char *format, ...)
{
    enum pst_status status = status_of_os_error(os_error);
    va_list args;
    va_start(args, format);
    psti_fail_args(err, status, room, file, offset, format, args);
    va_end(args);
    if (err)
        err->os_error = os_error;
    return status;
}

void psti_error_set_file(struct pst_error *err, const char *file)
{
    if (err)
        copy_end(err->file, sizeof err->file, file);
}

void psti_error_set_dataset(struct pst_error *err, const char *dataset)
{
    if (err)
        copy_end(err->dataset, sizeof err->dataset, dataset);
}

void psti_error_set_codec(struct pst_error *err, const char *codec)
{
    if (err)
        copy_end(err->codec, sizeof err->codec, codec);
}

void psti_text_add(struct psti_text *text, const char *format, ...)
{
    size_t left = text->length < text->capacity ? text->capacity - text->length : 0;
    va_list args;
    va_start(args, format);
    int n = vsnprintf(left ? text->buffer + text->length : NULL, left, format, args);
    va_end(args);
    if (n > 0)
        text->length += (size_t)n;
}

size_t pst_error_format(const struct pst_error *err, char *buffer, size_t capacity)
{
    struct psti_text line = {buffer, capacity, 0};
    if (capacity)
        buffer[0] = '\0';
    if (err->dataset[0])
        psti_text_add(&line, "data set '%s', ", err->dataset);
    if (err->sample >= 0 && err->source_sample_plus_1 > 0)
        psti_text_add(&line, "sample %llu (%lld of the mixture), ",
                      (unsigned long long)err->source_sample_plus_1 - 1, (long long)err->sample);
    else if (err->sample >= 0)
        psti_text_add(&line, "sample %lld, ", (long long)err->sample);
    if (err->file[0])
        psti_text_add(&line, "file '%s', ", err->file);
    if (err->offset >= 0)
        psti_text_add(&line, "offset %lld, ", (long long)err->offset);
    if (err->codec[0])
        psti_text_add(&line, "codec %s, ", err->codec);
    if (line.length >= 2) {
        line.length -= 2;
        psti_text_add(&line, ": ");
    }
    psti_text_add(&line, "%s", err->text[0] ? err->text : pst_status_text(err->status));
    if (err->os_error) {
        char os_text[128] = "";
        const char *text = strerror_r(err->os_error, os_text, sizeof os_text);
        psti_text_add(&line, " (%s)", text);
    }
    return line.length;
}
