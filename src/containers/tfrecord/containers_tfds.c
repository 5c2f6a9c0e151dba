/* containers_tfds.c - reads the features.json of TensorFlow Datasets.
 *
 * In: an untrusted tree. Out: what it says of one key of the Examples. If an entry is not
 * understood, its key is treated as if there were no features.json.
 *
 * Specifications: tensorflow_datasets/core/proto/feature.proto as JSON, and
 * core/example_serializer.py. A feature within dictionaries has their names joined by "/". A
 * sequence adds a dimension before those of its feature. A sequence within a sequence is stored as
 * several keys, which are not supported here. Integers and booleans are stored as ints, all floats
 * as f32. */
#include "containers/tfrecord/containers_tfrecord_int.h"

#include <stdlib.h>
#include <string.h>

/* A feature, with the number of sequences around it. */
struct place {
    const struct psti_tree *tree;
    const struct psti_tree_node *node;
    uint32_t n_sequences;
    uint32_t length; /* length of the sequence; 0: any */
};

static const struct psti_tree_node *entry(const struct place *place,
                                          const struct psti_tree_node *map, const char *key)
{
    const struct psti_tree_node *out = NULL;
    if (map == NULL || map->kind != PSTI_TREE_MAP ||
        psti_containers_tree_entry(place->tree, map, key, &out, NULL) != PST_OK)
        return NULL;
    return out;
}

static const char *text_of(const struct place *place, const struct psti_tree_node *map,
                           const char *key)
{
    const struct psti_tree_node *node = entry(place, map, key);
    return node != NULL && node->kind == PSTI_TREE_SCALAR ? node->text : "";
}

/* Reads a number, which protobuf's JSON writes as a text. -1: it is none, or negative. */
static int64_t number_of(const struct psti_tree_node *node)
{
    int64_t value = 0;
    if (node == NULL || node->kind != PSTI_TREE_SCALAR || node->text[0] == '\0')
        return -1;
    for (const char *c = node->text; *c != '\0'; c++)
        if (*c < '0' || *c > '9' || __builtin_mul_overflow(value, (int64_t)10, &value) ||
            __builtin_add_overflow(value, (int64_t)(*c - '0'), &value))
            return -1;
    return value;
}

/* Finds the feature that a key names. False: there is none. */
static bool find(struct place *place, const char *key)
{
    while (true) {
        const struct psti_tree_node *sequence = entry(place, place->node, "sequence");
        if (sequence != NULL) {
            int64_t length = number_of(entry(place, sequence, "length"));
            place->n_sequences++;
            place->length = length > 0 && length <= UINT32_MAX ? (uint32_t)length : 0;
            place->node = entry(place, sequence, "feature");
            if (place->node == NULL)
                return false;
            continue;
        }
        const struct psti_tree_node *names =
            entry(place, entry(place, place->node, "featuresDict"), "features");
        if (names == NULL || names->kind != PSTI_TREE_MAP)
            return *key == '\0';
        const struct psti_tree_node *node = psti_containers_tree_first(place->tree, names);
        size_t n = 0;
        for (; node != NULL; node = psti_containers_tree_next(place->tree, node)) {
            n = strlen(node->key);
            if (n > 0 && strncmp(key, node->key, n) == 0 && (key[n] == '\0' || key[n] == '/'))
                break;
        }
        if (node == NULL)
            return false;
        place->node = node;
        key += n + (key[n] == '/');
    }
}

/* Appends the dimensions of a feature's shape to the spec's. False: there are too many. */
static bool add_shape(const struct place *place, const struct psti_tree_node *feature,
                      struct psti_tfds_spec *spec)
{
    const struct psti_tree_node *dims = entry(place, entry(place, feature, "shape"), "dimensions");
    if (dims == NULL || dims->kind != PSTI_TREE_LIST)
        return true;
    for (const struct psti_tree_node *node = psti_containers_tree_first(place->tree, dims);
         node != NULL; node = psti_containers_tree_next(place->tree, node)) {
        int64_t dim = number_of(node);
        if (spec->ndim == PST_MAX_NDIM)
            return false;
        spec->shape[spec->ndim++] = dim > 0 && dim <= UINT32_MAX ? (uint32_t)dim : 0;
    }
    return true;
}

/* Describes a tensor, a number or a box. */
static void take_tensor(const struct place *place, const struct psti_tree_node *tensor,
                        enum pst_dtype dtype, struct psti_tfds_spec *spec)
{
    const char *name = text_of(place, tensor, "dtype"),
               *coding = text_of(place, tensor, "encoding");
    bool is_raw = strcmp(coding, "bytes") == 0;
    spec->dtype = name[0] != '\0' ? pst_dtype_from_name(name) : dtype;
    if (spec->dtype == 0)
        return; /* neither numbers nor booleans: a text, for example */
    if (!add_shape(place, tensor, spec)) {
        *spec = (struct psti_tfds_spec){.kind = PSTI_TFDS_NONE};
        return;
    }
    if (strcmp(coding, "zlib") == 0) {
        spec->kind = PSTI_TFDS_ODD;
        spec->problem = "is an array that TFDS compressed (zlib), which cannot be read in place: "
                        "leave it out by None, or take it as \"bytes\"";
        return;
    }
    spec->kind = is_raw ? PSTI_TFDS_RAW : spec->ndim > 0 ? PSTI_TFDS_ARRAY : PSTI_TFDS_SCALAR;
    if (is_raw && place->n_sequences > 0)
        *spec = (struct psti_tfds_spec){.kind = PSTI_TFDS_NONE};
}

/* Describes an image. Images are PNG or JPEG; float32 pixels are stored as the 4 bytes of an RGBA
 * PNG. */
static void take_image(const struct place *place, const struct psti_tree_node *image,
                       struct psti_tfds_spec *spec)
{
    const char *dtype = text_of(place, image, "dtype");
    bool is_mask = strstr(text_of(place, place->node, "pythonClassName"), "LabeledImage") != NULL;
    if (place->n_sequences > 0)
        return;
    spec->kind = is_mask ? PSTI_TFDS_MASK : PSTI_TFDS_IMAGE;
    if (strncmp(dtype, "float", 5) == 0) {
        spec->kind = PSTI_TFDS_ODD;
        spec->problem = "is an image of floats, which TFDS keeps as the colours of a PNG: leave it "
                        "out by None, or take it as \"bytes\"";
    }
}

void psti_containers_tfds_spec(const struct psti_tree *tree, const char *key,
                               struct psti_tfds_spec *spec)
{
    struct place place = {.tree = tree, .node = tree->nodes};
    const struct psti_tree_node *leaf = NULL;
    *spec = (struct psti_tfds_spec){.kind = PSTI_TFDS_NONE};
    if (tree->n == 0 || !find(&place, key) || place.n_sequences > 1)
        return;
    if (place.n_sequences == 1)
        spec->shape[spec->ndim++] = place.length;
    if ((leaf = entry(&place, place.node, "tensor")) != NULL) {
        take_tensor(&place, leaf, 0, spec);
    } else if ((leaf = entry(&place, place.node, "boundingBox")) != NULL) {
        take_tensor(&place, leaf, PST_DTYPE_F32, spec);
        bool is_number = spec->kind == PSTI_TFDS_SCALAR || spec->kind == PSTI_TFDS_ARRAY;
        if (is_number && spec->ndim == place.n_sequences) {
            spec->kind = PSTI_TFDS_ARRAY; /* older files do not state that a box has 4 numbers */
            spec->shape[spec->ndim++] = 4;
        }
    } else if ((leaf = entry(&place, place.node, "classLabel")) != NULL) {
        int64_t n = number_of(entry(&place, leaf, "numClasses"));
        spec->kind = spec->ndim > 0 ? PSTI_TFDS_ARRAY : PSTI_TFDS_SCALAR;
        spec->dtype = PST_DTYPE_I64;
        spec->n_classes = n > 0 ? n : 0;
    } else if ((leaf = entry(&place, place.node, "image")) != NULL) {
        take_image(&place, leaf, spec);
    } else if (entry(&place, place.node, "text") != NULL && place.n_sequences == 0) {
        spec->kind = PSTI_TFDS_TEXT;
    } else if (entry(&place, place.node, "audio") != NULL && place.n_sequences == 0) {
        spec->kind = PSTI_TFDS_AUDIO;
    }
    if (spec->kind == PSTI_TFDS_NONE)
        *spec = (struct psti_tfds_spec){.kind = PSTI_TFDS_NONE};
}
