/* cmd_view.c - the verb view: draws samples, as stored or as operations make them, side by side on
 * one PNG, with labels, masks, boxes and keypoints. */
#include "json_read.h"
#include "view.h"

#include <stdlib.h>
#include <string.h>

enum { TILES_MAX = 4096, GAP = 8, SIDE_MIN = 32, SIDE_MAX = 2048, PIXELS_MAX = 1 << 28 };

/* What became of one tile. */
struct tile {
    uint64_t sample, epoch;
    struct view_area area; /* of the picture in the sheet */
    int height, width;     /* of the picture itself */
    uint32_t n_boxes, n_points;
    bool has_mask;
    struct pst_error bad; /* status PST_OK: drawn */
};
struct view {
    struct cli *cli;
    pst_dataset *dataset;
    pst_loader *loader;
    struct view_transforms *transforms;
    struct view_choice choice;
    struct view_fields fields;
    struct cli_source source;
    const char *output, *transforms_path;
    uint64_t side, columns, epoch, epochs;
    bool batch, by_name;
    uint64_t begin, end; /* samples, or positions of the epoch with --batch */
    struct tile *tiles;
    size_t n_tiles;
    struct view_canvas canvas;
};

static const struct view_color white = {240, 240, 240}, grey = {160, 160, 160},
                               paper = {32, 32, 36}, red = {255, 96, 96};

/* Height of the text below a picture: a line of double size and one of single size. */
static int caption_height(void) { return 3 * VIEW_CELL_HEIGHT + 6; }

static struct view_area cell_of(const struct view *view, size_t i)
{
    int side = (int)view->side, column = (int)(i % view->columns), row = (int)(i / view->columns);
    return (struct view_area){GAP + row * (side + caption_height() + GAP),
                              GAP + column * (side + GAP), side, side};
}

/* The largest area in the cell with the picture's proportions; small pictures grow by whole
 * numbers. */
static struct view_area place(struct view_area cell, int height, int width)
{
    int longer = height > width ? height : width, times = cell.height / longer;
    int h = times >= 1 ? height * times : (int)((int64_t)height * cell.height / longer);
    int w = times >= 1 ? width * times : (int)((int64_t)width * cell.width / longer);
    h = h < 1 ? 1 : h;
    w = w < 1 ? 1 : w;
    return (struct view_area){cell.y + (cell.height - h) / 2, cell.x + (cell.width - w) / 2, h, w};
}

/* Labels of boxes, one after another: numbers of an array, or texts and numbers of a JSON list. */
struct labels {
    const struct view_sample *sample;
    const pst_dataset *dataset; /* its field i_field has the classes' names, if they have any */
    int i_field;
    void *text;
    struct json_node *nodes;
    const struct json_node *next;
    bool any;
};

static void labels_begin(struct labels *labels, const struct view *view,
                         const struct view_sample *sample)
{
    const struct pst_tensor *row = &sample->box_labels;
    struct pst_error err;
    *labels = (struct labels){
        .sample = sample, .dataset = view->dataset, .i_field = view->fields.box_labels};
    if (row->data == NULL || row->shape[0] == 0 || row->shape[0] > 1 << 20)
        return;
    if (!sample->box_labels_json) {
        labels->any = row->ndim == 1 && row->shape[0] == (int64_t)sample->n_boxes;
        return;
    }
    size_t nbytes = (size_t)row->shape[0];
    labels->text = malloc(nbytes + 1);
    labels->nodes = malloc(JSON_NODES(nbytes) * sizeof *labels->nodes);
    if (labels->text == NULL || labels->nodes == NULL)
        return;
    memcpy(labels->text, row->data, nbytes);
    ((char *)labels->text)[nbytes] = '\0';
    labels->any = json_read(labels->text, nbytes, labels->nodes, &err) == PST_OK &&
                  labels->nodes[0].kind == JSON_LIST && labels->nodes[0].n == sample->n_boxes;
    labels->next = labels->any ? labels->nodes[0].first : NULL;
}

static void labels_end(struct labels *labels)
{
    free(labels->text);
    free(labels->nodes);
}

/* Writes the label of box i, "" if it has none. Boxes are asked for in order. */
static void labels_next(struct labels *labels, uint32_t i, char *text, size_t capacity)
{
    const struct pst_tensor *row = &labels->sample->box_labels;
    text[0] = '\0';
    if (!labels->any)
        return;
    if (labels->nodes != NULL) {
        const struct json_node *node = labels->next;
        labels->next = node->next;
        if (node->kind == JSON_TEXT)
            snprintf(text, capacity, "%s", node->text);
        else if (node->kind == JSON_NUMBER)
            snprintf(text, capacity, "%g", node->number);
        return;
    }
    int64_t number = row->dtype == PST_DTYPE_I64   ? ((const int64_t *)row->data)[i]
                     : row->dtype == PST_DTYPE_I32 ? ((const int32_t *)row->data)[i]
                                                   : ((const uint8_t *)row->data)[i];
    const char *name = pst_dataset_class_name(labels->dataset, (uint32_t)labels->i_field, number);
    if (name != NULL)
        snprintf(text, capacity, "%s", name);
    else
        snprintf(text, capacity, "%lld", (long long)number);
}

/* A colour that is the same for equal labels; without labels boxes are numbered. */
static struct view_color box_color(const char *label, uint32_t i)
{
    uint64_t hash = i;
    if (label[0] != '\0')
        hash = 0;
    for (const char *s = label; *s != '\0'; s++)
        hash = s[0] >= '0' && s[0] <= '9' ? 10 * hash + (uint64_t)(*s - '0')
                                          : 31 * hash + (unsigned char)*s;
    return view_palette(hash);
}

/* Writes a label on its colour, above the box or, at the upper edge, inside it. */
static void draw_box_label(struct view *view, struct view_area area, const float corners[4],
                           const char *label, struct view_color color)
{
    int height = VIEW_CELL_HEIGHT + 2, room = area.x + area.width - (int)corners[0];
    int width = view_text_cells(label) * VIEW_CELL_WIDTH + 3;
    int y = (int)corners[1] - height, x = (int)corners[0];
    y = y < area.y ? (int)corners[1] : y;
    y = y + height > area.y + area.height ? area.y + area.height - height : y;
    width = width > room ? room : width;
    if (width < 4 * VIEW_CELL_WIDTH && width < view_text_cells(label) * VIEW_CELL_WIDTH)
        return;
    view_fill(&view->canvas, (struct view_area){y, x, height, width}, color);
    view_text(&view->canvas, y + 2, x + 2, width - 2, 1, label, false,
              (struct view_color){0, 0, 0});
}

static uint32_t draw_boxes(struct view *view, struct view_area area,
                           const struct view_sample *sample)
{
    float sy = (float)area.height / (float)sample->height,
          sx = (float)area.width / (float)sample->width;
    struct labels labels;
    uint32_t n_drawn = 0;
    labels_begin(&labels, view, sample);
    for (uint32_t i = 0; i < sample->n_boxes; i++) {
        const float *box = sample->boxes + 4 * (size_t)i;
        char text[64];
        labels_next(&labels, i, text, sizeof text);
        if ((box[2] - box[0]) * (box[3] - box[1]) < 1) /* the loader would have dropped it */
            continue;
        float corners[4] = {(float)area.x + box[0] * sx, (float)area.y + box[1] * sy,
                            (float)area.x + box[2] * sx, (float)area.y + box[3] * sy};
        struct view_color color = box_color(text, i);
        view_box(&view->canvas, area, corners, color);
        if (text[0] != '\0')
            draw_box_label(view, area, corners, text, color);
        n_drawn++;
    }
    labels_end(&labels);
    return n_drawn;
}

static void draw_points(struct view *view, struct view_area area, const struct view_sample *sample)
{
    float sy = (float)area.height / (float)sample->height,
          sx = (float)area.width / (float)sample->width;
    for (uint32_t i = 0; i < sample->n_points; i++) {
        const float *point = sample->points + 3 * (size_t)i;
        view_point(&view->canvas, area, (float)area.y + point[1] * sy,
                   (float)area.x + point[0] * sx, 3, point[2] > 0, view_palette(i));
    }
}

static void draw_caption(struct view *view, const struct tile *tile, struct view_area cell,
                         int64_t label)
{
    char line[160], name[PST_NAME_CAP];
    const char *class_name = NULL;
    int y = cell.y + cell.height + 4;
    size_t n = (size_t)snprintf(line, sizeof line, "%llu", (unsigned long long)tile->sample);
    if (view->epochs > 1)
        n += (size_t)snprintf(line + n, sizeof line - n, " e%llu", (unsigned long long)tile->epoch);
    if (view->fields.label >= 0 && label >= 0)
        class_name = pst_dataset_class_name(view->dataset, (uint32_t)view->fields.label, label);
    if (class_name != NULL)
        snprintf(line + n, sizeof line - n, " %s", class_name);
    else if (label >= 0)
        snprintf(line + n, sizeof line - n, " label %lld", (long long)label);
    view_text(&view->canvas, y, cell.x, cell.width, 2, line, false, white);
    if (pst_dataset_sample_name(view->dataset, tile->sample, name, NULL) == PST_OK)
        view_text(&view->canvas, y + 2 * VIEW_CELL_HEIGHT, cell.x, cell.width, 1, name, true, grey);
}

/* Writes what is wrong with a sample into its cell, line by line. */
static void draw_bad(struct view *view, const struct tile *tile, struct view_area cell)
{
    int room = cell.width / VIEW_CELL_WIDTH - 2, y = cell.y + 2 * VIEW_CELL_HEIGHT + 8;
    char line[PST_ERROR_TEXT_CAP];
    view_fill(&view->canvas, cell, (struct view_color){64, 16, 16});
    view_text(&view->canvas, cell.y + 4, cell.x + 4, cell.width - 4, 2, "bad sample", false, red);
    for (const char *text = tile->bad.text; *text != '\0' && y < cell.y + cell.height - 10;
         y += VIEW_CELL_HEIGHT) {
        int n = snprintf(line, sizeof line, "%.*s", room, text);
        view_text(&view->canvas, y, cell.x + 4, cell.width - 4, 1, line, false, white);
        text += n < 1 ? 1 : n;
    }
}

static enum pst_status draw_sample(struct view *view, struct tile *tile, struct view_area cell,
                                   const pst_batch *batch, struct pst_error *err)
{
    struct view_sample sample;
    enum pst_status status = view_load_sample(view->dataset, &view->fields, batch, &sample, err);
    tile->sample = sample.sample;
    if (status != PST_OK)
        return status;
    tile->height = sample.height;
    tile->width = sample.width;
    tile->area = place(cell, sample.height, sample.width);
    if (sample.rgb != NULL)
        view_image(&view->canvas, tile->area, sample.rgb, sample.height, sample.width,
                   3 * (size_t)sample.width);
    if (sample.labels != NULL)
        view_mask(&view->canvas, tile->area, sample.labels, sample.height, sample.width,
                  sample.rgb == NULL);
    tile->has_mask = sample.labels != NULL;
    tile->n_boxes = draw_boxes(view, tile->area, &sample);
    tile->n_points = sample.n_points;
    draw_points(view, tile->area, &sample);
    draw_caption(view, tile, cell, sample.label);
    return PST_OK;
}

/* Loads and draws tile i. A bad sample gets its message instead of a picture; other failures end
 * the run. */
static enum pst_status draw_tile(struct view *view, size_t i, struct pst_error *err)
{
    struct tile *tile = &view->tiles[i];
    struct view_area cell = cell_of(view, i);
    uint64_t number = view->begin + i / view->epochs;
    pst_batch *batch = NULL;
    tile->epoch = view->epoch + i % view->epochs;
    tile->sample = number;
    view_fill(&view->canvas, cell, (struct view_color){20, 20, 22});
    enum pst_status status =
        view->batch ? pst_loader_replay(view->loader, tile->epoch, number, &batch, err)
                    : pst_loader_fetch(view->loader, tile->epoch, &number, 1, &batch, err);
    if (status == PST_OK)
        status = draw_sample(view, tile, cell, batch, err);
    pst_batch_release(batch);
    if (status == PST_OK || err->sample < 0)
        return status;
    tile->bad = *err;
    tile->sample = (uint64_t)err->sample;
    cli_complain(view->cli, err);
    draw_bad(view, tile, cell);
    draw_caption(view, tile, cell, -1);
    pst_error_clear(err);
    return PST_OK;
}

static void print_tile(struct view *view, struct cli_json *json, const struct tile *tile)
{
    char name[PST_NAME_CAP];
    cli_json_open(json, NULL, '{');
    cli_json_uint(json, "sample", tile->sample);
    if (pst_dataset_sample_name(view->dataset, tile->sample, name, NULL) == PST_OK)
        cli_json_text(json, "name", name);
    cli_json_uint(json, "epoch", tile->epoch);
    if (tile->bad.status == PST_OK) {
        cli_json_int(json, "y", tile->area.y);
        cli_json_int(json, "x", tile->area.x);
        cli_json_int(json, "height", tile->area.height);
        cli_json_int(json, "width", tile->area.width);
        cli_json_int(json, "image_height", tile->height);
        cli_json_int(json, "image_width", tile->width);
        cli_json_uint(json, "boxes", tile->n_boxes);
        cli_json_uint(json, "keypoints", tile->n_points);
        cli_json_bool(json, "mask", tile->has_mask);
    } else {
        cli_json_error(json, "error", &tile->bad);
    }
    cli_json_close(json, '}');
}

static uint64_t print_result(struct view *view, size_t nbytes)
{
    uint64_t n_bad = 0;
    for (size_t i = 0; i < view->n_tiles; i++)
        n_bad += view->tiles[i].bad.status != PST_OK;
    if (view->cli->json) {
        struct cli_json json = {0};
        cli_json_open(&json, NULL, '{');
        cli_json_text(&json, "file", view->output);
        cli_json_int(&json, "height", view->canvas.height);
        cli_json_int(&json, "width", view->canvas.width);
        cli_json_uint(&json, "bytes", nbytes);
        cli_json_uint(&json, "bad", n_bad);
        cli_json_open(&json, "tiles", '[');
        for (size_t i = 0; i < view->n_tiles; i++)
            print_tile(view, &json, &view->tiles[i]);
        cli_json_close(&json, ']');
        cli_json_close(&json, '}');
    } else if (strcmp(view->output, "-") != 0) {
        char size[32];
        cli_size_text(nbytes, size);
        cli_print_name(stdout, view->output);
        fputs(": ", stdout);
        cli_print_count(view->n_tiles, "picture", "pictures");
        printf(", %dx%d pixels, %s\n", view->canvas.width, view->canvas.height, size);
    }
    return n_bad;
}

static enum pst_status write_sheet(struct view *view, size_t *nbytes, struct pst_error *err)
{
    struct cli_image image = {.pixels = {.data = view->canvas.rgb,
                                         .height = (uint32_t)view->canvas.height,
                                         .width = (uint32_t)view->canvas.width,
                                         .channels = 3,
                                         .bits = 8,
                                         .channel_nbytes = 1,
                                         .pixel_nbytes = 3,
                                         .row_nbytes = 3 * (int64_t)view->canvas.width}};
    char head[CLI_HEAD_CAP];
    void *png = NULL;
    enum pst_status status = cli_encode(&image, CLI_AS_PNG, NULL, head, &png, nbytes, err);
    if (status == PST_OK)
        status = cli_put(view->output, "", 0, png, *nbytes, err);
    free(png);
    return status;
}

/* Makes the canvas and the list of tiles. */
static enum pst_status make_canvas(struct view *view, struct pst_error *err)
{
    uint64_t n = view->n_tiles;
    if (view->columns == 0) { /* as wide as high, but a row holds whole samples */
        view->columns = 1;
        while (view->columns * view->columns < n)
            view->columns++;
        if (view->epochs > 1)
            view->columns = view->epochs;
    }
    view->columns = view->columns > n ? n : view->columns;
    uint64_t rows = (n + view->columns - 1) / view->columns, side = view->side;
    uint64_t width = view->columns * (side + GAP) + GAP;
    uint64_t height = rows * (side + GAP + (uint64_t)caption_height()) + GAP;
    if (width * height > PIXELS_MAX)
        return cli_error(err, PST_ERROR_LIMIT,
                         "the sheet would have %llux%llu pixels: take fewer samples, or a smaller "
                         "--size than %llu",
                         (unsigned long long)width, (unsigned long long)height,
                         (unsigned long long)side);
    view->canvas.width = (int)width;
    view->canvas.height = (int)height;
    view->canvas.rgb = malloc((size_t)(3 * width * height));
    view->tiles = calloc((size_t)n, sizeof *view->tiles);
    if (view->canvas.rgb == NULL || view->tiles == NULL)
        return cli_error(err, PST_ERROR_MEMORY, "out of memory for %llux%llu pixels",
                         (unsigned long long)width, (unsigned long long)height);
    view_fill(&view->canvas, (struct view_area){0, 0, (int)height, (int)width}, paper);
    return PST_OK;
}

static enum pst_status draw_all(struct view *view, struct pst_error *err)
{
    struct pst_progress progress = {.n_total = view->n_tiles};
    enum pst_status status = make_canvas(view, err);
    for (size_t i = 0; status == PST_OK && i < view->n_tiles; i++) {
        status = draw_tile(view, i, err);
        progress.n_done++;
        if (status == PST_OK && cli_progress(view->cli, "view", &progress) != 0)
            status = cli_error(err, PST_ERROR_CANCELLED, "interrupted");
    }
    cli_progress_end(view->cli);
    return status;
}

/* Finds what the second operand names. Returns -1, or the exit status. */
static int take_range(struct view *view, const char *text)
{
    uint64_t count = pst_dataset_count(view->dataset);
    struct pst_error err;
    pst_error_clear(&err);
    bool is_range = !view->by_name && text[strspn(text, "0123456789:")] == '\0';
    if (is_range && strchr(text, ':') != NULL) {
        if (!cli_range(text, count, &view->begin, &view->end) || view->begin >= view->end)
            return cli_usage(view->cli, "\"%s\": A:B, A < B, is expected; there are %llu samples",
                             text, (unsigned long long)count);
    } else if (!is_range && view->batch) {
        return cli_usage(view->cli, "--batch wants positions of the epoch, A:B, not \"%s\"", text);
    } else {
        if (cli_find_sample(view->dataset, text, view->by_name, &view->begin, &err) != PST_OK)
            return cli_fail(view->cli, &err);
        view->end = view->begin + 1;
    }
    if ((view->end - view->begin) * view->epochs > TILES_MAX)
        return cli_usage(view->cli, "%llu pictures: at most %d fit on a sheet; say A:B",
                         (unsigned long long)((view->end - view->begin) * view->epochs), TILES_MAX);
    view->n_tiles = (size_t)((view->end - view->begin) * view->epochs);
    return -1;
}

/* Puts the file of operations into an error that the loader found in them. */
static void name_transforms(const struct view *view, struct pst_error *err)
{
    if (view->transforms != NULL && err->status == PST_ERROR_ARGUMENT && err->file[0] == '\0')
        snprintf(err->file, sizeof err->file, "%s", view->transforms_path);
}

static int run_view(struct view *view, const char *range)
{
    struct pst_error err;
    size_t nbytes = 0;
    int exit_status = take_range(view, range);
    if (exit_status >= 0)
        return exit_status;
    pst_error_clear(&err);
    view->choice.shuffled = view->batch;
    enum pst_status status = view_load_open(view->dataset, &view->choice, view->transforms,
                                            &view->fields, &view->loader, &err);
    if (status != PST_OK) {
        name_transforms(view, &err);
        return cli_fail(view->cli, &err);
    }
    status = draw_all(view, &err);
    if (status == PST_OK)
        status = write_sheet(view, &nbytes, &err);
    if (status != PST_OK)
        return cli_fail(view->cli, &err);
    for (uint32_t i = 0; view->transforms != NULL && i < view->transforms->n_chains; i++)
        if (view->transforms->chains[i].normalizes)
            cli_note(view->cli, "Normalize is left out: the sheet shows the pixels before it");
    return print_result(view, nbytes) > 0 ? CLI_FAILED : CLI_OK;
}

static int check(const struct view *view)
{
    if (view->side < SIDE_MIN || view->side > SIDE_MAX)
        return cli_usage(view->cli, "--size is %llu: %d to %d is expected",
                         (unsigned long long)view->side, SIDE_MIN, SIDE_MAX);
    if (view->epochs < 1 || view->epochs > TILES_MAX)
        return cli_usage(view->cli, "--epochs is %llu: 1 to %d is expected",
                         (unsigned long long)view->epochs, TILES_MAX);
    if (view->columns > TILES_MAX)
        return cli_usage(view->cli, "--columns is %llu: at most %d",
                         (unsigned long long)view->columns, TILES_MAX);
    if (view->cli->json && strcmp(view->output, "-") == 0)
        return cli_usage(view->cli, "--json and the picture cannot both go to stdout");
    return -1;
}

int cmd_view(struct cli *cli, int argc, char **argv)
{
    struct view view = {.cli = cli, .output = "view.png", .side = 256, .epochs = 1};
    const struct cli_option options[] = {
        {"output", 'o', CLI_TEXT, &view.output, "FILE", "view.png", "the PNG; - is stdout"},
        {"transforms", 't', CLI_TEXT, &view.transforms_path, "FILE", "none",
         "JSON file of operations, as penstock.transforms.to_json writes it"},
        {"batch", 'b', CLI_FLAG, &view.batch, NULL, NULL,
         "RANGE is of positions in a shuffled epoch, not of sample numbers"},
        {"epoch", 0, CLI_COUNT, &view.epoch, "N", "0", "order and random parameters of epoch N"},
        {"epochs", 'e', CLI_COUNT, &view.epochs, "N", "1",
         "each sample or position in N epochs, side by side"},
        {"seed", 0, CLI_COUNT, &view.choice.seed, "N", "0", "of order and operations"},
        {"size", 's', CLI_COUNT, &view.side, "PIXELS", "256", "side of a picture on the sheet"},
        {"columns", 'c', CLI_COUNT, &view.columns, "N", "a square", "pictures in a row"},
        {"field", 'f', CLI_TEXT, &view.choice.image, "NAME", "image", "which image or mask"},
        {"box-labels", 0, CLI_TEXT, &view.choice.box_labels, "NAME", "labels, classes, ...",
         "field with a name or number for each box"},
        {"name", 'n', CLI_FLAG, &view.by_name, NULL, NULL,
         "SAMPLE is a name even if it looks like a number"},
        CLI_SOURCE_OPTIONS(view.source, 0),
        {NULL, 0, CLI_FLAG, NULL, NULL, NULL, NULL},
    };
    const struct cli_command command = {
        .usage = "view PATH SAMPLE|RANGE [options]",
        .about = "Draws a sample, or samples A:B, on one PNG: masks in colours, boxes with their "
                 "labels, keypoints,\n"
                 "below them number, class and name. With --transforms, as these operations make "
                 "them for training.",
        .example =
            "penstock view photos.pst 0:16\n"
            "  penstock view photos.pst 0:8 --transforms train.json --epochs 4 -o train.png\n"
            "  penstock view photos.pst 0:64 --batch --transforms train.json",
        .options = options,
        .n_min = 2,
        .n_max = 2,
    };
    const char *operands[4] = {0};
    struct pst_error err;
    int exit_status = cli_parse(cli, &command, argc, argv, operands);
    if (exit_status < 0)
        exit_status = check(&view);
    if (exit_status >= 0)
        return exit_status;
    cli_catch_interrupt();
    pst_error_clear(&err);
    if (view.transforms_path != NULL &&
        view_transforms_read(view.transforms_path, &view.transforms, &err) != PST_OK)
        return cli_fail(cli, &err);
    if (cli_open(operands[0], &view.source, &view.dataset, &err) != PST_OK) {
        free(view.transforms);
        return cli_fail(cli, &err);
    }
    exit_status = run_view(&view, operands[1]);
    pst_loader_close(&view.loader);
    pst_dataset_close(&view.dataset);
    free(view.canvas.rgb);
    free(view.tiles);
    free(view.transforms);
    return exit_status;
}
