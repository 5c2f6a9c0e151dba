/* racer.h - a thread that writes to bytes while others read them, like another process that has
 * mapped the same file. The values read are then undefined. With AddressSanitizer the test shows
 * that no length is checked first and then read again and trusted. This is an intended data race,
 * so it is not for ThreadSanitizer. */
#ifndef PST_TEST_RACER_H
#define PST_TEST_RACER_H

#include "test.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>

struct racer {
    pthread_t thread;
    volatile uint8_t *bytes;
    size_t nbytes; /* number of bytes from `bytes` on that are written to */
    atomic_bool stop;
};

/* Changes one byte after another to another value for a moment. */
static inline void *racer_run(void *arg)
{
    struct racer *racer = arg;
    uint64_t x = 0x9E3779B97F4A7C15;
    while (!atomic_load(&racer->stop)) {
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
        volatile uint8_t *at = racer->bytes + (x >> 8) % racer->nbytes;
        const uint8_t kept = *at;
        *at = (uint8_t)x;
        for (volatile uint32_t i = 0; i < (x >> 56); i++)
            continue;
        *at = kept;
    }
    return NULL;
}

static inline void racer_start(struct racer *racer, uint8_t *bytes, size_t nbytes)
{
    racer->bytes = bytes;
    racer->nbytes = nbytes;
    atomic_init(&racer->stop, false);
    assert_int_equal(pthread_create(&racer->thread, NULL, racer_run, racer), 0);
}

/* Stops the thread. The bytes then have their original values. */
static inline void racer_stop(struct racer *racer)
{
    atomic_store(&racer->stop, true);
    assert_int_equal(pthread_join(racer->thread, NULL), 0);
}

#endif
