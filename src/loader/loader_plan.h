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

#define PSTI_LOADER_RANGES_MAX 16 /* maximum number of reads into which an item is split */

enum psti_loader_fill {
    PSTI_LOADER_FILL_PIXELS,
    PSTI_LOADER_FILL_BYTES,
    PSTI_LOADER_FILL_POINTS,
    PSTI_LOADER_FILL_ARRAY,
    PSTI_LOADER_FILL_SOUND,
    PSTI_LOADER_FILL_INT,
    PSTI_LOADER_FILL_FLOAT,
    /* Kinds of derived arrays, which have no stored item (loader_derived.c). The first two tell the
     * geometry that the chain of plan field i_geometry gave the row, and the picture's size before.
     * The next three describe a mosaic: rectangles of its tiles, samples that they show, and the
     * geometry of the operations that follow it. */
    PSTI_LOADER_FILL_GEOMETRY,
    PSTI_LOADER_FILL_ORIGINAL_SIZE,
    PSTI_LOADER_FILL_TILES,
    PSTI_LOADER_FILL_TILE_INDEX,
    PSTI_LOADER_FILL_MOSAIC_GEOMETRY,
    /* The tile number of each box or keypoint of plan field i_geometry. */
    PSTI_LOADER_FILL_TILE_OF
};

struct psti_loader_plan_field {
    const struct pst_field *field; /* the field of the data set that this plan is for */
    enum psti_loader_fill fill;
    uint32_t i_field;      /* number of the field in the data set */
    uint32_t variant_mask; /* variants allowed */
    uint32_t form_mask;    /* forms allowed, bit f = enum pst_form f */
    int i_item;            /* number of the item among the stored items of a row; -1 for INT and
                              FLOAT */
    int i_geometry; /* POINTS, PIXELS: plan field of the leader; derived arrays: of the pixels;
                       TILE_OF: of the points; -1: none */
    /* PIXELS. chains: for 8 and 16 bits, and 1 to 4 channels; NULL: such images are not delivered.
     * chain: the one that most rows are expected to use. All chains have the same random
     * parameters, so a draw for one of them holds for all. */
    struct psti_chain *chains[2][4], *chain;
    struct pst_decode_options decode;
    uint8_t channels, bits; /* channels and bits of decoded pixels, before `chain` */
    enum pst_layout layout;
    bool any_channels; /* each row has as many channels as its stored image */
    bool fixed;        /* all rows have one shape */
    bool identity; /* no operation, HWC, pixels as decoded: raw rows may be copied unchanged */
    bool may_skip; /* the items lie in shards, and the operations may need only a region */
    bool scaled_decode; /* scaled_decode of pst_field_output */
    uint32_t own;       /* `own` of psti_draw_key; not 0 for a field that does not follow the
                           leader */
    bool follows;       /* PIXELS: the field follows the geometry of plan field i_geometry */
    bool moves;         /* PIXELS: the chain has geometric operations */
    bool shows_stored;  /* PIXELS: ignore_orientation */
    enum pst_made_for made_for; /* masks, POINTS */
    bool keeps_boxes;           /* boxes: true if the caller wants all boxes, also those outside of
                                   the picture */
    bool drops;                 /* boxes: true if a box of which too little is left is dropped */
    float min_area, min_visibility;
    bool says_boxes;                /* the caller said whether the field has a row for each box */
    int i_boxes;                    /* plan field of the boxes that the field's rows belong to;
                                       -1: none */
    struct psti_sound_chain *sound; /* SOUND */
    bool gpu_makes;                 /* SOUND: the placement, a GPU, makes the features */
    bool says_pairs;                /* keypoints: true if it is known which points are left and
                                       which are right */
    struct psti_pairs pairs;        /* keypoints; the plan owns the array */
    /* PIXELS: number of views of each row; 0: the field is the image itself. Filling the first plan
     * field of an item fills its other views, too (loader_views.c), so those fields are
     * `filled_before`. */
    uint32_t n_views;
    uint32_t first_view; /* number of the field's first view in the keys of random draws */
    uint32_t i_draw;     /* index of the first view's draw among the draws of all views */
    bool has_view_axis;  /* the array has the axes (n_views, C, H, W) */
    bool gives_tiles;    /* PIXELS and arrays derived from them: there is an entry for each tile
                            of a mosaic */
    bool filled_before;
};

struct psti_loader_plan {
    uint32_t n_fields, n_items;
    uint32_t n_reads; /* maximum number of reads of a row at a time; at least n_items */
    bool mosaics;     /* batches are mixed to mosaics (loader_mosaic.c) */
    bool has_coded;   /* items may be stored compressed (pst_item.coding) */
    uint32_t codings; /* if has_coded: codings that the data set uses (base/codings/codings.h) */
    int i_leader;     /* plan field that gives the sample's geometry; -1: none */
    int i_crop_boxes; /* plan field of the boxes that the random crop depends on; -1: none */
    uint32_t n_views; /* number of views of all fields together */
    struct psti_loader_plan_field fields[PST_MAX_FIELDS];
    struct psti_slot_field slots[PST_MAX_FIELDS];
    uint32_t fields_of_items[PST_MAX_FIELDS];
};

enum pst_status psti_loader_plan_make(pst_dataset *dataset,
                                      const struct pst_loader_options *options,
                                      struct psti_loader_plan *plan, struct pst_error *err);
void psti_loader_plan_clear(struct psti_loader_plan *plan);
/* The functions up to has_views are in loader_derived.c. */
/* True for derived arrays, GEOMETRY to TILE_OF, which have no stored item. */
bool psti_loader_plan_is_derived(const struct psti_loader_plan_field *plan);
/* Refuses an array whose name is already taken, or which is one array too many. */
enum pst_status psti_loader_plan_check_name(const struct psti_loader_plan *plan, const char *name,
                                            struct pst_error *err);
/* Adds the derived arrays that the wish asks for by gives_geometry. The wished array must be the
 * last entry. is_leader: the wish belongs to the image or mask that gives the sample's geometry. */
enum pst_status psti_loader_plan_derive(const struct pst_field_output *wish, bool is_leader,
                                        struct psti_loader_plan *plan, struct pst_error *err);
/* Adds TILE_OF arrays for all boxes and keypoints, if the leader gives tiles. All other entries of
 * the plan must be made already. */
enum pst_status psti_loader_plan_derive_tiles(struct psti_loader_plan *plan, struct pst_error *err);
/* True if the field's item is also delivered as views. */
bool psti_loader_plan_has_views(const struct psti_loader_plan *plan, uint32_t i_field);
/* loader_chains.c: sets the decode options, and the channels and bits that decoders deliver. */
void psti_loader_plan_decode(const struct pst_loader_options *options,
                             const struct pst_field_output *wish,
                             struct psti_loader_plan_field *plan);
/* Compiles the chains of an image or mask. channels, bits: of the first sample's stored image. */
enum pst_status psti_loader_plan_chains(const struct pst_field_output *wish, uint8_t channels,
                                        uint8_t bits, struct psti_loader_plan_field *plan,
                                        struct pst_error *err);
void psti_loader_plan_free_chains(struct psti_loader_plan_field *plan);
/* Returns the chain for such pixels, or NULL if they are not delivered. */
struct psti_chain *psti_loader_plan_chain(const struct psti_loader_plan_field *plan,
                                          uint8_t channels, uint8_t bits);
/* Moves `chain` out of the plan. The caller then owns it. */
struct psti_chain *psti_loader_plan_take_chain(struct psti_loader_plan_field *plan);
/* True if items of that form may be delivered. */
bool psti_loader_plan_allows_form(const struct psti_loader_plan_field *plan, enum pst_form form);
/* True if the sample has that item. A file of a folder counts as present before its form is
 * known. */
bool psti_loader_plan_item_is_there(const pst_dataset *dataset, const struct pst_item *item);
/* Reads the header of one file of a folder. False: no known image format. */
bool psti_loader_plan_probe_file(pst_dataset *dataset, const struct psti_loader_plan_field *plan,
                                 uint64_t sample, struct pst_image_info *info);
/* Returns the largest number of bytes that may be read for one row, with the alignment of buffers
 * of `storage`. in_memory: the files are in memory, so only a folder's label values are read. */
uint64_t psti_loader_plan_row_nbytes_max(const struct psti_loader_plan *plan, pst_dataset *dataset,
                                         const struct psti_storage *storage, bool in_memory);

#endif
