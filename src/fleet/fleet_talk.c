/* fleet_talk.c - what a server's thread says to its server, through libmemcached.
 *
 * A handle of libmemcached has one server and one connection, and is used by one thread. It is
 * freed after any error, so that no late answer is ever taken for another request's. The lock is
 * held only to look at requests, which the watcher may take away at any time; never while the
 * library waits. Buffers of requests are written by this file alone, after a value was checked. */
#include "fleet/fleet_int.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static void note_error(struct psti_fleet_server *server, const char *what, unsigned result)
{
    const char *text = server->handle ? server->mc.error_text(server->handle, result) : "no memory";
    pthread_mutex_lock(&server->lock);
    snprintf(server->error, sizeof server->error, "%s: %s", what, text ? text : "unknown error");
    pthread_mutex_unlock(&server->lock);
}

void psti_fleet_talk_close(struct psti_fleet_server *server)
{
    if (server->result)
        server->mc.result_free(server->result);
    if (server->handle)
        server->mc.free(server->handle);
    server->result = NULL;
    server->handle = NULL;
}

static void set_behaviors(struct psti_fleet_server *server)
{
    const struct psti_mc *mc = &server->mc;
    uint64_t us = (uint64_t)server->timeout_ns / 1000, ms = us / 1000 ? us / 1000 : 1;
    mc->set_behavior(server->handle, PSTI_MC_TCP_NODELAY, 1);
    mc->set_behavior(server->handle, PSTI_MC_POLL_TIMEOUT, ms);
    mc->set_behavior(server->handle, PSTI_MC_CONNECT_TIMEOUT, ms);
    mc->set_behavior(server->handle, PSTI_MC_SEND_TIMEOUT, us);
    mc->set_behavior(server->handle, PSTI_MC_RECEIVE_TIMEOUT, us);
    if (server->login.user[0] && server->login.kind == PST_FLEET_AUTH_SASL)
        mc->set_behavior(server->handle, PSTI_MC_BINARY_PROTOCOL, 1);
}

/* The text protocol's login is a `set` of "user password" to any key. */
static unsigned log_in(struct psti_fleet_server *server)
{
    const struct psti_fleet_login *login = &server->login;
    char text[sizeof login->user + sizeof login->password + 2];
    int n = snprintf(text, sizeof text, "%s %s", login->user, login->password);
    return server->mc.set(server->handle, "penstock", 8, text, (size_t)n, 0, 0);
}

/* Asks for a key that nobody has. A server that wants a login answers `version` without one. */
static unsigned try_get(struct psti_fleet_server *server)
{
    static const char *const keys[] = {"pst1:probe"};
    static const size_t key_nbytes[] = {sizeof "pst1:probe" - 1};
    unsigned result = server->mc.mget(server->handle, keys, key_nbytes, 1);
    while (result == PSTI_MC_SUCCESS && server->mc.fetch(server->handle, server->result, &result) &&
           result == PSTI_MC_SUCCESS)
        ;
    return result == PSTI_MC_END || result == PSTI_MC_NOT_FOUND ? PSTI_MC_SUCCESS : result;
}

bool psti_fleet_talk_connect(struct psti_fleet_server *server)
{
    const struct psti_mc *mc = &server->mc;
    const struct psti_fleet_login *login = &server->login;
    const char *step = "cannot connect";
    unsigned result = PSTI_MC_SUCCESS;
    psti_fleet_talk_close(server);
    server->handle = mc->create(NULL);
    if (server->handle)
        server->result = mc->result_create(server->handle, (void *)server->result_memory);
    if (!server->result) {
        note_error(server, "no handle", result);
        return false;
    }
    set_behaviors(server);
    if (login->user[0] && login->kind == PST_FLEET_AUTH_SASL)
        result = mc->set_sasl(server->handle, login->user, login->password);
    if (result == PSTI_MC_SUCCESS)
        result = server->address.port
                     ? mc->server_add(server->handle, server->address.host, server->address.port)
                     : mc->server_add_unix(server->handle, server->address.host);
    if (result == PSTI_MC_SUCCESS && login->user[0] && login->kind == PST_FLEET_AUTH_ASCII) {
        step = "cannot log in";
        result = log_in(server);
    }
    if (result == PSTI_MC_SUCCESS)
        result = mc->ask_version(server->handle);
    if (result == PSTI_MC_SUCCESS) {
        step = "cannot ask it";
        result = try_get(server);
    }
    if (result == PSTI_MC_SUCCESS)
        return true;
    note_error(server, step, result);
    psti_fleet_talk_close(server);
    return false;
}

/* Where the next key of the batch is. */
struct place {
    uint32_t i_get, part;
};

/* Writes keys of parts not asked for yet. Those that were taken away are left out. Takes the lock.
 */
static uint32_t write_keys(struct psti_fleet_server *server, struct place *place)
{
    uint32_t n = 0;
    pthread_mutex_lock(&server->lock);
    while (n < PSTI_FLEET_KEYS && place->i_get < server->n_batch) {
        const struct psti_fleet_get *get = server->batch[place->i_get];
        if (!get || place->part >= psti_format_fleet_n_parts(get->nbytes, server->part_nbytes)) {
            *place = (struct place){place->i_get + 1, 0};
            continue;
        }
        const struct psti_fleet_name name =
            psti_fleet_set_name(get->state.set, get->sample, get->i_item);
        struct psti_fleet_key *key = &server->keys[n++];
        key->nbytes = psti_format_fleet_key(&name, place->part++, key->text);
        key->i_get = place->i_get;
        key->key_hash = get->state.key_hash;
        key->is_here = false;
    }
    pthread_mutex_unlock(&server->lock);
    return n;
}

/* Values come in the order of the keys, from `*next` on, unless the server lies. */
static struct psti_fleet_key *find_key(struct psti_fleet_server *server, uint32_t n, uint32_t *next)
{
    const char *text = server->mc.result_key(server->result);
    size_t nbytes = server->mc.result_key_nbytes(server->result);
    for (uint32_t i = 0; text && i < n; i++) {
        struct psti_fleet_key *key = &server->keys[(*next + i) % n];
        if (key->is_here || key->nbytes != nbytes || memcmp(key->text, text, nbytes) != 0)
            continue;
        *next = (*next + i + 1) % n;
        return key;
    }
    return NULL;
}

/* True if the part may be one of the item that is asked for. */
static bool fits(const struct psti_fleet_server *server, const struct psti_fleet_get *get,
                 const struct psti_fleet_part *part)
{
    uint64_t n = psti_format_fleet_n_parts(part->nbytes, server->part_nbytes);
    bool is_length = part->form ? part->nbytes < get->nbytes : part->nbytes == get->nbytes;
    return is_length &&
           (get->state.n_needed == 0 || (get->state.n_needed == n && get->form == part->form &&
                                         get->got_nbytes == part->nbytes));
}

/* Copies a good part to its request, if it is still there. Returns the request if it is whole. */
static struct psti_fleet_get *store(struct psti_fleet_server *server, struct psti_fleet_key *key,
                                    const struct psti_fleet_part *part, const uint8_t *bytes)
{
    pthread_mutex_lock(&server->lock);
    struct psti_fleet_get *get = server->batch[key->i_get];
    if (get && !fits(server, get, part)) {
        get->state.bad = true;
        get = NULL;
    }
    server->copying = get ? (int)key->i_get : -1;
    pthread_mutex_unlock(&server->lock);
    if (!get)
        return NULL;
    memcpy((uint8_t *)get->buffer + part->offset, bytes, part->part_nbytes);
    pthread_mutex_lock(&server->lock);
    server->copying = -1;
    get->got_nbytes = part->nbytes;
    get->form = part->form;
    get->state.n_needed = (uint32_t)psti_format_fleet_n_parts(part->nbytes, server->part_nbytes);
    bool whole = ++get->state.n_got == get->state.n_needed && !get->state.bad;
    if (whole) {
        server->batch[key->i_get] = NULL;
        server->counters.n_hits++;
        server->counters.nbytes_hit += get->got_nbytes;
    }
    pthread_mutex_unlock(&server->lock);
    return whole ? get : NULL;
}

/* Takes one value. False: it is not good. */
static bool take_value(struct psti_fleet_server *server, uint32_t n, uint32_t *next)
{
    struct psti_fleet_part part;
    const uint8_t *value = (const uint8_t *)server->mc.result_value(server->result);
    size_t nbytes = server->mc.result_nbytes(server->result);
    struct psti_fleet_key *key = find_key(server, n, next);
    bool good = key && value &&
                psti_format_fleet_parse(value, nbytes, key->key_hash, server->part_nbytes, &part);
    if (good) {
        key->is_here = true;
        struct psti_fleet_get *whole = store(server, key, &part, value + PSTI_FLEET_HEADER_NBYTES);
        if (whole)
            psti_fleet_get_end(server, whole, PSTI_FLEET_HIT);
        return true;
    }
    pthread_mutex_lock(&server->lock);
    server->counters.n_bad_values++;
    if (key && server->batch[key->i_get])
        server->batch[key->i_get]->state.bad = true;
    pthread_mutex_unlock(&server->lock);
    return false;
}

/* One request for n keys. False: it failed. *bad: a value was not good. */
static bool ask(struct psti_fleet_server *server, uint32_t n, bool *bad)
{
    const char *keys[PSTI_FLEET_KEYS];
    size_t key_nbytes[PSTI_FLEET_KEYS];
    uint32_t next = 0;
    for (uint32_t i = 0; i < n; i++) {
        keys[i] = server->keys[i].text;
        key_nbytes[i] = server->keys[i].nbytes;
    }
    unsigned result = server->mc.mget(server->handle, keys, key_nbytes, n);
    while (result == PSTI_MC_SUCCESS && server->mc.fetch(server->handle, server->result, &result) &&
           result == PSTI_MC_SUCCESS)
        *bad |= !take_value(server, n, &next);
    if (result == PSTI_MC_END || result == PSTI_MC_NOT_FOUND || result == PSTI_MC_SUCCESS)
        return true;
    note_error(server, "cannot get items", result);
    return false;
}

bool psti_fleet_talk_get(struct psti_fleet_server *server)
{
    struct place place = {0, 0};
    uint32_t n;
    bool bad = false, good = server->handle != NULL;
    while (good && (n = write_keys(server, &place)) > 0)
        good = ask(server, n, &bad);
    if (!good || !bad)
        return good;
    /* What follows on this connection may belong to another request. */
    pthread_mutex_lock(&server->lock);
    bool often = ++server->n_bad_in_row >= 8;
    snprintf(server->error, sizeof server->error, "its values are not those that were added");
    pthread_mutex_unlock(&server->lock);
    return !often && psti_fleet_talk_connect(server);
}

static enum psti_fleet_outcome outcome_of(unsigned result)
{
    switch (result) {
    case PSTI_MC_SUCCESS:
    case PSTI_MC_STORED:
    case PSTI_MC_BUFFERED:
        return PSTI_FLEET_ADDED;
    case PSTI_MC_NOT_STORED:
    case PSTI_MC_DATA_EXISTS:
        return PSTI_FLEET_PRESENT;
    case PSTI_MC_SERVER_ERROR: /* "out of memory storing object", and what is too large */
    case PSTI_MC_SERVER_MEMORY:
    case PSTI_MC_TOO_BIG:
        return PSTI_FLEET_FULL;
    default:
        return PSTI_FLEET_LOST;
    }
}

/* Parts before `n` that this call has added are of no use alone. */
static void remove_parts(struct psti_fleet_server *server, const struct psti_fleet_name *name,
                         uint32_t n)
{
    char key[PSTI_FLEET_KEY_CAP];
    for (uint32_t part = 0; part < n; part++) {
        size_t nbytes = psti_format_fleet_key(name, part, key);
        (void)server->mc.remove(server->handle, key, nbytes, 0);
    }
}

bool psti_fleet_talk_add(struct psti_fleet_server *server, struct psti_fleet_fill *fill,
                         enum psti_fleet_outcome *outcome)
{
    const struct psti_fleet_name name =
        psti_fleet_set_name(fill->set, fill->offer.sample, fill->offer.i_item);
    struct psti_fleet_header saved;
    char key[PSTI_FLEET_KEY_CAP];
    bool added = false;
    *outcome = PSTI_FLEET_LOST;
    if (!server->handle)
        return false;
    for (uint32_t part = 0; part < fill->n_parts; part++) {
        size_t nbytes, key_nbytes = psti_format_fleet_key(&name, part, key);
        uint8_t *value = psti_fleet_fill_begin_part(fill, part, &saved, &nbytes);
        unsigned result =
            server->mc.add(server->handle, key, key_nbytes, (const char *)value, nbytes, 0, 0);
        psti_fleet_fill_end_part(value, &saved);
        *outcome = outcome_of(result);
        added |= *outcome == PSTI_FLEET_ADDED;
        if (*outcome == PSTI_FLEET_LOST) {
            note_error(server, "cannot add an item", result);
            return false;
        }
        if (*outcome == PSTI_FLEET_FULL) {
            if (added)
                remove_parts(server, &name, part);
            return true;
        }
    }
    *outcome = added ? PSTI_FLEET_ADDED : PSTI_FLEET_PRESENT;
    return true;
}
