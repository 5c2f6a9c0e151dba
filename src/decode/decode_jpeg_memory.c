/* decode_jpeg_memory.c - a memory manager for libjpeg that allocates from the decoder's arena.
 *
 * libjpeg's own manager calls malloc again for every image. Here all pools allocate from the
 * decoder's arena, which is emptied before each image, so freeing a pool does nothing. Tables that
 * libjpeg would keep from image to image (JPOOL_PERMANENT) lie in the arena too.
 * psti_decode_jpeg_rows makes libjpeg forget these tables before each image, to avoid decoding an
 * image with the tables of another. Rows are aligned and padded for libjpeg-turbo's SIMD code,
 * which may read and write past the end of a row. */
#include "decode/decode_jpeg.h"

#include "base/bits.h"
#include "base/checked.h"

#include <jerror.h>
#include <string.h>

#define ROW_ALIGNMENT 64

/* jpeglib.h only declares these structs. Each memory manager defines their members. */
struct jvirt_sarray_control {
    JSAMPARRAY rows; /* NULL until realise() takes the memory */
    JDIMENSION n_rows, row_length;
    boolean zeroed;
    struct jvirt_sarray_control *next;
};

struct jvirt_barray_control {
    JBLOCKARRAY rows; /* NULL until realise() takes the memory */
    JDIMENSION n_rows, row_length;
    boolean zeroed;
    struct jvirt_barray_control *next;
};

static void *take(j_common_ptr cinfo, int pool, size_t nbytes)
{
    struct psti_jpeg *jpeg = cinfo->client_data;
    enum pst_status status = PST_OK;
    (void)pool;
    void *memory = psti_decode_alloc(jpeg->job, nbytes, &status);
    if (!memory)
        psti_decode_jpeg_escape(jpeg, status);
    return memory;
}

/* Allocates n_rows rows of row_nbytes in one piece, and an array of pointers to the rows. Returns
 * this array. */
static void **take_rows(j_common_ptr cinfo, size_t row_nbytes, JDIMENSION n_rows, bool zeroed)
{
    size_t nbytes, stride = psti_round_up(row_nbytes, ROW_ALIGNMENT);
    if (!psti_mul_size(stride, n_rows, &nbytes))
        nbytes = SIZE_MAX; /* take() fails for this size */
    void **rows = take(cinfo, JPOOL_IMAGE, (size_t)n_rows * sizeof *rows);
    char *memory = take(cinfo, JPOOL_IMAGE, nbytes);
    if (zeroed)
        memset(memory, 0, nbytes);
    for (JDIMENSION i = 0; i < n_rows; i++)
        rows[i] = memory + i * stride;
    return rows;
}

static JSAMPARRAY take_sample_rows(j_common_ptr cinfo, int pool, JDIMENSION row_length,
                                   JDIMENSION n_rows)
{
    (void)pool;
    return (JSAMPARRAY)take_rows(cinfo, row_length, n_rows, false);
}

static JBLOCKARRAY take_block_rows(j_common_ptr cinfo, int pool, JDIMENSION row_length,
                                   JDIMENSION n_rows)
{
    (void)pool;
    return (JBLOCKARRAY)take_rows(cinfo, (size_t)row_length * sizeof(JBLOCK), n_rows, false);
}

static jvirt_sarray_ptr request_samples(j_common_ptr cinfo, int pool, boolean zeroed,
                                        JDIMENSION row_length, JDIMENSION n_rows,
                                        JDIMENSION max_access)
{
    struct psti_jpeg *jpeg = cinfo->client_data;
    jvirt_sarray_ptr array = take(cinfo, pool, sizeof *array);
    (void)max_access;
    *array = (struct jvirt_sarray_control){NULL, n_rows, row_length, zeroed, jpeg->samples};
    jpeg->samples = array;
    return array;
}

static jvirt_barray_ptr request_blocks(j_common_ptr cinfo, int pool, boolean zeroed,
                                       JDIMENSION row_length, JDIMENSION n_rows,
                                       JDIMENSION max_access)
{
    struct psti_jpeg *jpeg = cinfo->client_data;
    jvirt_barray_ptr array = take(cinfo, pool, sizeof *array);
    (void)max_access;
    *array = (struct jvirt_barray_control){NULL, n_rows, row_length, zeroed, jpeg->blocks};
    jpeg->blocks = array;
    return array;
}

static void realise(j_common_ptr cinfo)
{
    struct psti_jpeg *jpeg = cinfo->client_data;
    for (jvirt_sarray_ptr a = jpeg->samples; a; a = a->next)
        if (!a->rows)
            a->rows = (JSAMPARRAY)take_rows(cinfo, a->row_length, a->n_rows, a->zeroed);
    for (jvirt_barray_ptr a = jpeg->blocks; a; a = a->next)
        if (!a->rows)
            a->rows = (JBLOCKARRAY)take_rows(cinfo, (size_t)a->row_length * sizeof(JBLOCK),
                                             a->n_rows, a->zeroed);
}

static JSAMPARRAY access_samples(j_common_ptr cinfo, jvirt_sarray_ptr array, JDIMENSION start,
                                 JDIMENSION n_rows, boolean writable)
{
    (void)writable;
    if (!array->rows || !psti_range_fits(start, n_rows, array->n_rows))
        ERREXIT(cinfo, JERR_BAD_VIRTUAL_ACCESS);
    return array->rows + start;
}

static JBLOCKARRAY access_blocks(j_common_ptr cinfo, jvirt_barray_ptr array, JDIMENSION start,
                                 JDIMENSION n_rows, boolean writable)
{
    (void)writable;
    if (!array->rows || !psti_range_fits(start, n_rows, array->n_rows))
        ERREXIT(cinfo, JERR_BAD_VIRTUAL_ACCESS);
    return array->rows + start;
}

static void free_pool(j_common_ptr cinfo, int pool)
{
    struct psti_jpeg *jpeg = cinfo->client_data;
    (void)pool;
    jpeg->samples = NULL;
    jpeg->blocks = NULL;
}

static void self_destruct(j_common_ptr cinfo) { (void)cinfo; }

void psti_decode_jpeg_install_memory(struct psti_jpeg *jpeg)
{
    jpeg->memory_of_libjpeg = jpeg->cinfo.mem;
    jpeg->memory = (struct jpeg_memory_mgr){.alloc_small = take,
                                            .alloc_large = take,
                                            .alloc_sarray = take_sample_rows,
                                            .alloc_barray = take_block_rows,
                                            .request_virt_sarray = request_samples,
                                            .request_virt_barray = request_blocks,
                                            .realize_virt_arrays = realise,
                                            .access_virt_sarray = access_samples,
                                            .access_virt_barray = access_blocks,
                                            .free_pool = free_pool,
                                            .self_destruct = self_destruct,
                                            .max_memory_to_use = 0,
                                            .max_alloc_chunk = 1000000000};
    jpeg->cinfo.mem = &jpeg->memory;
}
