/* fuzz_share_wire.c - reads any bytes as a message of the host service's protocol. What is accepted
 * is printed and parsed again, with the same result. Seeds: make_share_corpus.py. */
#include "share/share_cache_wire.h"
#include "share/share_control_wire.h"
#include "share/share_link.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t nbytes);

static uint8_t again[PSTI_MESSAGE_NBYTES];

static void try_hello(struct psti_wire_in in)
{
    struct psti_hello hello, second;
    if (psti_share_get_hello(&in, &hello, NULL) != PST_OK)
        return;
    struct psti_wire_out out = psti_share_begin(again);
    psti_share_put_hello(&out, &hello);
    struct psti_wire_in back = psti_share_body(again, out.nbytes);
    if (psti_share_get_hello(&back, &second, NULL) != PST_OK ||
        memcmp(&hello, &second, sizeof hello) != 0 ||
        psti_share_end(&back, "hello", NULL) != PST_OK)
        abort();
    (void)!psti_share_check_protocol(&hello, "client", NULL);
}

static void try_error(struct psti_wire_in in)
{
    struct pst_error err, second;
    psti_share_get_error(&in, &err);
    if (err.status == PST_OK || err.status == PST_END)
        abort();
    if (psti_share_end(&in, "error", NULL) != PST_OK)
        return;
    struct psti_wire_out out = psti_share_begin(again);
    psti_share_put_error(&out, &err);
    struct psti_wire_in back = psti_share_body(again, out.nbytes);
    psti_share_get_error(&back, &second);
    if (out.full || psti_share_end(&back, "error", NULL) != PST_OK ||
        memcmp(&err, &second, sizeof err) != 0)
        abort();
}

static void try_cache_open(struct psti_wire_in in)
{
    static struct psti_cache_open open;
    if (psti_share_get_cache_open(&in, &open, NULL) != PST_OK)
        return;
    if (!open.dataset.path[0] || open.dataset.n_masks > PST_MAX_FIELDS ||
        (open.dataset.n_masks > 0 && !open.dataset.has_labels) ||
        open.n_more >= PSTI_CACHE_SETS_MAX || (open.later && open.rule_nbytes > 0))
        abort();
    for (uint32_t i = 0; i < open.dataset.n_masks; i++)
        if (memchr(open.dataset.masks[i], 0, sizeof open.dataset.masks[i]) == NULL)
            abort();
}

static void try_cache_opened(struct psti_wire_in in)
{
    struct psti_cache_opened opened;
    if (psti_share_get_cache_opened(&in, &opened, NULL) != PST_OK)
        return;
    struct psti_wire_out out = psti_share_begin(again);
    psti_share_put_cache_opened(&out, &opened);
    if (out.nbytes != in.nbytes ||
        memcmp(again + PSTI_MESSAGE_HEAD_NBYTES, in.bytes + PSTI_MESSAGE_HEAD_NBYTES,
               in.nbytes - PSTI_MESSAGE_HEAD_NBYTES) != 0)
        abort();
}

static void try_cache_read(struct psti_wire_in in)
{
    struct psti_cache_want want;
    size_t n = 0;
    while (psti_share_get_cache_want(&in, &want))
        n++;
    if (!in.bad && n * PSTI_CACHE_WANT_NBYTES != in.nbytes - PSTI_MESSAGE_HEAD_NBYTES)
        abort();
}

static void try_cache_ready(struct psti_wire_in in)
{
    struct psti_cache_ready ready;
    enum pst_status status = psti_share_get_cache_ready(&in, &ready, NULL);
    if (ready.result < PSTI_CACHE_RESULT_HERE || ready.result > PSTI_CACHE_RESULT_FAILED ||
        (status == PST_OK && ready.result != PSTI_CACHE_RESULT_READ &&
         (ready.recoding || ready.nbytes_saved || ready.recode_ns)))
        abort();
}

static void try_cache_round(struct psti_wire_in in)
{
    struct psti_cache_round round;
    if (psti_share_get_cache_round(&in, &round, NULL) != PST_OK)
        return;
    struct psti_wire_out out = psti_share_begin(again);
    psti_share_put_cache_round(&out, &round);
    if (out.nbytes != in.nbytes ||
        memcmp(again + PSTI_MESSAGE_HEAD_NBYTES, in.bytes + PSTI_MESSAGE_HEAD_NBYTES,
               in.nbytes - PSTI_MESSAGE_HEAD_NBYTES) != 0)
        abort();
}

/* Parses a report, which is not a message but a block of bytes that follows the head here. */
static void try_report(struct psti_wire_in in)
{
    static struct pst_service_status status;
    static struct pst_service_set set;
    static struct pst_service_session session;
    psti_share_get_status(&in, &status);
    if (in.bad)
        return;
    for (uint32_t i = 0; i < status.n_sets && !in.bad; i++)
        psti_share_get_status_set(&in, &set);
    for (uint32_t i = 0; i < status.n_sessions && !in.bad; i++)
        psti_share_get_status_session(&in, &session);
    (void)!psti_share_end(&in, "status_is", NULL);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t nbytes)
{
    struct psti_message_head head;
    if (psti_share_parse_head(bytes, nbytes, &head, NULL) != PST_OK)
        return 0;
    if (head.nbytes != nbytes || head.n_fds > PSTI_MESSAGE_FDS)
        abort();
    struct psti_wire_in in = psti_share_body(bytes, nbytes);
    if (head.kind == PSTI_MESSAGE_HELLO || head.kind == PSTI_MESSAGE_WELCOME)
        try_hello(in);
    else if (head.kind == PSTI_MESSAGE_ERROR)
        try_error(in);
    else if (head.kind == PSTI_MESSAGE_CACHE_OPEN)
        try_cache_open(in);
    else if (head.kind == PSTI_MESSAGE_CACHE_OPENED)
        try_cache_opened(in);
    else if (head.kind == PSTI_MESSAGE_CACHE_READ)
        try_cache_read(in);
    else if (head.kind == PSTI_MESSAGE_CACHE_READY)
        try_cache_ready(in);
    else if (head.kind == PSTI_MESSAGE_CACHE_ROUND || head.kind == PSTI_MESSAGE_CACHE_ROUND_ENDED)
        try_cache_round(in);
    else if (head.kind == PSTI_MESSAGE_STATUS_IS)
        try_report(in);
    return 0;
}
