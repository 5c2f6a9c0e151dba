/* fleet_servers.c - parses lists of servers and logins, from texts and files, and finds out which
 * servers run on this host.
 *
 * The list is sorted by name, so that statistics have the same order everywhere. Which server an
 * item gets does not depend on the order. */
#include "fleet/fleet_int.h"

#include "base/alloc.h"
#include "base/fail.h"
#include "base/files/read.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <ifaddrs.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#define PORT_DEFAULT 11211
#define FILE_MAX_NBYTES ((size_t)64 << 10)
#define NAME_MAX_NBYTES 127 /* limit for a user's name, and for a password */

static enum pst_status fail_text(const char *text, size_t n, const char *why, struct pst_error *err)
{
    return psti_fail(err, PST_ERROR_ARGUMENT, "fleet",
                     "server \"%.*s\" %s: host, host:port, [address]:port, or the path of a Unix "
                     "socket",
                     n < 200 ? (int)n : 200, text, why);
}

/* Reads a port number of 1 to 65535, which must be the whole text. */
static bool read_port(const char *text, size_t n, uint16_t *port)
{
    unsigned value = 0;
    if (n < 1 || n > 5)
        return false;
    for (size_t i = 0; i < n; i++) {
        if (!isdigit((unsigned char)text[i]))
            return false;
        value = value * 10 + (unsigned)(text[i] - '0');
    }
    *port = (uint16_t)value;
    return value >= 1 && value <= 65535;
}

/* Finds host and port in a text of the form `host`, `host:port`, `[address]` or
 * `[address]:port`. */
static bool split_host(const char **host, size_t *n_host, const char *text, size_t n,
                       uint16_t *port)
{
    const char *end = text + n, *colon;
    *port = PORT_DEFAULT;
    if (n && text[0] == '[') {
        const char *bracket = memchr(text, ']', n);
        *host = text + 1;
        *n_host = bracket ? (size_t)(bracket - text) - 1 : 0;
        if (!bracket || bracket + 1 == end)
            return bracket != NULL;
        return bracket[1] == ':' && read_port(bracket + 2, (size_t)(end - bracket) - 2, port);
    }
    colon = memchr(text, ':', n);
    *host = text;
    *n_host = colon ? (size_t)(colon - text) : n;
    return !colon || read_port(colon + 1, (size_t)(end - colon) - 1, port);
}

static enum pst_status read_server(const char *text, size_t n, struct psti_fleet_address *address,
                                   struct pst_error *err)
{
    const char *equals = memchr(text, '=', n), *at = equals ? equals + 1 : text, *host = at;
    size_t n_name = equals ? (size_t)(equals - text) : 0, left = n - (size_t)(at - text);
    size_t n_host = left;
    memset(address, 0, sizeof *address);
    if (equals && n_name == 0)
        return fail_text(text, n, "has an empty name", err);
    if (n_name >= sizeof address->name)
        return fail_text(text, n, "has too long a name", err);
    bool is_path = left && at[0] == '/';
    if (!is_path && !split_host(&host, &n_host, at, left, &address->port))
        return fail_text(text, n, "is not understood", err);
    if (n_host == 0)
        return fail_text(text, n, "has no host", err);
    /* A Unix socket's path cannot be longer; host names have at most 253 characters. */
    size_t most = is_path ? sizeof((struct sockaddr_un *)0)->sun_path : sizeof address->host - 8;
    if (n_host >= most)
        return fail_text(text, n, "is too long", err);
    memcpy(address->host, host, n_host);
    if (n_name)
        memcpy(address->name, text, n_name);
    else if (is_path)
        snprintf(address->name, sizeof address->name, "%s", address->host);
    else
        snprintf(address->name, sizeof address->name, "%.248s:%u", address->host, address->port);
    return PST_OK;
}

static int compare(const void *a, const void *b)
{
    return strcmp(((const struct psti_fleet_address *)a)->name,
                  ((const struct psti_fleet_address *)b)->name);
}

static bool separates(char c) { return c == ',' || isspace((unsigned char)c); }

static enum pst_status add(struct psti_fleet_address **list, uint32_t *n,
                           const struct psti_fleet_address *address, struct pst_error *err)
{
    struct psti_fleet_address *longer = psti_realloc(*list, (*n + 1) * sizeof *longer);
    if (!longer)
        return psti_fail(err, PST_ERROR_MEMORY, "fleet", "no memory for %u servers", *n + 1);
    longer[(*n)++] = *address;
    *list = longer;
    return PST_OK;
}

/* Reads a small file as a text. The caller frees *out by psti_free. */
static enum pst_status read_text(const char *path, char **out, struct pst_error *err)
{
    struct stat st;
    int fd;
    *out = NULL;
    enum pst_status status = psti_open_data(path, "fleet", "the list of servers", &fd, &st, err);
    if (status != PST_OK)
        return status;
    char *text = psti_calloc(1, FILE_MAX_NBYTES + 1);
    ssize_t n = text ? psti_read_at(fd, text, FILE_MAX_NBYTES, 0) : 0;
    int os_error = errno;
    close(fd);
    if (text && n >= 0) {
        *out = text;
        return PST_OK;
    }
    psti_free(text);
    return text ? psti_fail_os(err, os_error, "fleet", path, 0, "cannot read the file")
                : psti_fail(err, PST_ERROR_MEMORY, "fleet", "no memory for a list of servers");
}

/* Reads the list of servers in a text. `#` begins a comment that ends with the line. */
static enum pst_status read_list(const char *text, struct psti_fleet_address **list, uint32_t *n,
                                 struct pst_error *err)
{
    enum pst_status status = PST_OK;
    for (const char *at = text; status == PST_OK && *at;) {
        size_t length = 0;
        if (*at == '#') {
            at += strcspn(at, "\n");
            continue;
        }
        if (separates(*at)) {
            at++;
            continue;
        }
        while (at[length] && !separates(at[length]) && at[length] != '#')
            length++;
        struct psti_fleet_address address;
        status = read_server(at, length, &address, err);
        if (status == PST_OK && *n == PSTI_FLEET_SERVERS_MAX)
            status = psti_fail(err, PST_ERROR_ARGUMENT, "fleet", "more than %d servers",
                               PSTI_FLEET_SERVERS_MAX);
        if (status == PST_OK)
            status = add(list, n, &address, err);
        at += length;
    }
    return status;
}

enum pst_status psti_fleet_servers_read(const char *text, struct psti_fleet_address **out,
                                        uint32_t *n, struct pst_error *err)
{
    struct psti_fleet_address *servers = NULL;
    char *file = NULL;
    enum pst_status status = PST_OK;
    *out = NULL;
    *n = 0;
    while (separates(*text))
        text++;
    if (*text == '@') {
        status = read_text(text + 1, &file, err);
        text = file;
    }
    if (status == PST_OK)
        status = read_list(text, &servers, n, err);
    if (status == PST_OK && *n == 0)
        status = psti_fail(err, PST_ERROR_ARGUMENT, "fleet", "the list of servers is empty");
    if (status == PST_OK)
        qsort(servers, *n, sizeof *servers, compare);
    for (uint32_t i = 1; status == PST_OK && i < *n; i++)
        if (compare(&servers[i - 1], &servers[i]) == 0)
            status = psti_fail(err, PST_ERROR_ARGUMENT, "fleet", "server \"%s\" is listed twice",
                               servers[i].name);
    psti_free(file);
    if (status == PST_OK)
        *out = servers;
    else
        psti_free(servers);
    return status;
}

enum pst_status psti_fleet_login_read(const char *path, struct psti_fleet_login *login,
                                      struct pst_error *err)
{
    char *line;
    enum pst_status status = read_text(path, &line, err);
    if (status != PST_OK)
        return status;
    line[strcspn(line, "\r\n")] = 0;
    char *colon = strchr(line, ':');
    size_t n_user = colon ? (size_t)(colon - line) : 0;
    size_t n_password = colon ? strlen(colon + 1) : 0;
    if (n_user == 0 || n_user > NAME_MAX_NBYTES || n_password == 0 ||
        n_password > NAME_MAX_NBYTES || strchr(line, ' ')) {
        status = psti_fail_at(err, PST_ERROR_ARGUMENT, "fleet", path, 0,
                              "the first line is not `user:password`, of at most 127 characters "
                              "each and without blanks");
    } else {
        *colon = ' ';
        memcpy(login->text, line, n_user + 1 + n_password + 1);
    }
    psti_free(line);
    return status;
}

static bool same_address(const struct sockaddr *a, const struct sockaddr *b)
{
    if (!a || a->sa_family != b->sa_family)
        return false;
    if (a->sa_family == AF_INET)
        return memcmp(&((const struct sockaddr_in *)(const void *)a)->sin_addr,
                      &((const struct sockaddr_in *)(const void *)b)->sin_addr,
                      sizeof(struct in_addr)) == 0;
    return a->sa_family == AF_INET6 &&
           memcmp(&((const struct sockaddr_in6 *)(const void *)a)->sin6_addr,
                  &((const struct sockaddr_in6 *)(const void *)b)->sin6_addr,
                  sizeof(struct in6_addr)) == 0;
}

/* True for 127.0.0.0/8. No interface lists such addresses except 127.0.0.1. */
static bool is_loopback(const struct sockaddr *a)
{
    return a->sa_family == AF_INET &&
           (ntohl(((const struct sockaddr_in *)(const void *)a)->sin_addr.s_addr) >> 24) == 127;
}

bool psti_fleet_address_is_local(const struct psti_fleet_address *address)
{
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM}, *found = NULL;
    struct ifaddrs *own = NULL;
    bool local = false;
    if (!address->port)
        return true;
    if (getaddrinfo(address->host, NULL, &hints, &found) != 0)
        return false;
    if (getifaddrs(&own) != 0)
        own = NULL;
    for (const struct addrinfo *a = found; a && !local; a = a->ai_next) {
        local = is_loopback(a->ai_addr);
        for (const struct ifaddrs *i = own; i && !local; i = i->ifa_next)
            local = same_address(i->ifa_addr, a->ai_addr);
    }
    if (own)
        freeifaddrs(own);
    freeaddrinfo(found);
    return local;
}
