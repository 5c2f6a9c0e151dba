/* fleet_liar.c - a server of memcached's text protocol that keeps what is added, and answers `get`
 * as it is told to. One thread for each connection. */
#include "fleet/fleet_fixture.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

enum { ITEMS_MAX = 512, LINE_CAP = 16384, CONNECTIONS_MAX = 256 };

struct item {
    char key[256];
    char *value;
    size_t nbytes;
};

struct liar {
    int fd;
    char path[100];
    atomic_int lie;
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

/* A line without its end. */
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
    bool drips = atomic_load(&c->liar->lie) == LIE_DRIP;
    for (size_t at = 0; at < nbytes;) {
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

static bool add(struct connection *c, char *line)
{
    char key[256] = "";
    size_t nbytes = 0;
    struct liar *liar = c->liar;
    if (sscanf(line, "%*s %250s %*u %*u %zu", key, &nbytes) != 2 || nbytes > 1 << 24)
        return false;
    char *value = malloc(nbytes + 2);
    if (!value || !read_bytes(c, value, nbytes + 2)) {
        free(value);
        return false;
    }
    pthread_mutex_lock(&liar->lock);
    bool is_new = find(liar, key) < 0 && liar->n_items < ITEMS_MAX;
    if (is_new) {
        struct item *item = &liar->items[liar->n_items++];
        snprintf(item->key, sizeof item->key, "%s", key);
        item->value = value;
        item->nbytes = nbytes;
    }
    pthread_mutex_unlock(&liar->lock);
    if (!is_new)
        free(value);
    return say_text(c, is_new ? "STORED\r\n" : "NOT_STORED\r\n");
}

/* Answers for one key. Items are never freed before the end. */
static bool give(struct connection *c, const char *key)
{
    struct liar *liar = c->liar;
    enum lie lie = (enum lie)atomic_load(&liar->lie);
    char head[320], shown[256];
    pthread_mutex_lock(&liar->lock);
    int i = find(liar, key);
    pthread_mutex_unlock(&liar->lock);
    if (i < 0)
        return true;
    const struct item *item = &liar->items[lie == LIE_OTHER_VALUE ? (i ? i - 1 : 1) : i];
    size_t nbytes = item->nbytes;
    char *value = malloc(nbytes + 2);
    if (!value)
        return false;
    memcpy(value, item->value, nbytes);
    snprintf(shown, sizeof shown, "%s", key);
    if (lie == LIE_OTHER_KEY)
        shown[6] = shown[6] == 'f' ? '0' : 'f';
    if (lie == LIE_FLIPPED)
        value[nbytes / 2] ^= 4;
    if (lie == LIE_SHORT)
        nbytes -= nbytes / 3;
    memcpy(value + nbytes, "\r\n", 2);
    int n = snprintf(head, sizeof head, "VALUE %s 0 %zu\r\n", shown, nbytes);
    bool good = say(c, head, (size_t)n) && say(c, value, lie == LIE_CUT ? nbytes / 2 : nbytes + 2);
    free(value);
    return good && lie != LIE_CUT;
}

static bool get(struct connection *c, char *line)
{
    enum lie lie = (enum lie)atomic_load(&c->liar->lie);
    char *save, *key = strtok_r(line, " ", &save);
    if (lie == LIE_SILENCE)
        return true;
    if (lie == LIE_GARBAGE) {
        char bytes[512];
        for (size_t i = 0; i < sizeof bytes; i++)
            bytes[i] = (char)(i * 2654435761u >> 7);
        memcpy(bytes + sizeof bytes - 2, "\r\n", 2);
        return say(c, bytes, sizeof bytes);
    }
    while ((key = strtok_r(NULL, " ", &save)) != NULL)
        if (!give(c, key))
            return false;
    return say_text(c, "END\r\n");
}

static void *serve(void *arg)
{
    struct connection *c = arg;
    char line[LINE_CAP];
    bool good = true;
    while (good && read_line(c, line)) {
        if (strncmp(line, "get ", 4) == 0)
            good = get(c, line);
        else if (strncmp(line, "add ", 4) == 0 || strncmp(line, "set ", 4) == 0)
            good = add(c, line);
        else if (strncmp(line, "version", 7) == 0)
            good = say_text(c, "VERSION 1.6.18\r\n");
        else if (strncmp(line, "quit", 4) == 0)
            good = false;
        else
            good = say_text(c, "ERROR\r\n");
    }
    shutdown(c->fd, SHUT_RDWR); /* closed at the end, so that no other connection gets the number */
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
