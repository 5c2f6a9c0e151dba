/* fleet_library.h - our own declarations of the part of libmemcached that is used. Neither its
 * headers nor a link against it is needed. tests/fleet/test_fleet_declarations.c compares them with
 * the headers where these are installed. */
#ifndef PST_FLEET_FLEET_LIBRARY_H
#define PST_FLEET_FLEET_LIBRARY_H

#include <penstock/status.h>

#include <stddef.h>
#include <stdint.h>
#include <time.h>

struct memcached_st;
struct memcached_result_st;

/* More than the struct of a result takes, in any version with this name (libmemcached.so.11). */
enum { PSTI_MC_RESULT_NBYTES = 2048 };

/* Values of its headers, under shorter names: of memcached_behavior_t, */
enum psti_mc_behavior {
    PSTI_MC_NO_BLOCK = 0,
    PSTI_MC_TCP_NODELAY = 1,
    PSTI_MC_POLL_TIMEOUT = 8, /* ms */
    PSTI_MC_VERIFY_KEY = 13,
    PSTI_MC_CONNECT_TIMEOUT = 14, /* ms */
    PSTI_MC_BINARY_PROTOCOL = 18,
    PSTI_MC_SEND_TIMEOUT = 19,   /* us */
    PSTI_MC_RECEIVE_TIMEOUT = 20 /* us */
};
/* and of memcached_return_t. */
enum psti_mc_return {
    PSTI_MC_SUCCESS = 0,
    PSTI_MC_SERVER_ERROR = 10,
    PSTI_MC_DATA_EXISTS = 12,
    PSTI_MC_NOT_STORED = 14,
    PSTI_MC_STORED = 15,
    PSTI_MC_NOT_FOUND = 16,
    PSTI_MC_END = 21,
    PSTI_MC_BUFFERED = 32,
    PSTI_MC_TOO_BIG = 37,
    PSTI_MC_SERVER_MEMORY = 48
};

/* X(result, member, symbol, arguments) for every function used. */
#define PSTI_MC_LIST(X)                                                                            \
    X(const char *, version, memcached_lib_version, (void))                                        \
    X(struct memcached_st *, create, memcached_create, (struct memcached_st * handle))             \
    X(void, free, memcached_free, (struct memcached_st * handle))                                  \
    X(unsigned, set_behavior, memcached_behavior_set,                                              \
      (struct memcached_st * handle, unsigned behavior, uint64_t value))                           \
    X(unsigned, server_add, memcached_server_add,                                                  \
      (struct memcached_st * handle, const char *host, uint16_t port))                             \
    X(unsigned, server_add_unix, memcached_server_add_unix_socket,                                 \
      (struct memcached_st * handle, const char *path))                                            \
    X(unsigned, set_sasl, memcached_set_sasl_auth_data,                                            \
      (struct memcached_st * handle, const char *user, const char *password))                      \
    X(unsigned, ask_version, memcached_version, (struct memcached_st * handle))                    \
    X(unsigned, mget, memcached_mget,                                                              \
      (struct memcached_st * handle, const char *const *keys, const size_t *key_nbytes,            \
       size_t n_keys))                                                                             \
    X(struct memcached_result_st *, result_create, memcached_result_create,                        \
      (const struct memcached_st *handle, struct memcached_result_st *result))                     \
    X(void, result_free, memcached_result_free, (struct memcached_result_st * result))             \
    X(struct memcached_result_st *, fetch, memcached_fetch_result,                                 \
      (struct memcached_st * handle, struct memcached_result_st * result, unsigned *status))       \
    X(const char *, result_key, memcached_result_key_value,                                        \
      (const struct memcached_result_st *result))                                                  \
    X(size_t, result_key_nbytes, memcached_result_key_length,                                      \
      (const struct memcached_result_st *result))                                                  \
    X(const char *, result_value, memcached_result_value,                                          \
      (const struct memcached_result_st *result))                                                  \
    X(size_t, result_nbytes, memcached_result_length, (const struct memcached_result_st *result))  \
    X(unsigned, set, memcached_set,                                                                \
      (struct memcached_st * handle, const char *key, size_t key_nbytes, const char *value,        \
       size_t value_nbytes, time_t expiration, uint32_t flags))                                    \
    X(unsigned, add, memcached_add,                                                                \
      (struct memcached_st * handle, const char *key, size_t key_nbytes, const char *value,        \
       size_t value_nbytes, time_t expiration, uint32_t flags))                                    \
    X(unsigned, remove, memcached_delete,                                                          \
      (struct memcached_st * handle, const char *key, size_t key_nbytes, time_t expiration))       \
    X(const char *, error_text, memcached_strerror,                                                \
      (const struct memcached_st *handle, unsigned result))

struct psti_mc {
#define PSTI_MC_MEMBER(result, member, symbol, arguments) result(*member) arguments;
    PSTI_MC_LIST(PSTI_MC_MEMBER)
#undef PSTI_MC_MEMBER
};

/* Opens libmemcached.so.11, or the file that PENSTOCK_LIBMEMCACHED names. PST_ERROR_UNSUPPORTED: it
 * is not there, or is older than 1.1.4; the text says what to install. It is never closed. */
enum pst_status psti_fleet_library_open(struct psti_mc *mc, struct pst_error *err);
/* True if the text is a version of 1.1.4 or later. */
int psti_fleet_library_is_new(const char *version);

#endif
