/* log.c - stores the log callback of the process. It must be set before other threads use the
 * library. */
#include "base/log.h"

#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static _Atomic(pst_log_fn) log_fn;
static void *log_ctx;
static atomic_int log_level = PST_LOG_WARNING;

static int level_from_environment(void)
{
    static const char *const names[] = {"error", "warning", "info", "debug"};
    const char *wanted = getenv("PENSTOCK_LOG_LEVEL");
    for (int level = 0; wanted && level < 4; level++)
        if (strcmp(names[level], wanted) == 0)
            return level;
    return PST_LOG_WARNING;
}

void pst_set_log(pst_log_fn fn, void *ctx, int level)
{
    log_ctx = ctx;
    atomic_store(&log_level, level < 0 ? level_from_environment() : level);
    atomic_store(&log_fn, fn);
}

void psti_log(enum pst_log_level level, const char *room, const char *format, ...)
{
    pst_log_fn fn = atomic_load_explicit(&log_fn, memory_order_acquire);
    if (!fn || (int)level > atomic_load(&log_level))
        return;
    char text[1024];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    fn(log_ctx, level, room, text);
}
