/* clock.h - a clock that never goes back. */
#ifndef PST_BASE_CLOCK_H
#define PST_BASE_CLOCK_H

#include <stdint.h>

int64_t psti_clock_ns(void);             /* the time of CLOCK_MONOTONIC, in nanoseconds */
void psti_clock_sleep_until(int64_t ns); /* sleeps until the clock shows `ns` */

#endif
