/* fuzz_pack_mix.c - reads any bytes as a plan file: they are refused with a reason, or give classes
 * and forms within their limits. */
#include "pack/pack_mix.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t nbytes);

static void check_store(const struct psti_pack_forms *store)
{
    if (store->n == 0 || store->n > PST_MAX_VARIANTS)
        abort();
    for (uint32_t i = 0; i < store->n; i++) {
        if (store->tiers[i] != 0 && store->forms[i] != PST_FORM_PLI)
            abort();
        for (uint32_t k = 0; k < i; k++)
            if (store->forms[i] == store->forms[k])
                abort();
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t nbytes)
{
    struct psti_pack_mix mix;
    struct pst_error err;
    /* A copy of the exact length, so that a sanitizer detects reads behind its end. */
    char *text = malloc(nbytes > 0 ? nbytes : 1);
    if (text == NULL || nbytes > 1 << 16)
        goto out;
    memcpy(text, bytes, nbytes);
    pst_error_clear(&err);
    if (psti_pack_mix_parse(text, nbytes, &mix, &err) != PST_OK) {
        if (strncmp(err.text, "the plan", 8) != 0)
            abort();
        goto out;
    }
    uint32_t n_ways = 0;
    for (uint32_t i = 0; i < mix.n_classes; i++) {
        const struct psti_pack_class *class_ = &mix.classes[i];
        double sum = 0;
        if (class_->first_way != n_ways || class_->n_ways == 0 || class_->least >= class_->end)
            abort();
        for (uint32_t w = n_ways; w < n_ways + class_->n_ways; w++) {
            sum += mix.ways[w].share;
            check_store(&mix.ways[w].store);
            if (mix.ways[w].resize > 65535)
                abort();
        }
        if (fabs(sum - 1) > 1e-3)
            abort();
        n_ways += class_->n_ways;
    }
    if (n_ways != mix.n_ways || strlen(mix.field) >= sizeof mix.field)
        abort();
    (void)psti_pack_mix_hash(&mix);
    psti_pack_mix_free(&mix);
out:
    free(text);
    return 0;
}
