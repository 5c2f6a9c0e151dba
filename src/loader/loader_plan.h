/* loader_plan.h - the plan of each field of a batch. It is made when a loader is opened and
 * constant from then on. Any thread reads it without a lock. */
#ifndef PST_LOADER_LOADER_PLAN_H
#define PST_LOADER_LOADER_PLAN_H

#include "augment/augment.h"
#include "format/format_geometry.h"
#include "batch/batch.h"
#include "sound/sound.h"
#include "storage/storage.h"

#include <penstock/penstock.h>

#define PSTI_LOADER_RANGES_MAX 16 /* reads into which one item may be split */

enum psti_loader_fill {
    PSTI_LOADER_FILL_PIXELS,
    PSTI_LOADER_FILL_BYTES,
    PSTI_LOADER_FILL_POINTS,
    PSTI_LOADER_FILL_ARRAY,
    PSTI_LOADER_FILL_SOUND,
    PSTI_LOADER_FILL_INT,
    PSTI_LOADER_FILL_FLOAT,
    /* These are derived, and have no stored item (loader_derived.c). The first two say what the
     * chain of plan field i_geometry did to the row, and which size the picture had before. The
     * next three say of a mosaic where its tiles are, which samples they show, and what operations
     * behind it did. */
    PSTI_LOADER_FILL_GEOMETRY,
    PSTI_LOADER_FILL_ORIGINAL_SIZE,
    PSTI_LOADER_FILL_TILES,
    PSTI_LOADER_FILL_TILE_INDEX,
    PSTI_LOADER_FILL_MOSAIC_GEOMETRY,
    /* For each box or keypoint of plan field i_geometry the number of its tile. */
    PSTI_LOADER_FILL_TILE_OF
};

struct psti_loader_plan_field {
    const struct pst_field *field; /* the data set's */
    enum psti_loader_fill fill;
    uint32_t i_field;      /* its number in the data set */
    uint32_t variant_mask; /* variants allowed */
    uint32_t form_mask;    /* forms allowed, bit f = enum pst_form f */
    int i_item;            /* number among the stored items of a row; -1: INT, FLOAT */
    int i_geometry; /* POINTS, PIXELS: plan field of the leader; derived: of the pixels, TILE_OF:
                       of the points; -1: none */
    /* PIXELS. chains: for pixels of 8 and 16 bits, of 1 to 4 channels; NULL: not delivered. `chain`
     * is the one that most rows are expected to take. Chains differ in the pixels alone, so a draw
     * for one of them holds for all. */
    struct psti_chain *chains[2][4], *chain;
    struct pst_decode_options decode;
    uint8_t channels, bits; /* channels and bits of decoded pixels, before `chain` */
    enum pst_layout layout;
    bool any_channels; /* rows have as many channels as their images have stored */
    bool fixed;        /* all rows have one shape */
    bool identity; /* no operation, HWC, pixels as decoded: raw rows may be copied as they are */
    bool may_skip; /* items in shards; operations may need a region only */
    bool scaled_decode; /* as in pst_field_output */
    uint32_t own;       /* `own` of psti_draw_key: not 0 for a field with a geometry of its own */
    bool follows;       /* PIXELS: it has the geometry of plan field i_geometry */
    bool moves;         /* PIXELS: there are geometric operations */
    bool shows_stored;  /* PIXELS: ignore_orientation */
    enum pst_made_for made_for; /* masks, POINTS */
    bool keeps_boxes;           /* boxes: the caller wants all */
    bool drops;                 /* boxes: those with too little left are dropped */
    float min_area, min_visibility;
    bool says_boxes;                /* the caller said whether it has a row for each box */
    int i_boxes;                    /* plan field of the boxes to which its rows belong; -1: none */
    struct psti_sound_chain *sound; /* SOUND */
    bool says_pairs;                /* keypoints: it is known which are left and right */
    struct psti_pairs pairs;        /* keypoints; the array is the plan's own */
    /* PIXELS: views that a row has; 0: it is the image itself. The first of these plan fields of an
     * item fills all (loader_views.c), so the others are `filled_before`. */
    uint32_t n_views;
    uint32_t first_view; /* the number that its first view has in keys */
    uint32_t i_draw;     /* place of its first view's draw among those of all views */
    bool has_view_axis;  /* (n_views, C, H, W) */
    bool gives_tiles;    /* PIXELS, and what is derived from them: of each tile of a mosaic */
    bool filled_before;
};

struct psti_loader_plan {
    uint32_t n_fields, n_items;
    uint32_t n_reads; /* largest number of reads of one row at a time; >= n_items */
    bool mosaics;     /* batches are mixed so (loader_mosaic.c) */
    bool has_coded;   /* items may have a coding (pst_item.coding) */
    uint32_t codings; /* those of the data set (base/codings/codings.h), if they may */
    int i_leader;     /* plan field that gives the sample's geometry; -1: none */
    int i_crop_boxes; /* plan field of the boxes that decide about its crop; -1: none do */
    uint32_t n_views; /* of all fields */
    struct psti_loader_plan_field fields[PST_MAX_FIELDS];
    struct psti_slot_field slots[PST_MAX_FIELDS];
    uint32_t fields_of_items[PST_MAX_FIELDS];
};

enum pst_status psti_loader_plan_make(pst_dataset *dataset,
                                      const struct pst_loader_options *options,
                                      struct psti_loader_plan *plan, struct pst_error *err);
void psti_loader_plan_clear(struct psti_loader_plan *plan);
/* loader_derived.c */
/* True for arrays that have no stored item: GEOMETRY to TILE_OF. Their data set field has a plan
 * field of its own. */
bool psti_loader_plan_is_derived(const struct psti_loader_plan_field *plan);
/* Refuses a name of an array that is delivered already, and one array too many. */
enum pst_status psti_loader_plan_check_name(const struct psti_loader_plan *plan, const char *name,
                                            struct pst_error *err);
/* Adds the arrays of a wish with gives_geometry, whose own array was added last. is_leader: it is
 * of the image or mask that gives the sample's geometry. */
enum pst_status psti_loader_plan_derive(const struct pst_field_output *wish, bool is_leader,
                                        struct psti_loader_plan *plan, struct pst_error *err);
/* Adds TILE_OF of all boxes and keypoints, if the leader gives tiles. The plan is made but for
 * these. */
enum pst_status psti_loader_plan_derive_tiles(struct psti_loader_plan *plan, struct pst_error *err);
/* True if the item of the data set's field is delivered as views, too. */
bool psti_loader_plan_has_views(const struct psti_loader_plan *plan, uint32_t i_field);
/* loader_chains.c: sets decode, channels and bits, the output of decoders. */
void psti_loader_plan_decode(const struct pst_loader_options *options,
                             const struct pst_field_output *wish,
                             struct psti_loader_plan_field *plan);
/* Compiles the chains of an image or mask. channels, bits: those stored for the first sample. */
enum pst_status psti_loader_plan_chains(const struct pst_field_output *wish, uint8_t channels,
                                        uint8_t bits, struct psti_loader_plan_field *plan,
                                        struct pst_error *err);
void psti_loader_plan_free_chains(struct psti_loader_plan_field *plan);
/* The chain for pixels of that kind; NULL: not delivered. */
struct psti_chain *psti_loader_plan_chain(const struct psti_loader_plan_field *plan,
                                          uint8_t channels, uint8_t bits);
/* Takes `chain` out of the plan. The caller owns it from then on. */
struct psti_chain *psti_loader_plan_take_chain(struct psti_loader_plan_field *plan);
/* True if the item's form may be delivered. */
bool psti_loader_plan_allows_form(const struct psti_loader_plan_field *plan, enum pst_form form);
/* True if the sample has that item. Files of a folder count as there before their form is known. */
bool psti_loader_plan_item_is_there(const pst_dataset *dataset, const struct pst_item *item);
/* Reads the header of one file of a folder. False: it is not a known one. */
bool psti_loader_plan_probe_file(pst_dataset *dataset, const struct psti_loader_plan_field *plan,
                                 uint64_t sample, struct pst_image_info *info);
/* Largest number of bytes of all items of one row that must be read, in buffers for `storage`.
 * in_memory: only values of a folder's label file are read. */
uint64_t psti_loader_plan_row_nbytes_max(const struct psti_loader_plan *plan, pst_dataset *dataset,
                                         const struct psti_storage *storage, bool in_memory);

#endif
