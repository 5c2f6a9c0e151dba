/* pack_mix.h - the part of a plan file that pst_pack needs: for classes of samples, the variants
 * in which shares of them are stored. */
#ifndef PST_PACK_PACK_MIX_H
#define PST_PACK_PACK_MIX_H

#include <penstock/writer.h>

enum { PSTI_PACK_CLASSES_MAX = 1024, PSTI_PACK_WAYS_MAX = 64 };

/* Forms of an image or mask. */
struct psti_pack_forms {
    enum pst_form forms[PST_MAX_VARIANTS];     /* NONE: the file's own bytes */
    enum pst_pli_tier tiers[PST_MAX_VARIANTS]; /* of forms PLI; 0: as the options say */
    uint32_t max_errors[PST_MAX_VARIANTS];     /* of forms PLI; 0: as the options say */
    uint32_t n;                                /* 0: all variants of the source, as they are */
};

struct psti_pack_way {
    double share;    /* 0..1 of the class's samples */
    uint32_t resize; /* shorter side that images are stored with at most; 0: as they are */
    struct psti_pack_forms store;
};

/* Samples whose image has this form and from `least` to `end` - 1 pixels. */
struct psti_pack_class {
    enum pst_form form;
    uint64_t least, end;
    uint32_t first_way, n_ways;
};

struct psti_pack_mix {
    char field[64];
    uint32_t n_classes, n_ways;
    struct psti_pack_class *classes; /* [n_classes] */
    struct psti_pack_way *ways;      /* [n_ways], class by class */
};

/* Parses the text of a plan file. Errors name class, way and member. PST_ERROR_ARGUMENT: it is no
 * plan, or an impossible one. PST_ERROR_VERSION: it is newer than this library. After failure
 * `mix` needs no psti_pack_mix_free. Any thread. */
enum pst_status psti_pack_mix_parse(const char *text, size_t nbytes, struct psti_pack_mix *mix,
                                    struct pst_error *err);
/* As psti_pack_mix_parse, of a file of at most 16 MiB. Errors name the file, too. */
enum pst_status psti_pack_mix_read(const char *path, struct psti_pack_mix *mix,
                                   struct pst_error *err);
void psti_pack_mix_free(struct psti_pack_mix *mix);
/* Returns a number that is the same for the same classes, ways and field. */
uint64_t psti_pack_mix_hash(const struct psti_pack_mix *mix);

#endif
