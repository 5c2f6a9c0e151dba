/* containers_parquet_thrift.c - decodes Thrift's compact protocol, in which Parquet writes footers
 * and page headers.
 *
 * In: untrusted bytes of a file. Out: numbers, texts, fields. No memory is allocated. Each step
 * consumes at least one byte, so the time is bounded by the number of bytes. */
#include "containers/parquet/containers_parquet_thrift.h"

#include "base/codings/varint.h"

bool psti_containers_thrift_bad(struct psti_thrift *thrift)
{
    thrift->is_bad = true;
    thrift->at = thrift->nbytes;
    return false;
}

static bool end_too_early(struct psti_thrift *thrift)
{
    thrift->is_short |= !thrift->is_bad;
    return psti_containers_thrift_bad(thrift);
}

static bool pass(struct psti_thrift *thrift, uint64_t nbytes)
{
    if (nbytes > thrift->nbytes - thrift->at)
        return end_too_early(thrift);
    thrift->at += (size_t)nbytes;
    return true;
}

static uint8_t byte(struct psti_thrift *thrift)
{
    return pass(thrift, 1) ? thrift->bytes[thrift->at - 1] : 0;
}

static uint64_t varint(struct psti_thrift *thrift)
{
    uint64_t value = 0;
    size_t left = thrift->nbytes - thrift->at;
    size_t n = psti_varint(thrift->bytes + thrift->at, left, &value);
    if (n == 0 && left < PSTI_VARINT_NBYTES_MAX)
        end_too_early(thrift);
    else if (n == 0)
        psti_containers_thrift_bad(thrift);
    thrift->at += n;
    return thrift->is_bad ? 0 : value;
}

/* Reads a zigzag-encoded number: its sign is in the lowest bit. */
static int64_t zigzag(struct psti_thrift *thrift)
{
    uint64_t value = varint(thrift);
    return (int64_t)(value >> 1 ^ (~(value & 1) + 1));
}

bool psti_containers_thrift_field(struct psti_thrift *thrift, struct psti_thrift_field *field)
{
    uint8_t b = byte(thrift);
    if (thrift->is_bad || b == PSTI_THRIFT_STOP)
        return false;
    int64_t id = b >> 4 != 0 ? field->id + (b >> 4) : zigzag(thrift);
    field->type = b & 0x0f;
    if (id < 0 || id > INT16_MAX || field->type == PSTI_THRIFT_STOP)
        return psti_containers_thrift_bad(thrift);
    field->id = (int16_t)id;
    return !thrift->is_bad;
}

int64_t psti_containers_thrift_int(struct psti_thrift *thrift, uint8_t type)
{
    if (type == PSTI_THRIFT_I8)
        return (int8_t)byte(thrift);
    if (type == PSTI_THRIFT_I16 || type == PSTI_THRIFT_I32 || type == PSTI_THRIFT_I64)
        return zigzag(thrift);
    psti_containers_thrift_bad(thrift);
    return 0;
}

uint32_t psti_containers_thrift_count(struct psti_thrift *thrift, uint8_t type)
{
    int64_t value = psti_containers_thrift_int(thrift, type);
    if (value >= 0 && value <= INT32_MAX)
        return (uint32_t)value;
    psti_containers_thrift_bad(thrift);
    return 0;
}

bool psti_containers_thrift_bool(struct psti_thrift *thrift, uint8_t type)
{
    if (type != PSTI_THRIFT_TRUE && type != PSTI_THRIFT_FALSE)
        psti_containers_thrift_bad(thrift);
    return type == PSTI_THRIFT_TRUE;
}

struct psti_thrift_text psti_containers_thrift_text(struct psti_thrift *thrift, uint8_t type)
{
    struct psti_thrift_text text = {.bytes = ""};
    if (type != PSTI_THRIFT_TEXT) {
        psti_containers_thrift_bad(thrift);
        return text;
    }
    uint64_t nbytes = varint(thrift);
    if (!thrift->is_bad && pass(thrift, nbytes)) {
        text.nbytes = (size_t)nbytes;
        text.bytes = (const char *)thrift->bytes + thrift->at - text.nbytes;
    }
    return text;
}

/* Reads the head of a list: type and number of its elements. Each element takes at least one
 * byte. */
static uint32_t list_head(struct psti_thrift *thrift, uint8_t *element)
{
    uint8_t b = byte(thrift);
    uint64_t n = b >> 4 == 15 ? varint(thrift) : b >> 4;
    *element = b & 0x0f;
    if (n > thrift->nbytes - thrift->at || n > INT32_MAX) {
        end_too_early(thrift);
        return 0;
    }
    return (uint32_t)n;
}

uint32_t psti_containers_thrift_list(struct psti_thrift *thrift, uint8_t type, uint8_t element)
{
    uint8_t has = 0;
    uint32_t n = 0;
    if (type == PSTI_THRIFT_LIST)
        n = list_head(thrift, &has);
    if (type != PSTI_THRIFT_LIST || (n > 0 && has != element))
        psti_containers_thrift_bad(thrift);
    return thrift->is_bad ? 0 : n;
}

static void skip(struct psti_thrift *thrift, uint8_t type, bool is_element, uint32_t depth);

static void skip_list(struct psti_thrift *thrift, uint32_t depth)
{
    uint8_t element = 0;
    uint32_t n = list_head(thrift, &element);
    for (uint32_t i = 0; i < n && !thrift->is_bad; i++)
        skip(thrift, element, true, depth);
}

static void skip_map(struct psti_thrift *thrift, uint32_t depth)
{
    uint64_t n = varint(thrift);
    uint8_t types = n > 0 ? byte(thrift) : 0;
    for (uint64_t i = 0; i < n && !thrift->is_bad; i++) {
        skip(thrift, types >> 4, true, depth);
        skip(thrift, types & 0x0f, true, depth);
    }
}

static void skip_struct(struct psti_thrift *thrift, uint32_t depth)
{
    struct psti_thrift_field field = {0};
    while (psti_containers_thrift_field(thrift, &field))
        skip(thrift, field.type, false, depth);
}

/* Skips a value of the given type. The nesting depth is limited, which limits the recursion. */
static void skip(struct psti_thrift *thrift, uint8_t type, bool is_element, uint32_t depth)
{
    if (depth == 0) {
        psti_containers_thrift_bad(thrift);
        return;
    }
    switch (type) {
    case PSTI_THRIFT_TRUE:
    case PSTI_THRIFT_FALSE:
        pass(thrift, is_element ? 1 : 0);
        break;
    case PSTI_THRIFT_I8:
        pass(thrift, 1);
        break;
    case PSTI_THRIFT_I16:
    case PSTI_THRIFT_I32:
    case PSTI_THRIFT_I64:
        varint(thrift);
        break;
    case PSTI_THRIFT_DOUBLE:
        pass(thrift, 8);
        break;
    case PSTI_THRIFT_TEXT:
        psti_containers_thrift_text(thrift, type);
        break;
    case PSTI_THRIFT_LIST:
    case PSTI_THRIFT_SET:
        skip_list(thrift, depth - 1);
        break;
    case PSTI_THRIFT_MAP:
        skip_map(thrift, depth - 1);
        break;
    case PSTI_THRIFT_STRUCT:
        skip_struct(thrift, depth - 1);
        break;
    case PSTI_THRIFT_UUID:
        pass(thrift, 16);
        break;
    default:
        psti_containers_thrift_bad(thrift);
    }
}

void psti_containers_thrift_skip(struct psti_thrift *thrift, uint8_t type)
{
    skip(thrift, type, false, PSTI_THRIFT_MAX_DEPTH);
}
