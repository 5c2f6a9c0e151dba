/* share_host.c - the handle of the host cache. Each request opens a connection of its own, so a
 * lost service cannot break the handle. */
#include "share/share_host.h"

#include "base/alloc.h"
#include "base/fail.h"
#include "base/options.h"
#include "share/share_control_wire.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static void put_path(struct psti_wire_out *out, const void *ctx) { psti_share_put_text(out, ctx); }

/* Makes a path absolute, because the service has another current directory. */
static enum pst_status make_absolute(const char *path, char absolute[PATH_MAX],
                                     struct pst_error *err)
{
    char here[PATH_MAX] = "";
    if (path[0] != '/' && !getcwd(here, sizeof here))
        return psti_fail(err, PST_ERROR_IO, "share", "the current directory is not known");
    int n = path[0] == '/' ? snprintf(absolute, PATH_MAX, "%s", path)
                           : snprintf(absolute, PATH_MAX, "%s/%s", here, path);
    return n < PATH_MAX ? PST_OK
                        : psti_fail(err, PST_ERROR_ARGUMENT, "share", "the path is too long");
}

/* Sends a request to save or load the cache, with the file's path. The service answers both with a
 * report. */
static enum pst_status ask_for_file(const struct psti_share_host *host, enum psti_message_kind kind,
                                    const char *path, struct pst_cache_file_report *report,
                                    struct pst_error *err)
{
    char absolute[PATH_MAX];
    struct psti_message *message = psti_alloc(sizeof *message);
    enum pst_status status =
        message ? make_absolute(path, absolute, err)
                : psti_fail(err, PST_ERROR_MEMORY, "share", "no memory for a message");
    if (status == PST_OK)
        status = psti_share_request(host->path, kind, put_path, absolute, PSTI_MESSAGE_FILE_IS,
                                    &host->stop, message, err);
    if (status == PST_OK) {
        struct psti_wire_in in = psti_share_message_body(message);
        psti_share_get_file_report(&in, report);
        status = psti_share_end(&in, "file_is", err);
        psti_share_message_close(message);
    }
    psti_free(message);
    return status;
}

static enum pst_status save(void *ctx, const char *path, struct pst_cache_file_report *report,
                            struct pst_error *err)
{
    return ask_for_file(ctx, PSTI_MESSAGE_SAVE, path, report, err);
}

static enum pst_status load(void *ctx, const char *path, struct pst_cache_file_report *report,
                            struct pst_error *err)
{
    return ask_for_file(ctx, PSTI_MESSAGE_LOAD, path, report, err);
}

/* Fills in the cache's figures; zeros if no service answers. */
static void get_stats(void *ctx, struct pst_cache_stats *stats)
{
    const struct psti_share_host *host = ctx;
    struct pst_service_status status;
    pst_service_report *report;
    memset(stats, 0, sizeof *stats);
    if (pst_service_report_open(host->path, &report, NULL) != PST_OK)
        return;
    pst_service_report_status(report, &status, sizeof status);
    *stats = (struct pst_cache_stats){.nbytes = status.cache_nbytes,
                                      .nbytes_used = status.cache_nbytes_used,
                                      .n_items = status.n_items,
                                      .n_datasets = status.n_sets,
                                      .n_refused = status.n_refused};
    pst_service_report_close(&report);
}

static const struct psti_cache_remote_ops ops = {
    .close = psti_free, .stats = get_stats, .save = save, .load = load};

enum pst_status pst_cache_open_host(const struct pst_cache_host_options *options, pst_cache **out,
                                    struct pst_error *err)
{
    struct pst_cache_host_options full;
    int fd = -1;
    if (!out)
        return psti_fail(err, PST_ERROR_ARGUMENT, "share", "out is NULL");
    *out = NULL;
    struct psti_share_host *host = psti_calloc(1, sizeof *host);
    enum pst_status status = psti_options_copy(&full, sizeof full, options, "share", err);
    if (status == PST_OK && !host)
        status = psti_fail(err, PST_ERROR_MEMORY, "share", "no memory for the host cache");
    if (status == PST_OK)
        status = psti_share_socket_path(full.socket, host->path, err);
    if (status == PST_OK) {
        host->strict = full.strict;
        host->greet_ns = full.later ? PSTI_LINK_GREET_NS : PSTI_LINK_WAIT_NS;
        host->stop = (struct psti_share_stop){full.interrupt, full.interrupt_ctx};
    }
    if (status == PST_OK && !full.later)
        status = psti_share_connect_or_start(host->path, full.program, PSTI_SESSION_CONTROL,
                                             PSTI_LINK_WAIT_NS, &host->stop, &fd, err);
    if (fd >= 0)
        close(fd);
    if (status == PST_OK)
        status = psti_cache_open_remote(&ops, host, out, err);
    if (status != PST_OK)
        psti_free(host);
    return status;
}

const struct psti_share_host *psti_share_host(const pst_cache *cache)
{
    return psti_cache_remote(cache);
}

void psti_share_say(const struct pst_error *err, char *text, size_t capacity)
{
    char buffer[128];
    const char *reason = err->os_error ? strerror_r(err->os_error, buffer, sizeof buffer) : NULL;
    snprintf(text, capacity, "%s%s%s%s", err->text, reason ? " (" : "", reason ? reason : "",
             reason ? ")" : "");
}

bool psti_share_goes_on(enum pst_status status)
{
    switch (status) {
    case PST_ERROR_IO:
    case PST_ERROR_LIMIT:
    case PST_ERROR_MEMORY:
    case PST_ERROR_NO_SPACE:
    case PST_ERROR_BUSY:
    case PST_ERROR_CORRUPT:
    case PST_ERROR_NOT_FOUND:
    case PST_ERROR_UNSUPPORTED:
        return true;
    default:
        return false;
    }
}
