/* jpegs_peer.c - libjpeg-turbo through its classic interface, with the settings of Penstock's
 * default decoder: accurate integer DCT, fancy upsampling. The decompressor is reused for all
 * files. */
#include "jpegs.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jpeglib.h>

enum { ROWS = 16 };

struct peer {
    struct jpeg_decompress_struct cinfo;
    struct jpeg_error_mgr errors;
};

static void error_exit(j_common_ptr cinfo)
{
    char text[JMSG_LENGTH_MAX];
    cinfo->err->format_message(cinfo, text);
    die("libjpeg", text);
}

static void emit_message(j_common_ptr cinfo, int level)
{
    (void)cinfo;
    (void)level;
}

struct peer *peer_open(void)
{
    struct peer *peer = claim(sizeof *peer);
    peer->cinfo.err = jpeg_std_error(&peer->errors);
    peer->errors.error_exit = error_exit;
    peer->errors.emit_message = emit_message;
    jpeg_create_decompress(&peer->cinfo);
    return peer;
}

void peer_close(struct peer *peer)
{
    jpeg_destroy_decompress(&peer->cinfo);
    free(peer);
}

static void begin(struct peer *peer, const struct jpeg *jpeg)
{
    jpeg_mem_src(&peer->cinfo, jpeg->file.at, jpeg->file.nbytes);
    jpeg_read_header(&peer->cinfo, TRUE);
    peer->cinfo.dct_method = JDCT_ISLOW;
}

void peer_size(struct peer *peer, struct jpeg *jpeg)
{
    begin(peer, jpeg);
    jpeg->height = peer->cinfo.image_height;
    jpeg->width = peer->cinfo.image_width;
    jpeg->channels = peer->cinfo.num_components == 1 ? 1 : 3;
    jpeg_abort_decompress(&peer->cinfo);
}

static void read_rows(struct peer *peer, uint32_t n, uint8_t *pixels, size_t row_nbytes)
{
    JSAMPROW rows[ROWS];
    for (uint32_t y = 0; y < n;) {
        uint32_t left = n - y < ROWS ? n - y : ROWS;
        for (uint32_t i = 0; i < left; i++)
            rows[i] = pixels + (y + i) * row_nbytes;
        y += jpeg_read_scanlines(&peer->cinfo, rows, left);
    }
}

void peer_whole(struct peer *peer, const struct jpeg *jpeg, uint8_t *pixels, size_t row_nbytes)
{
    begin(peer, jpeg);
    jpeg_start_decompress(&peer->cinfo);
    read_rows(peer, jpeg->height, pixels, row_nbytes);
    jpeg_finish_decompress(&peer->cinfo);
}

void peer_region(struct peer *peer, const struct jpeg *jpeg, const struct pst_pli_region *region,
                 uint8_t *pixels, size_t row_nbytes)
{
    begin(peer, jpeg);
    jpeg_start_decompress(&peer->cinfo);
    JDIMENSION x = region->x, width = region->width;
    jpeg_crop_scanline(&peer->cinfo, &x, &width);
    if (region->y > 0)
        jpeg_skip_scanlines(&peer->cinfo, region->y);
    read_rows(peer, region->height, pixels, row_nbytes);
    jpeg_abort_decompress(&peer->cinfo);
}

void peer_encode(const struct image *image, int quality, bool subsampled, struct bytes *out)
{
    struct jpeg_compress_struct cinfo;
    struct jpeg_error_mgr errors;
    unsigned char *memory = NULL;
    unsigned long nbytes = 0;
    cinfo.err = jpeg_std_error(&errors);
    errors.error_exit = error_exit;
    jpeg_create_compress(&cinfo);
    jpeg_mem_dest(&cinfo, &memory, &nbytes);
    cinfo.image_height = image->height;
    cinfo.image_width = image->width;
    cinfo.input_components = image->channels;
    cinfo.in_color_space = image->channels == 1 ? JCS_GRAYSCALE : JCS_RGB;
    jpeg_set_defaults(&cinfo);
    jpeg_set_quality(&cinfo, quality, TRUE);
    cinfo.comp_info[0].h_samp_factor = cinfo.comp_info[0].v_samp_factor = subsampled ? 2 : 1;
    jpeg_start_compress(&cinfo, TRUE);
    for (uint32_t y = 0; y < image->height; y++) {
        JSAMPROW row = image->pixels + y * image->row_nbytes;
        jpeg_write_scanlines(&cinfo, &row, 1);
    }
    jpeg_finish_compress(&cinfo);
    jpeg_destroy_compress(&cinfo);
    out->nbytes = 0;
    bytes_put(out, memory, nbytes);
    free(memory);
}
