/* fleet_liar.c - a server of memcached's meta protocol that stores what is added, and answers `mg`
 * with the lie that it is told. It has one thread for each connection. */
#include "fleet/fleet_fixture.h"

#include "base/bits.h"
#include "format/format_fleet.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

enum { ITEMS_MAX = 512, LINE_CAP = 16384, CONNECTIONS_MAX = 1024 };

struct item {
    char key[256];
    char *value;
    size_t nbytes;
};

struct liar {
    int fd;
    char path[100];
    atomic_int lie;
    atomic_uint cut; /* LIE_CUT_AT: bytes of an answer that are sent */
    atomic_bool closing;
    pthread_t thread;
    pthread_mutex_t lock; /* guards the items and connections */
    struct item items[ITEMS_MAX];
    int n_items;
    pthread_t threads[CONNECTIONS_MAX];
    int fds[CONNECTIONS_MAX], n_connections;
};

struct connection {
    struct liar *liar;
    int fd;
    char buffer[LINE_CAP];
    size_t n;
    char last[300]; /* line of the last answer with a value */
};

/* The line of a command, in parts. */
struct command {
    char name[8], key[256], flags[64]; /* flags: those of the answer, each after a blank */
    size_t nbytes;
};

/* An answer with a value. */
struct answer {
    char line[512];
    char *value;
    size_t nbytes;
};

static bool fill(struct connection *c)
{
    ssize_t n = recv(c->fd, c->buffer + c->n, sizeof c->buffer - c->n, 0);
    if (n <= 0)
        return false;
    c->n += (size_t)n;
    return true;
}

static void drop(struct connection *c, size_t n)
{
    memmove(c->buffer, c->buffer + n, c->n - n);
    c->n -= n;
}

/* Reads a line and removes its end. */
static bool read_line(struct connection *c, char *line)
{
    char *end;
    while (!(end = memmem(c->buffer, c->n, "\r\n", 2)))
        if (c->n == sizeof c->buffer || !fill(c))
            return false;
    size_t n = (size_t)(end - c->buffer);
    memcpy(line, c->buffer, n);
    line[n] = 0;
    drop(c, n + 2);
    return true;
}

static bool read_bytes(struct connection *c, char *bytes, size_t nbytes)
{
    for (size_t at = 0; at < nbytes;) {
        if (c->n == 0 && !fill(c))
            return false;
        size_t n = c->n < nbytes - at ? c->n : nbytes - at;
        memcpy(bytes + at, c->buffer, n);
        drop(c, n);
        at += n;
    }
    return true;
}

static bool say(struct connection *c, const char *bytes, size_t nbytes)
{
    for (size_t at = 0; at < nbytes;) {
        bool drips = atomic_load(&c->liar->lie) == LIE_DRIP;
        ssize_t n = send(c->fd, bytes + at, drips ? 1 : nbytes - at, MSG_NOSIGNAL);
        if (n <= 0 || atomic_load(&c->liar->closing))
            return false;
        at += (size_t)n;
        if (drips)
            usleep(20000);
    }
    return true;
}

static bool say_text(struct connection *c, const char *text) { return say(c, text, strlen(text)); }

static int find(struct liar *liar, const char *key)
{
    for (int i = 0; i < liar->n_items; i++)
        if (strcmp(liar->items[i].key, key) == 0)
            return i;
    return -1;
}

/* Parses `mg KEY FLAGS`, `ms KEY NBYTES FLAGS` and `md KEY FLAGS`. */
static bool read_command(char *line, struct command *command)
{
    char *save, *word = strtok_r(line, " ", &save);
    memset(command, 0, sizeof *command);
    snprintf(command->name, sizeof command->name, "%s", word ? word : "");
    word = strtok_r(NULL, " ", &save);
    snprintf(command->key, sizeof command->key, "%s", word ? word : "");
    if (strcmp(command->name, "ms") == 0) {
        word = strtok_r(NULL, " ", &save);
        command->nbytes = word ? strtoul(word, NULL, 10) : 0;
    }
    while ((word = strtok_r(NULL, " ", &save)) != NULL) {
        size_t n = strlen(command->flags);
        if (word[0] == 'O')
            snprintf(command->flags + n, sizeof command->flags - n, " %s", word);
    }
    return command->key[0] && command->nbytes <= 1 << 24;
}

/* Appends the key to the answer's flags, after the number. */
static void name_key(const char *key, struct command *command, char *flags, size_t cap)
{
    snprintf(flags, cap, " k%s%s", key, command->flags);
}

static bool say_code(struct connection *c, const char *code, struct command *command)
{
    char line[512], flags[400];
    name_key(command->key, command, flags, sizeof flags);
    snprintf(line, sizeof line, "%s%s\r\n", code, flags);
    return say_text(c, line);
}

static bool add(struct connection *c, struct command *command, bool stores)
{
    struct liar *liar = c->liar;
    char *value = malloc(command->nbytes + 2);
    if (!value || !read_bytes(c, value, command->nbytes + 2)) {
        free(value);
        return false;
    }
    pthread_mutex_lock(&liar->lock);
    bool is_new = stores && find(liar, command->key) < 0 && liar->n_items < ITEMS_MAX;
    if (is_new) {
        struct item *item = &liar->items[liar->n_items++];
        snprintf(item->key, sizeof item->key, "%s", command->key);
        item->value = value;
        item->nbytes = command->nbytes;
    }
    pthread_mutex_unlock(&liar->lock);
    if (!is_new)
        free(value);
    return say_code(c, is_new ? "HD" : "NS", command);
}

/* Returns the item whose value LIE_OTHER_PART sends: another part of the same item if there is one,
 * otherwise another item. */
static int other_part(struct liar *liar, int i)
{
    const char *key = liar->items[i].key;
    size_t n = (size_t)(strrchr(key, ':') - key) + 1;
    for (int k = 0; k < liar->n_items; k++)
        if (k != i && strncmp(liar->items[k].key, key, n) == 0)
            return k;
    return i ? i - 1 : 1;
}

/* Changes the item's bytes, and makes the header fit them. */
static void forge(char *value, size_t nbytes)
{
    uint8_t *head = (uint8_t *)value;
    struct psti_fleet_part part = {.key_hash = psti_load_u64(head + 8),
                                   .nbytes = psti_load_u64(head + 16),
                                   .offset = psti_load_u64(head + 24),
                                   .part = psti_load_u32(head + 32),
                                   .part_nbytes = (uint32_t)(nbytes - PSTI_FLEET_HEADER_NBYTES),
                                   .form = head[5]};
    for (size_t i = PSTI_FLEET_HEADER_NBYTES; i < nbytes; i++)
        value[i] = (char)(i * 2654435761u >> 9);
    psti_format_fleet_print(&part, head + PSTI_FLEET_HEADER_NBYTES, head);
}

/* Makes the answer, including lies in its line or value. */
static bool make_answer(struct liar *liar, enum lie lie, int i, struct command *command,
                        struct answer *answer)
{
    char shown[256], flags[400], size[32];
    const struct item *item = &liar->items[lie == LIE_OTHER_VALUE  ? (i ? i - 1 : 1)
                                           : lie == LIE_OTHER_PART ? other_part(liar, i)
                                                                   : i];
    size_t extra = lie == LIE_LONG ? 100 : 0;
    answer->nbytes = item->nbytes;
    answer->value = calloc(1, item->nbytes + extra + 2);
    if (!answer->value)
        return false;
    memcpy(answer->value, item->value, item->nbytes);
    snprintf(shown, sizeof shown, "%s", command->key);
    if (lie == LIE_OTHER_KEY)
        shown[6] = shown[6] == 'f' ? '0' : 'f';
    if (lie == LIE_WRONG_NUMBER)
        command->flags[2] = command->flags[2] == '9' ? '8' : '9';
    if (lie == LIE_NO_NUMBER)
        command->flags[0] = 0;
    if (lie == LIE_FLIPPED)
        answer->value[answer->nbytes / 2] ^= 4;
    if (lie == LIE_SHORT)
        answer->nbytes -= answer->nbytes / 3;
    if (lie == LIE_FORGED)
        forge(answer->value, answer->nbytes);
    answer->nbytes += extra;
    memcpy(answer->value + answer->nbytes, lie == LIE_NO_END ? "xy" : "\r\n", 2);
    name_key(shown, command, flags, sizeof flags);
    snprintf(size, sizeof size, "%zu", answer->nbytes - (lie == LIE_LESS ? 20 : 0));
    static const char *const huge[] = {"18446744073709551615", "18446744073709551614",
                                       "9223372036854775808",  "-1",
                                       "4000000000",           "99999999"};
    if (lie == LIE_HUGE)
        snprintf(size, sizeof size, "%s", huge[i % 6]);
    snprintf(answer->line, sizeof answer->line, "VA %s%s%s\r\n", size, flags,
             lie == LIE_ODD_FLAG ? " s5" : "");
    return true;
}

/* Sends an answer, including lies about when and how much. */
static bool send_answer(struct connection *c, enum lie lie, const struct answer *answer)
{
    size_t n_line = strlen(answer->line), whole = n_line + answer->nbytes + 2, nbytes = whole;
    if (lie == LIE_STALE && c->last[0] && !say_text(c, c->last))
        return false;
    if (lie == LIE_EXTRA_MISS && !say_text(c, "EN\r\n"))
        return false;
    if (lie == LIE_CUT)
        nbytes = n_line + answer->nbytes / 2;
    if (lie == LIE_CUT_AT && atomic_load(&c->liar->cut) < whole)
        nbytes = atomic_load(&c->liar->cut);
    if (!say(c, answer->line, nbytes < n_line ? nbytes : n_line) ||
        (nbytes > n_line && !say(c, answer->value, nbytes - n_line)))
        return false;
    if (lie == LIE_TWICE && (!say_text(c, answer->line) || !say(c, answer->value, whole - n_line)))
        return false;
    snprintf(c->last, sizeof c->last, "%.299s", answer->line);
    return nbytes == whole;
}

static bool say_garbage(struct connection *c)
{
    char bytes[512];
    for (size_t i = 0; i < sizeof bytes; i++)
        bytes[i] = (char)(i * 2654435761u >> 7);
    memcpy(bytes + sizeof bytes - 2, "\r\n", 2);
    return say(c, bytes, sizeof bytes);
}

/* Sends bytes until the lie changes or the connection is closed. */
static bool say_without_end(struct connection *c)
{
    char bytes[1000];
    memset(bytes, 'V', sizeof bytes);
    while (atomic_load(&c->liar->lie) == LIE_ENDLESS_LINE && !atomic_load(&c->liar->closing))
        if (!say(c, bytes, sizeof bytes))
            return false;
    return false;
}

static void sleep_long(const struct liar *liar)
{
    for (int i = 0; i < 1000 && atomic_load(&liar->lie) == LIE_LATE; i++)
        usleep(10000);
}

/* Answers `mg`. Items are never freed before the end. The probe with which clients greet is always
 * answered truthfully. */
static bool get(struct connection *c, struct command *command)
{
    struct liar *liar = c->liar;
    enum lie lie = (enum lie)atomic_load(&liar->lie);
    struct answer answer = {.value = NULL};
    bool is_probe = strcmp(command->key, "pst1:probe") == 0;
    if (!is_probe && lie == LIE_SILENCE)
        return true;
    if (!is_probe && lie == LIE_LATE)
        sleep_long(liar);
    if (!is_probe && lie == LIE_SLOW)
        usleep(250000);
    if (!is_probe && lie == LIE_GARBAGE)
        return say_garbage(c);
    if (!is_probe && lie == LIE_ENDLESS_LINE)
        return say_without_end(c);
    if (!is_probe && lie == LIE_OTHER_WORDS)
        return say_text(c, "END\r\n");
    pthread_mutex_lock(&liar->lock);
    int i = find(liar, command->key);
    pthread_mutex_unlock(&liar->lock);
    if (i < 0)
        return say_code(c, "EN", command);
    bool good = make_answer(liar, lie, i, command, &answer) && send_answer(c, lie, &answer);
    free(answer.value);
    return good;
}

static void *serve(void *arg)
{
    struct connection *c = arg;
    char line[LINE_CAP];
    bool good = true;
    while (good && read_line(c, line)) {
        bool replaces = strstr(line, " MR") != NULL;
        struct command command;
        if (!read_command(line, &command))
            good = say_text(c, "ERROR\r\n");
        else if (strcmp(command.name, "mg") == 0)
            good = get(c, &command);
        else if (strcmp(command.name, "ms") == 0)
            good = add(c, &command, !replaces);
        else if (strcmp(command.name, "md") == 0)
            good = say_code(c, "NF", &command);
        else
            good = say_text(c, "ERROR\r\n");
    }
    /* closed only at the end, so that no other connection gets the number */
    shutdown(c->fd, SHUT_RDWR);
    free(c);
    return NULL;
}

static void *accept_all(void *arg)
{
    struct liar *liar = arg;
    while (!atomic_load(&liar->closing)) {
        int fd = accept4(liar->fd, NULL, NULL, SOCK_CLOEXEC);
        if (fd < 0)
            continue;
        pthread_mutex_lock(&liar->lock);
        struct connection *c = calloc(1, sizeof *c);
        if (!c || atomic_load(&liar->closing) || liar->n_connections == CONNECTIONS_MAX) {
            close(fd);
            free(c);
        } else {
            c->liar = liar;
            c->fd = fd;
            liar->fds[liar->n_connections] = fd;
            pthread_create(&liar->threads[liar->n_connections++], NULL, serve, c);
        }
        pthread_mutex_unlock(&liar->lock);
    }
    return NULL;
}

struct liar *start_liar(const char *path)
{
    struct liar *liar = calloc(1, sizeof *liar);
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    assert_non_null(liar);
    snprintf(liar->path, sizeof liar->path, "%s", path);
    snprintf(address.sun_path, sizeof address.sun_path, "%s", path);
    pthread_mutex_init(&liar->lock, NULL);
    liar->fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(liar->fd, (struct sockaddr *)&address, sizeof address), 0);
    assert_int_equal(listen(liar->fd, 64), 0);
    assert_int_equal(pthread_create(&liar->thread, NULL, accept_all, liar), 0);
    return liar;
}

void set_lie(struct liar *liar, enum lie lie) { atomic_store(&liar->lie, lie); }

void set_cut(struct liar *liar, unsigned nbytes)
{
    atomic_store(&liar->cut, nbytes);
    set_lie(liar, LIE_CUT_AT);
}

void end_liar(struct liar *liar)
{
    atomic_store(&liar->closing, true);
    shutdown(liar->fd, SHUT_RDWR);
    pthread_join(liar->thread, NULL);
    for (int i = 0; i < liar->n_connections; i++) {
        shutdown(liar->fds[i], SHUT_RDWR);
        pthread_join(liar->threads[i], NULL);
        close(liar->fds[i]);
    }
    for (int i = 0; i < liar->n_items; i++)
        free(liar->items[i].value);
    close(liar->fd);
    unlink(liar->path);
    pthread_mutex_destroy(&liar->lock);
    free(liar);
}
