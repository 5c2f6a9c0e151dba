/* bench_gpu.c - decoding and preparing batches of PLI on a GPU: rates of the kernels alone, of the
 * link, and of both together.
 *
 *     bench_gpu [--ordinal N] [--repeats 5] [--seconds 0.5] [--timeline] [--l3 LIBRARY]
 *               [--json FILE] SET...
 *     SET is NAME:FOLDER:ROWS:CHAIN, CHAIN one of
 *         picture              whole images, u8 HWC (all of a set must have one size)
 *         fused:HEIGHTxWIDTH   RandomCrop + flip + Normalize to f16 NCHW, in the decoding launch
 *         resized:SIDE         RandomResizedCrop(SIDE) + flip + Normalize to f16 NCHW
 *         policy:SIDE          the same with RandAugment (2 operations, magnitude 9 of 31) before
 *                              Normalize and RandomErasing (probability 0.25) after it; "launches
 *                              alone" include the upload, because operations on contrast accumulate
 *                              sums in the uploaded memory
 *         l3:EDGE              as picture, but what is uploaded and decoded is L3 (bench/l3) with
 *                              tiles of EDGE pixels, in one launch; needs --l3 libbench_l3_cuda.so
 *         l3-each:EDGE         the same in a launch for each image, as L3 was published
 *
 * In: the .pli files of FOLDER, in the order of their names, again and again until there are ROWS.
 * Out: per set a line, and JSON: GB/s of decoded pixels and images/s for the launches alone, for
 * uploads and launches of three batches in flight, for the upload alone, and the GPU's own copy
 * rate; medians of `repeats` windows. With --timeline the JSON has the time of each part of a batch
 * that runs alone, too (gpu_timeline.h). Before a set is timed its batch is compared with what the
 * CPU makes of the same bytes; a difference ends the program with status 1.
 *
 * It sees rooms besides the front door, because it times what lies inside a loader. */
#include "gpu_l3.h"
#include "gpu_support.h"
#include "gpu_timeline.h"

#include "augment/augment.h"
#include "base/clock.h"
#include "decode/decode.h"
#include "device/device.h"
#include "gpu/gpu.h"

#include <dirent.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { N_SLOTS = 3, MAX_REPEATS = 99, MAX_SETS = 32, MAX_OPS = 6 };

struct file {
    unsigned char *bytes;
    size_t nbytes;
    struct pst_image_info info;
};

struct set {
    char name[64], folder[512], chain[64];
    uint32_t n_rows;
    struct file *files;
    uint32_t n_files;
    uint32_t height, width; /* size of the batch's rows in pixels */
    uint32_t l3_edge;       /* edge of an L3 tile in pixels; 0: the set is PLI */
    bool l3_each;
    bool has_policy;
    struct gpu_l3 *l3;
    struct psti_device *device; /* the GPU with the kernels of this set */
    struct psti_chain *ops;
    struct psti_gpu_field *field;
    struct psti_chain_output output;
    struct pst_decode_options decode;
};

/* A batch in flight. */
struct slot {
    struct psti_gpu_block *block;
    struct psti_gpu_memory memory;
    struct psti_gpu_work work;
    struct psti_stream *stream;
    struct psti_event *done;
    bool uploads_again; /* the launches leave sums of contrasts in the uploaded bytes */
    uint64_t rows;
    size_t rows_nbytes;
};

struct bench {
    struct psti_device *device, *l3_device; /* the same GPU, opened once with the kernels of PLI and
                                             * once with that of L3 */
    struct psti_decoder *decoder;
    struct psti_run *run;
    uint64_t constants;
    uint32_t repeats;
    double seconds;
    FILE *json;
    bool json_has_one;
    bool timeline;
};

struct figures {
    double pixels_nbytes, upload_nbytes; /* bytes of a batch: its decoded pixels, and its upload */
    double launches, both, upload, copy; /* seconds per batch; `copy`: the GPU copies
                                          * pixels_nbytes */
    uint32_t n_launches;
};

/* Sets
 * ------------------------------------------------------------------------------------------------
 */

static int by_name(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

/* Returns the form of a file. Byte 5 of a PLI's header, the content (format-pli.md 1), tells pixels
 * from coefficients. */
static enum pst_form form_of(const struct file *file)
{
    return file->nbytes > 5 && file->bytes[5] == 2 ? PST_FORM_PLI_JPEG : PST_FORM_PLI;
}

static void read_folder(struct bench *bench, struct set *set)
{
    struct pst_error err = {0};
    char path[1024], *names[4096];
    uint32_t n = 0;
    DIR *folder = opendir(set->folder);
    if (!folder)
        fail(set->folder, NULL);
    for (struct dirent *entry; n < 4096 && (entry = readdir(folder)) != NULL;) {
        size_t length = strlen(entry->d_name);
        if (length > 4 && strcmp(entry->d_name + length - 4, ".pli") == 0)
            names[n++] = strdup(entry->d_name);
    }
    closedir(folder);
    if (n == 0)
        fail("no .pli files", NULL);
    qsort(names, n, sizeof names[0], by_name);
    set->n_files = n < set->n_rows ? n : set->n_rows;
    set->files = claim(set->n_files * sizeof *set->files);
    for (uint32_t i = 0; i < set->n_files; i++) {
        struct file *file = &set->files[i];
        snprintf(path, sizeof path, "%s/%s", set->folder, names[i]);
        file->bytes = read_file(path, &file->nbytes);
        memset(&file->info, 0, sizeof file->info);
        check(psti_decode_probe(bench->decoder, file->bytes, file->nbytes, form_of(file),
                                &set->decode, &file->info, &err),
              path, &err);
    }
    for (uint32_t i = 0; i < n; i++)
        free(names[i]);
}

static void parse_set(const char *text, struct set *set)
{
    memset(set, 0, sizeof *set);
    if (sscanf(text, "%63[^:]:%511[^:]:%" SCNu32 ":%63s", set->name, set->folder, &set->n_rows,
               set->chain) != 4 ||
        set->n_rows == 0)
        fail("a set is NAME:FOLDER:ROWS:CHAIN", NULL);
    set->decode.struct_size = sizeof set->decode;
    set->decode.channels = 3;
    set->decode.bits = 8;
}

static uint32_t chain_ops(struct set *set, struct pst_op ops[MAX_OPS])
{
    static const float mean[3] = {0.485f, 0.456f, 0.406f}, std[3] = {0.229f, 0.224f, 0.225f};
    uint32_t n = 2;
    set->output = (struct psti_chain_output){.channels = 3, .bits = 8};
    set->l3_each = sscanf(set->chain, "l3-each:%" SCNu32, &set->l3_edge) == 1;
    if (set->l3_each || sscanf(set->chain, "l3:%" SCNu32, &set->l3_edge) == 1 ||
        strcmp(set->chain, "picture") == 0) {
        set->height = set->files[0].info.height;
        set->width = set->files[0].info.width;
        set->output.dtype = PST_DTYPE_U8;
        return 0;
    }
    if (sscanf(set->chain, "fused:%" SCNu32 "x%" SCNu32, &set->height, &set->width) == 2) {
        pst_op_init(&ops[0], sizeof ops[0], PST_OP_RANDOM_CROP);
    } else if (sscanf(set->chain, "resized:%" SCNu32, &set->height) == 1 ||
               (set->has_policy = sscanf(set->chain, "policy:%" SCNu32, &set->height) == 1)) {
        set->width = set->height;
        pst_op_init(&ops[0], sizeof ops[0], PST_OP_RANDOM_RESIZED_CROP);
    } else {
        fail("a chain is picture, fused:HxW, resized:S, policy:S, l3:E or l3-each:E", NULL);
    }
    ops[0].height = set->height;
    ops[0].width = set->width;
    pst_op_init(&ops[1], sizeof ops[1], PST_OP_HORIZONTAL_FLIP);
    for (; set->has_policy && n < 4; n++) {
        pst_op_init(&ops[n], sizeof ops[n], PST_OP_RAND_AUGMENT);
        ops[n].magnitude = 9;
    }
    pst_op_init(&ops[n], sizeof ops[n], PST_OP_NORMALIZE);
    memcpy(ops[n].mean, mean, sizeof mean);
    memcpy(ops[n++].std, std, sizeof std);
    if (set->has_policy) {
        pst_op_init(&ops[n], sizeof ops[n], PST_OP_ERASING);
        ops[n++].p = 0.25f;
    }
    set->output.dtype = PST_DTYPE_F16;
    set->output.layout = PST_LAYOUT_CHW;
    return n;
}

static void open_set(struct bench *bench, struct set *set)
{
    struct pst_error err = {0};
    struct pst_op ops[MAX_OPS];
    read_folder(bench, set);
    uint32_t n_ops = chain_ops(set, ops);
    check(psti_augment_chain_compile(ops, n_ops, &set->output, &set->ops, &err), set->name, &err);
    const struct psti_gpu_field_options options = {.chain = set->ops,
                                                   .decode = set->decode,
                                                   .output = set->output,
                                                   .height = set->height,
                                                   .width = set->width};
    check(psti_gpu_field_open(&options, &set->field, &err), set->name, &err);
    set->device = set->l3_edge ? bench->l3_device : bench->device;
    if (!set->device)
        fail("L3 needs --l3 LIBRARY", NULL);
}

static void close_set(struct set *set)
{
    for (uint32_t i = 0; i < set->n_files; i++)
        free(set->files[i].bytes);
    free(set->files);
    gpu_l3_close(&set->l3);
    psti_gpu_field_close(&set->field);
    psti_augment_chain_free(&set->ops);
}

static const struct file *file_of(const struct set *set, uint32_t row)
{
    return &set->files[row % set->n_files];
}

static void draw_row(const struct set *set, uint32_t row, struct psti_draw *draw)
{
    struct pst_error err = {0};
    const struct file *file = file_of(set, row);
    check(psti_augment_chain_draw(set->ops, &(struct psti_draw_key){.seed = 1, .sample = row},
                                  file->info.height, file->info.width, draw, &err),
          set->name, &err);
}

/* Slots
 * ------------------------------------------------------------------------------------------------
 */

/* Computes the size of a slot's memory. Every row has space for the largest file. */
static struct psti_gpu_block_size slot_size(const struct set *set)
{
    struct psti_gpu_item_size item = {.form = set->files[0].info.form, .channels = 3, .bits = 8};
    struct psti_gpu_block_size size;
    const struct psti_gpu_field *fields[1] = {set->field};
    for (uint32_t i = 0; i < set->n_files; i++) {
        const struct file *file = &set->files[i];
        item.nbytes = file->nbytes > item.nbytes ? file->nbytes : item.nbytes;
        if (file->info.height > item.height)
            item.height = file->info.height;
        if (file->info.width > item.width)
            item.width = file->info.width;
    }
    psti_gpu_block_size(fields, &item, 1, set->n_rows, &size);
    return size;
}

/* Plans the batch's work for PLI. The stored bytes are copied to the block's pinned memory. */
static void plan_pli(const struct set *set, struct slot *slot)
{
    struct pst_error err = {0};
    const struct psti_gpu_field *fields[1] = {set->field};
    check(psti_gpu_block_open(fields, 1, set->n_rows, &slot->memory, &slot->block, &err), "block",
          &err);
    psti_gpu_block_begin(slot->block);
    for (uint32_t row = 0; row < set->n_rows; row++) {
        const struct file *file = file_of(set, row);
        const struct psti_gpu_item item = {file->bytes, file->nbytes, &file->info, true, NULL};
        struct psti_draw draw;
        draw_row(set, row, &draw);
        check(psti_gpu_block_row(slot->block, 0, row, &item, &draw, NULL, &err), "row", &err);
    }
    check(psti_gpu_block_work(slot->block, &slot->rows, NULL, &slot->work, &err), "work", &err);
}

static void open_slot(struct bench *bench, const struct set *set, struct slot *slot,
                      uint32_t i_slot)
{
    struct pst_error err = {0};
    struct psti_gpu_block_size size = {0};
    struct psti_gpu_memory *memory = &slot->memory;
    struct psti_device_info info;
    if (set->l3)
        size.upload_nbytes = gpu_l3_upload_nbytes(set->l3);
    else
        size = slot_size(set);
    psti_device_info(set->device, &info);
    memset(slot, 0, sizeof *slot);
    memory->upload_nbytes = size.upload_nbytes;
    memory->scratch_nbytes = size.scratch_nbytes;
    memory->constants = bench->constants;
    memory->n_processors = info.n_processors;
    memory->shared_nbytes_max = info.shared_nbytes_max;
    slot->uploads_again = set->has_policy;
    slot->rows_nbytes = set->n_rows * psti_gpu_field_row_nbytes(set->field);
    check(psti_device_alloc_pinned(set->device, size.upload_nbytes, &memory->pinned, &err),
          "pinned memory", &err);
    check(psti_device_alloc(set->device, size.upload_nbytes, &memory->upload, &err), "memory",
          &err);
    check(psti_device_alloc(set->device, size.scratch_nbytes + 1, &memory->scratch, &err), "memory",
          &err);
    check(psti_device_alloc(set->device, slot->rows_nbytes, &slot->rows, &err), "memory", &err);
    check(psti_device_stream_open(set->device, false, &slot->stream, &err), "stream", &err);
    check(psti_device_event_open(set->device, &slot->done, &err), "event", &err);
    if (set->l3)
        gpu_l3_work(set->l3, i_slot, memory->pinned, memory->upload, slot->rows, &slot->work);
    else
        plan_pli(set, slot);
}

static void close_slot(const struct set *set, struct slot *slot)
{
    psti_gpu_block_close(&slot->block);
    psti_device_event_close(&slot->done);
    psti_device_stream_close(&slot->stream);
    psti_device_free(set->device, slot->rows, slot->rows_nbytes);
    psti_device_free(set->device, slot->memory.scratch, slot->memory.scratch_nbytes + 1);
    psti_device_free(set->device, slot->memory.upload, slot->memory.upload_nbytes);
    psti_device_free_pinned(set->device, slot->memory.pinned, slot->memory.upload_nbytes);
}

static void upload(struct slot *slot)
{
    struct pst_error err = {0};
    check(psti_device_stream_upload(slot->stream, slot->memory.upload, slot->memory.pinned,
                                    slot->work.upload_nbytes, &err),
          "upload", &err);
}

static void launch(struct slot *slot)
{
    struct pst_error err = {0};
    for (uint32_t i = 0; i < slot->work.n_launches; i++) {
        const struct psti_gpu_launch *l = &slot->work.launches[i];
        check(psti_device_stream_launch(slot->stream, l->kernel, l->n_blocks, l->n_warps,
                                        l->shared_nbytes, l->args, l->args_nbytes, &err),
              "launch", &err);
    }
}

/* Launches a slot again that was uploaded before. What the last launch left in the upload is
 * cleared first. */
static void launch_again(struct slot *slot)
{
    struct pst_error err = {0};
    if (slot->uploads_again)
        upload(slot);
    else
        check(psti_device_stream_clear(slot->stream, slot->memory.upload, slot->work.cleared_nbytes,
                                       &err),
              "clear", &err);
    launch(slot);
}

static void wait_for(struct slot *slot)
{
    struct pst_error err = {0};
    check(psti_device_stream_sync(slot->stream, &err), "the GPU", &err);
}

/* Checking
 * ------------------------------------------------------------------------------------------------
 */

static void make_row(struct bench *bench, const struct set *set, uint32_t row, unsigned char *to)
{
    struct pst_error err = {0};
    const struct file *file = file_of(set, row);
    struct psti_draw draw;
    draw_row(set, row, &draw);
    const struct psti_rect region = {draw.region_y, draw.region_x, draw.region_height,
                                     draw.region_width};
    size_t pixel = pst_dtype_nbytes(set->output.dtype) *
                   (set->output.layout == PST_LAYOUT_CHW ? 1 : set->output.channels);
    const struct psti_target target = {to, set->width * pixel};
    check(psti_augment_run_begin(bench->run, set->ops, &draw, &target, &err), "CPU", &err);
    check(psti_decode_rows(bench->decoder, file->bytes, file->nbytes, &file->info, &set->decode,
                           &region, psti_augment_run_rows, bench->run, &err),
          "CPU", &err);
    check(psti_augment_run_end(bench->run, &err), "CPU", &err);
}

/* Decodes the files and encodes their pixels as L3. */
static void encode_l3(struct bench *bench, struct set *set)
{
    unsigned char *pixels = claim(psti_gpu_field_row_nbytes(set->field));
    set->l3 = gpu_l3_open(&(struct gpu_l3_options){.n_files = set->n_files,
                                                   .n_rows = set->n_rows,
                                                   .n_slots = N_SLOTS,
                                                   .height = set->height,
                                                   .width = set->width,
                                                   .edge = set->l3_edge,
                                                   .each = set->l3_each});
    for (uint32_t i = 0; i < set->n_files; i++) {
        make_row(bench, set, i, pixels);
        gpu_l3_file(set->l3, i, pixels);
    }
    free(pixels);
}

/* Clears the rows, runs `launches`, and compares the rows with those that the CPU makes. */
static void compare(struct bench *bench, const struct set *set, struct slot *slot,
                    void (*launches)(struct slot *slot))
{
    struct pst_error err = {0};
    size_t nbytes = psti_gpu_field_row_nbytes(set->field);
    void *found;
    unsigned char *expected = claim(nbytes);
    check(psti_device_alloc_pinned(set->device, nbytes, &found, &err), "pinned memory", &err);
    check(psti_device_stream_clear(slot->stream, slot->rows, slot->rows_nbytes, &err), "clear",
          &err);
    check(psti_device_stream_clear(slot->stream, slot->memory.scratch, slot->memory.scratch_nbytes,
                                   &err),
          "clear", &err);
    launches(slot);
    for (uint32_t row = 0; row < set->n_rows; row++) {
        check(psti_device_stream_download(slot->stream, found, slot->rows + row * nbytes, nbytes,
                                          &err),
              "download", &err);
        wait_for(slot);
        make_row(bench, set, row, expected);
        if (memcmp(found, expected, nbytes) != 0) {
            fprintf(stderr, "bench_gpu: set %s: row %u of the GPU is not the CPU's\n", set->name,
                    row);
            exit(1);
        }
    }
    psti_device_free_pinned(set->device, found, nbytes);
    free(expected);
}

/* Timing
 * ------------------------------------------------------------------------------------------------
 */

typedef void (*action_fn)(struct slot *slots, uint32_t i);

static void do_launches(struct slot *slots, uint32_t i)
{
    /* Slots alternate, because a second launch of the same slot would profit from the GPU's
     * caches. */
    launch_again(&slots[i % N_SLOTS]);
}

static void do_upload(struct slot *slots, uint32_t i) { upload(&slots[i % N_SLOTS]); }

static void do_both(struct slot *slots, uint32_t i)
{
    upload(&slots[i % N_SLOTS]);
    launch(&slots[i % N_SLOTS]);
}

static void do_copy(struct slot *slots, uint32_t i)
{
    struct pst_error err = {0};
    struct slot *from = &slots[i % N_SLOTS], *to = &slots[(i + 1) % N_SLOTS];
    check(psti_device_stream_copy(to->stream, to->rows, from->rows, to->rows_nbytes, &err), "copy",
          &err);
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

/* Returns the seconds per call of `action`. Each call handles one batch; the slots' streams run in
 * parallel. */
static double time_action(const struct bench *bench, struct slot *slots, action_fn action)
{
    double values[MAX_REPEATS];
    for (uint32_t r = 0; r < bench->repeats; r++) {
        uint32_t n = 0;
        int64_t start = psti_clock_ns(), end;
        do {
            for (uint32_t i = 0; i < 4 * N_SLOTS; i++)
                action(slots, n++);
            for (uint32_t i = 0; i < N_SLOTS; i++)
                wait_for(&slots[i]);
            end = psti_clock_ns();
        } while ((double)(end - start) < bench->seconds * 1e9);
        values[r] = (double)(end - start) / 1e9 / n;
    }
    qsort(values, bench->repeats, sizeof values[0], by_value);
    return values[bench->repeats / 2];
}

static double region_nbytes(const struct set *set)
{
    double sum = 0;
    for (uint32_t row = 0; row < set->n_rows; row++) {
        struct psti_draw draw;
        draw_row(set, row, &draw);
        sum += 3.0 * draw.region_height * draw.region_width;
    }
    return sum;
}

static void report(struct bench *bench, const struct set *set, const struct slot *slot,
                   const struct figures *f)
{
    double n = set->n_rows;
    printf(
        "%-24s %5u rows, %u launches: launches %8.1f GB/s %9.0f images/s; with upload %7.1f GB/s "
        "%9.0f images/s; link %6.1f GB/s; copy on the GPU %7.1f GB/s\n",
        set->name, set->n_rows, f->n_launches, f->pixels_nbytes / f->launches / 1e9,
        n / f->launches, f->pixels_nbytes / f->both / 1e9, n / f->both,
        f->upload_nbytes / f->upload / 1e9, f->copy / 1e9);
    if (!bench->json)
        return;
    fprintf(bench->json,
            "%s\n  {\"set\": \"%s\", \"chain\": \"%s\", \"rows\": %u, \"pixels_nbytes\": %.0f, "
            "\"upload_nbytes\": %.0f, \"n_launches\": %u, \"launches_s\": %.9f, \"both_s\": %.9f, "
            "\"upload_s\": %.9f, \"copy_bytes_per_s\": %.0f",
            bench->json_has_one ? "," : "", set->name, set->chain, set->n_rows, f->pixels_nbytes,
            f->upload_nbytes, f->n_launches, f->launches, f->both, f->upload, f->copy);
    if (bench->timeline) {
        const struct gpu_timeline_batch batch = {
            .device = set->device,
            .stream = slot->stream,
            .pinned = slot->memory.pinned,
            .upload = slot->memory.upload,
            .work = &slot->work,
            .kernels = set->l3_edge ? &gpu_l3_kernel : psti_gpu_kernel_names(),
        };
        fprintf(bench->json, ", \"timeline\": ");
        gpu_timeline(&batch, bench->json);
    }
    fprintf(bench->json, "}");
    bench->json_has_one = true;
}

static void run_set(struct bench *bench, struct set *set)
{
    struct slot slots[N_SLOTS];
    struct figures f = {.pixels_nbytes = region_nbytes(set)};
    if (set->l3_edge)
        encode_l3(bench, set);
    for (uint32_t i = 0; i < N_SLOTS; i++)
        open_slot(bench, set, &slots[i], i);
    for (uint32_t i = 0; i < N_SLOTS; i++)
        upload(&slots[i]);
    compare(bench, set, &slots[0], launch); /* all slots have equal rows: compare one */
    compare(bench, set, &slots[0], launch_again);
    for (uint32_t i = 1; i < N_SLOTS; i++)
        wait_for(&slots[i]);
    f.n_launches = slots[0].work.n_launches;
    f.upload_nbytes = (double)slots[0].work.upload_nbytes;
    f.launches = time_action(bench, slots, do_launches);
    f.both = time_action(bench, slots, do_both);
    f.upload = time_action(bench, slots, do_upload);
    f.copy = 2.0 * (double)slots[0].rows_nbytes / time_action(bench, slots, do_copy);
    report(bench, set, &slots[0], &f);
    for (uint32_t i = 0; i < N_SLOTS; i++)
        close_slot(set, &slots[i]);
}

/* The program
 * ------------------------------------------------------------------------------------------------
 */

static void open_gpu(struct bench *bench, uint32_t ordinal)
{
    struct pst_error err = {0};
    const struct psti_device_options options = {.ordinal = ordinal};
    struct psti_stream *stream;
    size_t nbytes = psti_gpu_constants_nbytes();
    void *pinned;
    check(psti_device_open(&options, &bench->device, &err), "no GPU", &err);
    check(psti_device_load_kernels(bench->device, psti_gpu_kernel_names(),
                                   (uint32_t)psti_gpu_kernel_count(), &err),
          "no kernels", &err);
    check(psti_device_alloc_pinned(bench->device, nbytes, &pinned, &err), "pinned memory", &err);
    check(psti_device_alloc(bench->device, nbytes, &bench->constants, &err), "memory", &err);
    check(psti_device_stream_open(bench->device, false, &stream, &err), "stream", &err);
    psti_gpu_constants_write(pinned);
    check(psti_device_stream_upload(stream, bench->constants, pinned, nbytes, &err), "upload",
          &err);
    check(psti_device_stream_sync(stream, &err), "the GPU", &err);
    psti_device_stream_close(&stream);
    psti_device_free_pinned(bench->device, pinned, nbytes);
}

/* Opens the same GPU a second time, for the kernel of L3. It is called after open_gpu, because an
 * environment variable names the library of kernels. */
static void open_l3(struct bench *bench, uint32_t ordinal, const char *library)
{
    struct pst_error err = {0};
    const struct psti_device_options options = {.ordinal = ordinal};
    if (setenv("PENSTOCK_CUDA_KERNELS", library, 1) != 0)
        fail(library, NULL);
    check(psti_device_open(&options, &bench->l3_device, &err), "no GPU", &err);
    check(psti_device_load_kernels(bench->l3_device, &gpu_l3_kernel, 1, &err), "no kernel of L3",
          &err);
}

static void close_gpu(struct bench *bench)
{
    psti_device_free(bench->device, bench->constants, psti_gpu_constants_nbytes());
    psti_device_close(&bench->l3_device);
    psti_device_close(&bench->device);
}

static void begin_json(struct bench *bench, const char *path)
{
    struct psti_device_info info;
    bench->json = fopen(path, "w");
    if (!bench->json)
        fail(path, NULL);
    psti_device_info(bench->device, &info);
    fprintf(bench->json,
            "{\"what\": \"gpu\", \"gpu\": \"%s\", \"capability\": \"%u.%u\", \"processors\": %u, "
            "\"driver\": %u, \"repeats\": %u, \"sets\": [",
            info.name, info.capability_major, info.capability_minor, info.n_processors,
            info.driver_version, bench->repeats);
}

static uint32_t number(const char *text, uint32_t most)
{
    char *end;
    unsigned long v = text ? strtoul(text, &end, 10) : 0;
    if (!text || *end || v > most)
        fail("a number was expected", NULL);
    return (uint32_t)v;
}

int main(int argc, char **argv)
{
    struct bench bench = {.repeats = 5, .seconds = 0.5};
    struct pst_error err = {0};
    const char *json = NULL, *l3 = NULL, *sets[MAX_SETS];
    uint32_t n_sets = 0, ordinal = 0;
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--ordinal") == 0)
            ordinal = number(argv[++i], 255);
        else if (strcmp(argv[i], "--repeats") == 0)
            bench.repeats = number(argv[++i], MAX_REPEATS);
        else if (strcmp(argv[i], "--seconds") == 0 && i + 1 < argc)
            bench.seconds = strtod(argv[++i], NULL);
        else if (strcmp(argv[i], "--timeline") == 0)
            bench.timeline = true;
        else if (strcmp(argv[i], "--json") == 0 && i + 1 < argc)
            json = argv[++i];
        else if (strcmp(argv[i], "--l3") == 0 && i + 1 < argc)
            l3 = argv[++i];
        else if (n_sets < MAX_SETS)
            sets[n_sets++] = argv[i];
    }
    if (n_sets == 0 || bench.repeats == 0)
        fail("bench_gpu [--ordinal N] [--repeats N] [--seconds S] [--timeline] [--l3 LIBRARY] "
             "[--json FILE] NAME:FOLDER:ROWS:CHAIN...",
             NULL);
    open_gpu(&bench, ordinal);
    if (l3)
        open_l3(&bench, ordinal, l3);
    check(psti_decode_open(&bench.decoder, &err), "decoder", &err);
    check(psti_augment_run_open(&bench.run, &err), "run", &err);
    if (json)
        begin_json(&bench, json);
    for (uint32_t i = 0; i < n_sets; i++) {
        struct set set;
        parse_set(sets[i], &set);
        open_set(&bench, &set);
        run_set(&bench, &set);
        close_set(&set);
    }
    if (bench.json && (fprintf(bench.json, "\n]}\n") < 0 || fclose(bench.json) != 0))
        fail(json, NULL);
    psti_augment_run_close(&bench.run);
    psti_decode_close(&bench.decoder);
    close_gpu(&bench);
    return 0;
}
