/* loader_quarantine.h - the list of bad samples. */
#ifndef PST_LOADER_LOADER_QUARANTINE_H
#define PST_LOADER_LOADER_QUARANTINE_H

#include <penstock/loader.h>

/* Bad samples. The loader's lock guards the list. Only loader_quarantine.c changes it. */
struct psti_loader_quarantine {
    struct pst_error *list; /* [capacity] errors of bad samples; the first n are set */
    uint32_t n, capacity;
};

/* Adds a bad sample to the list, unless it is there already or memory is lacking. The lock must be
 * held. */
void psti_loader_quarantine_add(pst_loader *loader, const struct pst_error *what);
/* Adds a bad sample to the list and counts it. Takes the lock. */
void psti_loader_quarantine_count(pst_loader *loader, const struct pst_error *what);

#endif
