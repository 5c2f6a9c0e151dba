/* loader_forms.h - which of its forms a row is read in, where a sample is stored in several.
 *
 * Rows are divided by closed formulas over their turn, so that any thread finds a
 * row's form without knowing the others, and the same after a resume. */
#ifndef PST_LOADER_LOADER_FORMS_H
#define PST_LOADER_LOADER_FORMS_H

#include "loader/loader_source.h"

#include <stdatomic.h>

#define PSTI_LOADER_NO_FORM UINT32_MAX
/* A row's turn is its number among the rows of its rank in the epoch. This one has none. */
#define PSTI_LOADER_NO_TURN UINT64_MAX

/* Set at open; the counters and the fractions are atomic, the rest is constant. */
struct psti_loader_forms {
    uint32_t n; /* 0: rows are not divided */
    uint32_t i_plan;
    enum pst_form_choice choice;
    enum pst_form forms[PST_MAX_VARIANTS];
    uint32_t variants[PST_MAX_VARIANTS];
    /* Part of the rows that forms before i leave which form i gets, in units of 2^-32: 0 to 2^32.
     */
    atomic_uint_fast64_t fractions[PST_MAX_VARIANTS];
    atomic_uint_fast64_t rows[PST_MAX_VARIANTS], nbytes[PST_MAX_VARIANTS], ns[PST_MAX_VARIANTS];
    atomic_uint_fast64_t n_other;
    /* Guarded by the loader's lock: what was seen at the last deliveries, and corrections so far.
     */
    double parts[PST_MAX_VARIANTS];
    uint32_t n_seen, n_short_of_cores, n_short_of_storage;
    uint64_t n_corrections;
};

/* Takes options.form_parts, once the plan is made. */
enum pst_status psti_loader_forms_open(pst_loader *loader, struct pst_error *err);

/* Computes the fractions from `parts`. The caller holds the lock, unless no other thread has
 * started. */
void psti_loader_forms_set_fractions(struct psti_loader_forms *forms);

/* Number of the form that the row with this turn gets. */
uint32_t psti_loader_forms_of_turn(const struct psti_loader_forms *forms, uint64_t turn);

/* Replaces the source's item, the first that is allowed, by the sample's item in the form that the
 * row gets, if it has one that may take its place. */
void psti_loader_forms_choose(pst_loader *loader, uint64_t turn, struct psti_loader_source *source);

/* Gives the sample's item of plan field i_plan in the form that the row at this place gets. False:
 * rows of the field are not divided, or the sample has none. */
bool psti_loader_forms_item(const pst_loader *loader, uint32_t i_plan, uint64_t turn,
                            uint64_t sample, struct pst_item *item);

/* Counts the time of a row that was made from its bytes. */
void psti_loader_forms_clock(pst_loader *loader, const struct psti_loader_source *sources,
                             int64_t ns);

/* Call this when a batch is complete. It looks at the queues, and changes parts if one resource has
 * been short for some time. The lock must be held. */
void psti_loader_forms_correct(pst_loader *loader);

/* The lock must be held. */
void psti_loader_forms_stats(const pst_loader *loader, struct pst_loader_stats *stats);

#endif
