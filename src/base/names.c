/* names.c - names for the members of public enumerations: statuses, forms, dtypes, field types. It
 * has only constant tables. */
#include <penstock/dataset.h>

#include <string.h>

const char *pst_status_name(enum pst_status status)
{
    switch (status) {
#define PST_STATUS_CASE(name, number, text)                                                        \
    case PST_##name:                                                                               \
        return "PST_" #name;
        PST_STATUS_LIST(PST_STATUS_CASE)
#undef PST_STATUS_CASE
    }
    return "PST_UNKNOWN";
}

const char *pst_status_text(enum pst_status status)
{
    switch (status) {
#define PST_STATUS_CASE(name, number, text)                                                        \
    case PST_##name:                                                                               \
        return text;
        PST_STATUS_LIST(PST_STATUS_CASE)
#undef PST_STATUS_CASE
    }
    return "unknown status";
}

static const struct {
    enum pst_form form;
    const char *name;
} form_table[] = {{PST_FORM_RAW, "raw"},    {PST_FORM_JPEG, "jpeg"},
                  {PST_FORM_PNG, "png"},    {PST_FORM_WEBP, "webp"},
                  {PST_FORM_PLI, "pli"},    {PST_FORM_PLI_JPEG, "pli-jpeg"},
                  {PST_FORM_BYTES, "bytes"}};

const char *pst_form_name(enum pst_form form)
{
    for (size_t i = 0; i < sizeof form_table / sizeof form_table[0]; i++)
        if (form_table[i].form == form)
            return form_table[i].name;
    return "none";
}

enum pst_form pst_form_from_name(const char *name)
{
    for (size_t i = 0; i < sizeof form_table / sizeof form_table[0]; i++)
        if (strcmp(form_table[i].name, name) == 0)
            return form_table[i].form;
    return PST_FORM_NONE;
}

static const struct {
    const char *name;
    size_t nbytes;
} dtype_table[] = {
    [PST_DTYPE_U8] = {"uint8", 1},    [PST_DTYPE_U16] = {"uint16", 2},
    [PST_DTYPE_I32] = {"int32", 4},   [PST_DTYPE_I64] = {"int64", 8},
    [PST_DTYPE_F16] = {"float16", 2}, [PST_DTYPE_BF16] = {"bfloat16", 2},
    [PST_DTYPE_F32] = {"float32", 4}, [PST_DTYPE_F64] = {"float64", 8},
    [PST_DTYPE_I8] = {"int8", 1},     [PST_DTYPE_I16] = {"int16", 2},
    [PST_DTYPE_U32] = {"uint32", 4},  [PST_DTYPE_U64] = {"uint64", 8},
    [PST_DTYPE_BOOL] = {"bool", 1},
};

#define DTYPE_TABLE_N (sizeof dtype_table / sizeof dtype_table[0])

size_t pst_dtype_nbytes(enum pst_dtype dtype)
{
    return (size_t)dtype < DTYPE_TABLE_N ? dtype_table[dtype].nbytes : 0;
}

const char *pst_dtype_name(enum pst_dtype dtype)
{
    return pst_dtype_nbytes(dtype) ? dtype_table[dtype].name : "none";
}

enum pst_dtype pst_dtype_from_name(const char *name)
{
    for (size_t i = 1; i < DTYPE_TABLE_N; i++)
        if (strcmp(dtype_table[i].name, name) == 0)
            return (enum pst_dtype)i;
    return (enum pst_dtype)0;
}

static const char *const field_type_names[] = {
    [PST_FIELD_IMAGE] = "image",         [PST_FIELD_MASK] = "mask",   [PST_FIELD_BOXES] = "boxes",
    [PST_FIELD_KEYPOINTS] = "keypoints", [PST_FIELD_AUDIO] = "audio", [PST_FIELD_INT] = "int",
    [PST_FIELD_FLOAT] = "float",         [PST_FIELD_BYTES] = "bytes", [PST_FIELD_TEXT] = "text",
    [PST_FIELD_JSON] = "json",           [PST_FIELD_ARRAY] = "array"};

const char *pst_field_type_name(enum pst_field_type type)
{
    return type >= PST_FIELD_IMAGE && type <= PST_FIELD_ARRAY ? field_type_names[type] : "none";
}

enum pst_field_type pst_field_type_from_name(const char *name)
{
    for (int type = PST_FIELD_IMAGE; type <= PST_FIELD_ARRAY; type++)
        if (name != NULL && strcmp(field_type_names[type], name) == 0)
            return (enum pst_field_type)type;
    return (enum pst_field_type)0;
}
