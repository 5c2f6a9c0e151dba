/* pack_mix.h - the part of a plan file that pst_pack uses: for each class of samples, the variants
 * in which shares of it are stored. */
#ifndef PST_PACK_PACK_MIX_H
#define PST_PACK_PACK_MIX_H

#include <penstock/writer.h>

enum { PSTI_PACK_CLASSES_MAX = 1024, PSTI_PACK_WAYS_MAX = 64 };

/* Forms in which an image or mask is stored. */
struct psti_pack_forms {
    enum pst_form forms[PST_MAX_VARIANTS];     /* NONE: the original file's bytes */
    enum pst_pli_tier tiers[PST_MAX_VARIANTS]; /* tier of each form PLI; 0: the options' tier */
    uint32_t max_errors[PST_MAX_VARIANTS];     /* max_error of each form PLI; 0: the options'
                                                * max_error */
    uint32_t n;                                /* 0: all variants of the source, unchanged */
};

struct psti_pack_way {
    double share; /* share of the class's samples, 0..1 */
    /* Images are resized if their shorter side is longer than this many pixels; 0: never. */
    uint32_t resize;
    struct psti_pack_forms store;
};

/* A class: samples whose image has this form and from `least` to `end` - 1 pixels. */
struct psti_pack_class {
    enum pst_form form;
    uint64_t least, end;
    uint32_t first_way, n_ways;
};

struct psti_pack_mix {
    char field[64];
    uint32_t n_classes, n_ways;
    struct psti_pack_class *classes; /* [n_classes] */
    struct psti_pack_way *ways;      /* [n_ways], in the order of the classes */
};

/* Parses the text of a plan file. Errors name class, way and member. PST_ERROR_ARGUMENT: the text
 * is no plan, or an impossible one. PST_ERROR_VERSION: it has a newer version. After failure `mix`
 * needs no psti_pack_mix_free. Any thread. */
enum pst_status psti_pack_mix_parse(const char *text, size_t nbytes, struct psti_pack_mix *mix,
                                    struct pst_error *err);
/* Reads and parses a plan file of at most 16 MiB. Errors as from psti_pack_mix_parse also name the
 * file. */
enum pst_status psti_pack_mix_read(const char *path, struct psti_pack_mix *mix,
                                   struct pst_error *err);
void psti_pack_mix_free(struct psti_pack_mix *mix);
/* Returns a hash of the classes, the ways and the field. */
uint64_t psti_pack_mix_hash(const struct psti_pack_mix *mix);

#endif
