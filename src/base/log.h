/* log.h - sends messages to the callback of pst_set_log, or drops them if there is none. */
#ifndef PST_BASE_LOG_H
#define PST_BASE_LOG_H

#include <penstock/penstock.h>

void psti_log(enum pst_log_level level, const char *room, const char *format, ...) PST_PRINTF(3, 4);

#endif
