/* doctor.h - declarations that the files of the verb doctor share. */
#ifndef PENSTOCK_DOCTOR_H
#define PENSTOCK_DOCTOR_H

#include "json_read.h"

#include <penstock/status.h>

#include <stdbool.h>
#include <stdint.h>

enum doctor_state {
    DOCTOR_OK,
    DOCTOR_NOTE, /* works without it, but slower or with a feature less */
    DOCTOR_BAD   /* hinders */
};
struct doctor_check {
    const char *name;
    enum doctor_state state;
    char text[512];   /* what is */
    char advice[512]; /* what to do; "" if nothing */
};
enum { DOCTOR_CHECKS_MAX = 32 };
struct doctor {
    struct doctor_check checks[DOCTOR_CHECKS_MAX];
    uint32_t n;
};

/* Adds a check with the state OK. */
struct doctor_check *doctor_add(struct doctor *doctor, const char *name, const char *format, ...)
    PST_PRINTF(3, 4);
/* Lowers the state of a check and adds advice. */
void doctor_advise(struct doctor_check *check, enum doctor_state state, const char *format, ...)
    PST_PRINTF(3, 4);

/* Add checks: of the library, from its JSON (cmd_doctor.c); of the system's limits
 * (doctor_system.c); of the Python package beside the program (doctor_python.c). */
void doctor_library(struct doctor *doctor, const struct json_node *environment);
void doctor_system(struct doctor *doctor);
void doctor_python(struct doctor *doctor);

/* Runs a command with a deadline and reads its output, at most capacity - 1 bytes and a NUL.
 * Returns its exit status, 127 if there is no such program, or -1 if it did not end in time. */
int doctor_run(char *const argv[], double seconds, char *out, size_t capacity);

#endif
