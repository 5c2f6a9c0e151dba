/* loader_forms.h - chooses the form in which a row is read, for samples that are stored in several
 * forms.
 *
 * A row's form follows by a formula from its turn, which is its number among the rows of its rank
 * in the epoch. So any thread can compute it without knowing other rows, and a resumed epoch uses
 * the same forms. */
#ifndef PST_LOADER_LOADER_FORMS_H
#define PST_LOADER_LOADER_FORMS_H

#include "loader/loader_source.h"

#include <stdatomic.h>

#define PSTI_LOADER_NO_FORM UINT32_MAX
/* A row's turn is its number among the rows of its rank in the epoch. This value: the row has no
 * turn. */
#define PSTI_LOADER_NO_TURN UINT64_MAX

/* Forms, and the part of the rows that each gets. Set at open. Counters and fractions are atomic,
 * the other members constant unless their comment says more. */
struct psti_loader_forms {
    uint32_t n; /* number of forms; 0: rows are not divided among forms */
    uint32_t i_plan;
    enum pst_form_choice choice;
    enum pst_form forms[PST_MAX_VARIANTS];
    uint32_t variants[PST_MAX_VARIANTS];
    /* The part that form i gets of the rows that forms before i leave over, in units of 2^-32: 0 to
     * 2^32. */
    atomic_uint_fast64_t fractions[PST_MAX_VARIANTS];
    atomic_uint_fast64_t rows[PST_MAX_VARIANTS], nbytes[PST_MAX_VARIANTS], ns[PST_MAX_VARIANTS];
    atomic_uint_fast64_t n_other;
    /* Parts of the forms, observations at the last deliveries, and number of corrections. Guarded
     * by the loader's lock. */
    double parts[PST_MAX_VARIANTS];
    uint32_t n_seen, n_short_of_cores, n_short_of_storage;
    uint64_t n_corrections;
};

/* Reads options.form_parts. The plan must be made already. */
enum pst_status psti_loader_forms_open(pst_loader *loader, struct pst_error *err);

/* Computes the fractions from `parts`. The caller holds the lock, unless no other thread has
 * started. */
void psti_loader_forms_set_fractions(struct psti_loader_forms *forms);

/* Returns the number of the form that the row with this turn gets. */
uint32_t psti_loader_forms_of_turn(const struct psti_loader_forms *forms, uint64_t turn);

/* Replaces source->item, the first allowed one, by the sample's item in the form that the row gets,
 * if the sample has it and it is allowed. */
void psti_loader_forms_choose(pst_loader *loader, uint64_t turn, struct psti_loader_source *source);

/* Gives the sample's item of plan field i_plan in the form that the row with this turn gets. False:
 * rows of the field are not divided, or the sample lacks that form. */
bool psti_loader_forms_item(const pst_loader *loader, uint32_t i_plan, uint64_t turn,
                            uint64_t sample, struct pst_item *item);

/* Adds the time of making a row to the costs of its form. */
void psti_loader_forms_clock(pst_loader *loader, const struct psti_loader_source *sources,
                             int64_t ns);

/* Call it when a batch is complete. Observes the queues, and changes the parts if one resource has
 * been short for some time. The lock must be held. */
void psti_loader_forms_correct(pst_loader *loader);

/* Fills in the counts of rows by form. The lock must be held. */
void psti_loader_forms_stats(const pst_loader *loader, struct pst_loader_stats *stats);

#endif
