/* loader_source.h - the stored items of one row, and the way of their bytes.
 *
 * Items and their sources belong to whoever has the row. No locks. */
#ifndef PST_LOADER_LOADER_SOURCE_H
#define PST_LOADER_LOADER_SOURCE_H

#include "augment/augment.h"
#include "fleet/fleet.h"
#include "loader/loader_plan.h"
#include "loader/tiers/loader_training.h"
#include "share/share.h"
#include "storage/storage.h"

#include <penstock/penstock.h>

#define PSTI_PATH_NBYTES 4096

struct psti_loader_items;
struct psti_loader_tier_ops;
struct psti_loader_page;
struct psti_shelf_item;

/* One stored item of one row. */
struct psti_loader_source {
    struct psti_loader_items *items;            /* of its row */
    const struct psti_loader_plan_field *field; /* the first one that is made of it */
    struct pst_item item;
    uint32_t variant;
    uint32_t i_form;        /* number of its form in the loader's form_parts; UINT32_MAX: none */
    struct psti_file *file; /* held while the row is under way; NULL: the item is read by path, or
                               is in no file */
    const char *path;       /* path of a folder's file; NULL otherwise */
    uint64_t place;         /* where the disk has that file */
    uint64_t stamp;         /* psti_dataset_file_stamp of that file */
    void *buffer;           /* destination of the read; NULL: in memory already, or empty */
    const void *data;       /* its bytes; NULL: not there yet */
    void *decoded;          /* destination of inflating; NULL: the item has no coding */
    const void *coded;      /* once `data` are decoded: the stored bytes; NULL: `data` are these */
    uint64_t sample;        /* number of the sample in the data set */
    uint64_t stored_nbytes; /* bytes of the stored item, also if a tier re-codes it */
    bool has_sum;           /* the data set has a checksum of the stored bytes, or of the decoded */
    bool is_counted;        /* in n_unchecked, if it belongs there */
    bool is_cached;         /* `data` lies in the cache */
    unsigned reader;        /* of the cache's set in which `data` lies, while the row needs them */
    bool is_recoded;        /* the cache or the fleet had it re-coded; item says how */
    struct psti_training_picture picture; /* n_ops > 0: `data` is a picture at the training size */
    bool is_wanted;                       /* the cache has reserved room for it: stored_nbytes */
    /* The tier before the storage that is asked for it, until its request has ended; NULL: none. */
    const struct psti_loader_tier_ops *asked;
    struct psti_loader_source *next_asked; /* while it is going to be asked for: of the same tier */
    bool is_late;    /* a tier was asked for it in vain, and it is read in a round of its own */
    bool is_offered; /* the fleet does not have it: it gets a copy */
    uint64_t fleet_nbytes;  /* bytes in `buffer` that came from the fleet; 0: none */
    struct psti_read *read; /* that brings `data`, from wherever; NULL: none */
    union {
        struct psti_share_wish wish; /* the request to the host service, where that is `asked` */
        struct psti_fleet_get get;   /* the request to the fleet, where that is */
    };
    struct psti_loader_page *page;   /* the decoded page in which `data` lies; or NULL */
    struct psti_shelf_item *shelved; /* its item on the loader's shelf; NULL: none */
    bool reads_shelf;                /* this row reads it, to the shelf; not done yet */
    bool waits_shelf;                /* another loader's row reads it */
    bool sparse;  /* two-round read: the first n_here bytes, then the needed rest */
    bool partial; /* `data` has only the head and the units of `stored` */
    struct psti_draw_key sound_key; /* sparse sounds: the row's */
    bool on_demand;          /* partial sounds: the decoder has the rest read where it needs it */
    uint32_t n_more;         /* reads of the second round */
    size_t n_here;           /* sparse: bytes of the first round */
    struct psti_rect stored; /* sparse: part of the stored image that the draw's region needs */
    /* Header of a PLI, which the first round has read; width 0: not parsed yet. */
    struct psti_pli_header pli;
    /* The draw made before anything was read, from the index: */
    bool is_drawn;
    struct pst_image_info drawn_for;
    struct psti_draw draw;
};

/* A row's state names what the row waits for, or has waited for. A worker takes the row from the
 * ready list, or makes it itself; the state changes when that worker takes what has come. */
enum psti_loader_row_state {
    PSTI_LOADER_ROW_ASKED,   /* for what its tiers were asked for, the storage among them */
    PSTI_LOADER_ROW_READING, /* for items that a tier did not have */
    PSTI_LOADER_ROW_MORE,    /* for the second of two reads of an item */
    PSTI_LOADER_ROW_READY    /* for nothing: the sources point to their bytes */
};

/* The items of one row. */
struct psti_loader_items {
    pst_loader *loader;
    enum psti_loader_row_state state;
    uint64_t sample;
    size_t block_nbytes;                /* memory that the items need */
    struct psti_loader_source *sources; /* [plan.n_items] */
    struct psti_read *reads;            /* [plan.n_reads] */
    uint32_t n_reads;                   /* of them, those that belong to the state */
    char *paths; /* [plan.n_items][PSTI_PATH_NBYTES], folders, also in mixtures */
    /* A request or read is done. Any thread may call it. */
    void (*done)(struct psti_loader_items *items);
    void *user; /* for `done` */
};

/* Sources that a tier is going to be asked for, in the order in which they were prepared. */
struct psti_loader_asked {
    struct psti_loader_source *first, *last;
    uint32_t n;
};

void psti_loader_asked_add(struct psti_loader_asked *asked, struct psti_loader_source *source);

/* Allocates memory for rows of the loader's plan. False: there is none; close what there is. */
bool psti_loader_items_open(struct psti_loader_items *items, pst_loader *loader);
void psti_loader_items_close(struct psti_loader_items *items);

/* Completes an error with data set, sample, and, if source is not NULL, file, offset and codec. */
void psti_loader_source_name_error(const pst_loader *loader, uint64_t sample,
                                   const struct psti_loader_source *source, struct pst_error *err);
/* Bytes of a block that the source takes for its stored bytes. */
size_t psti_loader_source_buffer_nbytes(const pst_loader *loader,
                                        const struct psti_loader_source *source);
/* Those that it takes besides for its decoded bytes, wherever the stored ones lie; 0: it has no
 * coding. */
size_t psti_loader_source_decoded_nbytes(const pst_loader *loader,
                                         const struct psti_loader_source *source);
/* The read has completed. Points the source to its bytes, or returns the error, with the sample's
 * name. */
enum pst_status psti_loader_source_take_read(const pst_loader *loader, uint64_t sample,
                                             struct psti_loader_source *source,
                                             const struct psti_read *read, struct pst_error *err);
/* Returns what the index, or the head of a kept item, says of raw pixels. */
struct pst_image_info psti_loader_source_raw_info(const struct psti_loader_source *source);

#endif
