/* loader_quarantine.h - the list of bad samples. */
#ifndef PST_LOADER_LOADER_QUARANTINE_H
#define PST_LOADER_LOADER_QUARANTINE_H

#include <penstock/loader.h>

/* The loader's lock guards it. loader_quarantine.c alone changes it. */
struct psti_loader_quarantine {
    struct pst_error *list; /* [capacity], the first n are set */
    uint32_t n, capacity;
};

/* Lists a bad sample, if it is not listed yet and there is memory. The lock must be held. */
void psti_loader_quarantine_add(pst_loader *loader, const struct pst_error *what);
/* Lists a bad sample and counts it. Takes the lock. */
void psti_loader_quarantine_count(pst_loader *loader, const struct pst_error *what);

#endif
