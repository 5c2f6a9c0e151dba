/* loader_source.h - the stored items of one row, and the state of their loading.
 *
 * Items and their sources belong to the thread that has the row. No locks. */
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

/* One stored item of one row, and where its bytes come from. */
struct psti_loader_source {
    struct psti_loader_items *items;            /* all items of the row */
    const struct psti_loader_plan_field *field; /* the first plan field that is made from this
                                                   item */
    struct pst_item item;
    uint32_t variant;
    uint32_t i_form;        /* index of the item's form in the loader's form_parts; UINT32_MAX: not
                               listed there */
    struct psti_file *file; /* open file of the item, held until the row is made; NULL: the item is
                               read by path, or lies in no file */
    const char *path;       /* path of the file, for files of a folder; NULL: the item is not
                               read by path */
    uint64_t place;         /* position on the disk of the file at `path`; reads are sorted by it */
    uint64_t stamp;         /* psti_dataset_file_stamp of the file at `path`, to notice that the
                               file was changed */
    void *buffer;           /* destination of the read; NULL: nothing is read, because the item is
                               in memory or empty */
    const void *data;       /* the item's bytes; NULL: not loaded yet */
    void *decoded;          /* destination of decompressed bytes; NULL: the item is not
                               compressed */
    const void *coded;      /* after decompression: the compressed bytes, of which `data` is the
                               result; NULL: `data` are the stored bytes */
    uint64_t sample;        /* number of the sample in the data set */
    uint64_t stored_nbytes; /* length of the item in the data set, even if a tier (cache or fleet)
                               keeps it re-coded */
    bool has_sum;           /* the data set has a checksum of the stored or of the decoded bytes */
    bool is_counted;        /* true if n_unchecked has already counted the item, or need not count
                               it */
    bool is_cached;         /* `data` lies in the cache */
    unsigned reader;        /* while the row uses `data` in the cache: argument for
                               psti_cache_leave; 0: the row uses none */
    bool is_recoded;        /* the cache or the fleet delivered the item re-coded, and `item`
                               describes that form */
    struct psti_training_picture picture; /* n_ops > 0: `data` is a picture at the training size */
    bool is_wanted;                       /* the cache has reserved stored_nbytes for it */
    /* The tier, other than the storage, whose answer for this item is awaited; NULL: none. */
    const struct psti_loader_tier_ops *asked;
    struct psti_loader_source *next_asked; /* next item that the same tier will be asked for */
    bool is_late;    /* the tier that was asked lacked the item, so it is read from storage
                        afterwards */
    bool is_offered; /* the fleet lacks the item and will get a copy */
    uint64_t fleet_nbytes;  /* bytes in `buffer` that came from the fleet; 0: none */
    struct psti_read *read; /* the read that brings `data`, from any tier; NULL: none */
    union {
        struct psti_share_wish wish; /* request to the host service, if `asked` is that tier */
        struct psti_fleet_get get;   /* request to the fleet, if `asked` is that tier */
    };
    struct psti_loader_page *page;   /* decoded page that `data` lies in; NULL: none */
    struct psti_shelf_item *shelved; /* the item on the loader's shelf; NULL: it is not there */
    bool reads_shelf;                /* this row reads the item for the loader's shelf, and has
                                        not finished */
    bool waits_shelf;                /* another loader's row reads the item for the shelf */
    bool sparse;  /* the item is read in two rounds: first n_here bytes, then only the other parts
                     that the row needs */
    bool partial; /* `data` has only the image's header and those of its units that cover
                     `stored` */
    struct psti_draw_key sound_key; /* if `sparse`, for sounds: key of the row's random numbers */
    bool on_demand;          /* for a sound that is partial: the decoder itself reads the missing
                                bytes when it needs them */
    uint32_t n_more;         /* if `sparse`: number of reads in the second round */
    size_t n_here;           /* if `sparse`: bytes read in the first round */
    struct psti_rect stored; /* if `sparse`: rectangle of the stored image from which the row is
                                made */
    /* If `sparse`: the header of the PLI, parsed after the first round. Width 0: it is not parsed
     * yet. */
    struct psti_pli_header pli;
    /* The row's random parameters, if they were drawn from the size in the index before any byte
     * was read: */
    bool is_drawn;
    struct pst_image_info drawn_for;
    struct psti_draw draw;
};

/* States of a row: what it waits for, or has waited for. A worker takes the row from the ready
 * list, or makes it itself. It changes the state when it takes the bytes that have arrived. */
enum psti_loader_row_state {
    PSTI_LOADER_ROW_ASKED,   /* waits for answers of the tiers, including the storage */
    PSTI_LOADER_ROW_READING, /* waits for reads of items that a tier lacked */
    PSTI_LOADER_ROW_MORE,    /* waits for the second round of reads in two rounds */
    PSTI_LOADER_ROW_READY    /* waits for nothing: all sources point to their bytes */
};

/* The items of one row, and the reads that bring them. */
struct psti_loader_items {
    pst_loader *loader;
    enum psti_loader_row_state state;
    uint64_t sample;
    size_t block_nbytes;                /* length of the memory block that the items need */
    struct psti_loader_source *sources; /* [plan.n_items] */
    struct psti_read *reads;            /* [plan.n_reads] */
    uint32_t n_reads;                   /* number of reads in the row's present state */
    char *paths; /* [plan.n_items][PSTI_PATH_NBYTES]; for folders, also as sources of mixtures */
    /* Called when a request or read has ended, in any thread. */
    void (*done)(struct psti_loader_items *items);
    void *user; /* argument for `done` */
};

/* Sources that a tier will be asked for, in the order in which they were prepared. */
struct psti_loader_asked {
    struct psti_loader_source *first, *last;
    uint32_t n;
};

void psti_loader_asked_add(struct psti_loader_asked *asked, struct psti_loader_source *source);

/* Allocates memory for rows of the loader's plan. False: out of memory; the caller closes
 * *items. */
bool psti_loader_items_open(struct psti_loader_items *items, pst_loader *loader);
void psti_loader_items_close(struct psti_loader_items *items);

/* Adds data set and sample to an error and, if source is not NULL, file, offset and codec. */
void psti_loader_source_name_error(const pst_loader *loader, uint64_t sample,
                                   const struct psti_loader_source *source, struct pst_error *err);
/* Returns how many bytes of the row's memory block the stored item takes. */
size_t psti_loader_source_buffer_nbytes(const pst_loader *loader,
                                        const struct psti_loader_source *source);
/* Returns how many bytes of the row's memory block the decompressed item takes; 0: it is not
 * compressed. */
size_t psti_loader_source_decoded_nbytes(const pst_loader *loader,
                                         const struct psti_loader_source *source);
/* Handles a read that has ended: points the source to its bytes, or returns the error with the
 * sample's name. */
enum pst_status psti_loader_source_take_read(const pst_loader *loader, uint64_t sample,
                                             struct psti_loader_source *source,
                                             const struct psti_read *read, struct pst_error *err);
/* Returns size, channels and bits of raw pixels, from the index or from the head of a kept item. */
struct pst_image_info psti_loader_source_raw_info(const struct psti_loader_source *source);

#endif
