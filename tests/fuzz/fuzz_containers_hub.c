/* fuzz_containers_hub.c - reads any bytes as the features of Hugging Face's `datasets`: in whatever
 * is accepted, texts end with a NUL, there are as many class names as classes, and shapes have at
 * most 8 dimensions. The first bytes are also used to guess a value's type. */
#include "containers/table/containers_guess.h"
#include "containers/table/containers_hub.h"

#include <stdlib.h>
#include <string.h>

#define CHECK(condition)                                                                           \
    do {                                                                                           \
        if (!(condition))                                                                          \
            abort();                                                                               \
    } while (0)

static void check_feature(const struct psti_hub_feature *feature)
{
    CHECK(feature->kind >= PSTI_HUB_OTHER && feature->kind <= PSTI_HUB_ARRAY);
    CHECK(strlen(feature->dtype) < (size_t)1 << 20);
    CHECK(feature->ndim <= PST_MAX_NDIM && feature->n_classes >= 0);
    CHECK((feature->inner != NULL) == (feature->kind == PSTI_HUB_SEQUENCE));
    int64_t n = 0;
    for (size_t at = 0; at < feature->class_names_nbytes; n++) {
        size_t length = strlen(feature->class_names + at);
        CHECK(length > 0 && length < feature->class_names_nbytes - at);
        at += length + 1;
    }
    CHECK(feature->class_names == NULL || n == feature->n_classes);
    if (feature->inner != NULL)
        check_feature(feature->inner);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t nbytes);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t nbytes)
{
    static const char *const columns[] = {"a", "b", "image", "label", "text", "", "z"};
    struct psti_hub_features *features = NULL;
    struct pst_error err = {0};
    enum pst_field_type type = psti_containers_guess(data, nbytes);
    CHECK(type == PST_FIELD_IMAGE || type == PST_FIELD_AUDIO || type == PST_FIELD_BYTES);
    enum pst_status status =
        psti_containers_hub_open((const char *)data, nbytes, "a.json", &features, &err);
    CHECK(status == PST_OK || (err.text[0] != '\0' && features == NULL));
    for (size_t i = 0; i < sizeof columns / sizeof *columns; i++) {
        const struct psti_hub_feature *found = psti_containers_hub_find(features, columns[i]);
        if (found != NULL)
            check_feature(found);
    }
    psti_containers_hub_close(&features);
    return 0;
}
