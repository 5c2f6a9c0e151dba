/* ptx_parse.c - reads PTX: see ptx.h. */
#include "kernels/ptx/ptx.h"

#include <ctype.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { N_CLASSES = 8, N_SPECIAL = 4, MOST_OPERANDS = 6 };

struct label {
    char name[64];
    uint32_t at;
};

/* One kernel while it is read. */
struct reader {
    const char *path;
    struct ptx_kernel *kernel;
    uint32_t line, n_room;
    struct {
        char prefix[8];
        uint32_t begin, n;
        uint8_t bits;
    } classes[N_CLASSES];
    uint32_t n_classes;
    struct label *labels, *uses; /* uses: labels that instruction `at` names */
    uint32_t n_labels, n_uses, n_labels_room, n_uses_room, n_constants_room;
};

void ptx_fail(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    fprintf(stderr, "ptx: ");
    vfprintf(stderr, format, args);
    fprintf(stderr, "\n");
    va_end(args);
    abort();
}

static _Noreturn void fail_at(const struct reader *r, const char *what, const char *text)
{
    ptx_fail("%s:%u: %s: %s", r->path, r->line, what, text);
}

static void *grow(void *array, uint32_t n, uint32_t *room, size_t size)
{
    if (n < *room)
        return array;
    *room = *room ? 2 * *room : 64;
    array = realloc(array, *room * size);
    if (!array)
        ptx_fail("no memory");
    return array;
}

static void copy_name(char *to, size_t room, const char *from, size_t n)
{
    if (n >= room)
        ptx_fail("a name is too long: %.*s", (int)n, from);
    memcpy(to, from, n);
    to[n] = 0;
}

/* -- Types and mnemonics -- */

static bool parse_type(const char *text, size_t n, struct ptx_type *type)
{
    static const struct {
        const char *name;
        struct ptx_type type;
    } others[] = {{"pred", {'p', 1, false, false}},
                  {"f16x2", {'f', 16, true, false}},
                  {"bf16x2", {'f', 16, true, true}}};
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++)
        if (strlen(others[i].name) == n && memcmp(others[i].name, text, n) == 0) {
            *type = others[i].type;
            return true;
        }
    if (n < 2 || n > 3 || !strchr("usbf", text[0]) || !isdigit((unsigned char)text[1]))
        return false;
    unsigned bits = (unsigned)strtoul(text + 1, NULL, 10);
    *type = (struct ptx_type){text[0], (uint8_t)bits, false, false};
    return bits == 8 || bits == 16 || bits == 32 || bits == 64;
}

/* Takes the types off the end of a mnemonic. Returns the length of the rest; *n is how many there
 * were. */
static size_t take_types(const char *text, size_t n, struct ptx_type types[3], uint32_t *n_types)
{
    *n_types = 0;
    while (*n_types < 3) {
        size_t dot = n;
        while (dot > 0 && text[dot - 1] != '.')
            dot--;
        struct ptx_type type;
        if (dot == 0 || !parse_type(text + dot, n - dot, &type))
            break;
        memmove(types + 1, types, 2 * sizeof *types);
        types[0] = type;
        ++*n_types;
        n = dot - 1;
    }
    return n;
}

static const struct {
    const char *name;
    enum ptx_op op;
    uint8_t n_types, n_operands;
} mnemonics[] = {
    {"mov", PTX_MOV, 1, 2},
    {"add", PTX_ADD, 1, 3},
    {"add.rn", PTX_ADD, 1, 3},
    {"sub", PTX_SUB, 1, 3},
    {"sub.rn", PTX_SUB, 1, 3},
    {"mul", PTX_MUL, 1, 3},
    {"mul.rn", PTX_MUL, 1, 3},
    {"mul.lo", PTX_MUL, 1, 3},
    {"mul.wide", PTX_MUL_WIDE, 1, 3},
    {"mul.hi", PTX_MUL_HI, 1, 3},
    {"mad.lo", PTX_MAD, 1, 4},
    {"abs", PTX_ABS, 1, 2},
    {"neg", PTX_NEG, 1, 2},
    {"min", PTX_MIN, 1, 3},
    {"max", PTX_MAX, 1, 3},
    {"div", PTX_DIV, 1, 3},
    {"div.rn", PTX_DIV, 1, 3},
    {"rem", PTX_REM, 1, 3},
    {"rcp.rn", PTX_RCP, 1, 2},
    {"and", PTX_AND, 1, 3},
    {"or", PTX_OR, 1, 3},
    {"xor", PTX_XOR, 1, 3},
    {"not", PTX_NOT, 1, 2},
    {"shl", PTX_SHL, 1, 3},
    {"shr", PTX_SHR, 1, 3},
    {"shf.r.wrap", PTX_SHF_R, 1, 4},
    {"shf.r.clamp", PTX_SHF_R_CLAMP, 1, 4},
    {"prmt", PTX_PRMT, 1, 4},
    {"bfi", PTX_BFI, 1, 5},
    {"bfind.shiftamt", PTX_BFIND_SHIFT, 1, 2},
    {"clz", PTX_CLZ, 1, 2},
    {"popc", PTX_POPC, 1, 2},
    {"brev", PTX_BREV, 1, 2},
    {"dp2a.lo", PTX_DP2A_LO, 2, 4},
    {"dp2a.hi", PTX_DP2A_HI, 2, 4},
    {"dp4a", PTX_DP4A, 2, 4},
    {"selp", PTX_SELP, 1, 4},
    {"setp.eq", PTX_SETP_EQ, 1, 3},
    {"setp.ne", PTX_SETP_NE, 1, 3},
    {"setp.lt", PTX_SETP_LT, 1, 3},
    {"setp.le", PTX_SETP_LE, 1, 3},
    {"setp.gt", PTX_SETP_GT, 1, 3},
    {"setp.ge", PTX_SETP_GE, 1, 3},
    {"setp.neu", PTX_SETP_NEU, 1, 3},
    {"setp.gtu", PTX_SETP_GTU, 1, 3},
    {"cvt", PTX_CVT, 2, 2},
    {"cvt.rn", PTX_CVT, 2, 2},
    {"cvt.rzi", PTX_CVT_DOWN, 2, 2},
    {"cvt.rmi", PTX_CVT_FLOOR, 2, 2},
    {"cvt.pack.sat", PTX_CVT_PACK, 2, 3},
    {"cvta.to.global", PTX_CVTA, 1, 2},
    {"atom.global.add", PTX_ATOM_ADD, 1, 3},
    {"atom.shared.add", PTX_ATOM_ADD, 1, 3},
    {"atom.global.max", PTX_ATOM_MAX, 1, 3},
    {"bra", PTX_BRA, 0, 1},
    {"bra.uni", PTX_BRA, 0, 1},
    {"ret", PTX_RET, 0, 0},
    {"shfl.sync.idx", PTX_SHFL_IDX, 1, 5},
    {"shfl.sync.up", PTX_SHFL_UP, 1, 5},
    {"shfl.sync.down", PTX_SHFL_DOWN, 1, 5},
    {"vote.sync.ballot", PTX_VOTE_BALLOT, 1, 3},
    {"vote.sync.any", PTX_VOTE_ANY, 1, 3},
    {"vote.sync.all", PTX_VOTE_ALL, 1, 3},
    {"match.any.sync", PTX_MATCH_ANY, 1, 3},
    {"bar.warp.sync", PTX_BAR_WARP, 0, 1},
    {"bar.sync", PTX_BAR_SYNC, 0, 1},
};

/* -- Operands -- */

static uint32_t find_special(const char *text, size_t n)
{
    static const char *const names[N_SPECIAL] = {"%tid.x", "%ntid.x", "%ctaid.x", "%nctaid.x"};
    for (uint32_t i = 0; i < N_SPECIAL; i++)
        if (strlen(names[i]) == n && memcmp(names[i], text, n) == 0)
            return i;
    return PTX_NONE;
}

static uint32_t find_register(const struct reader *r, const char *text, size_t n, uint8_t *bits)
{
    size_t digits = n;
    while (digits > 0 && isdigit((unsigned char)text[digits - 1]))
        digits--;
    *bits = 32;
    if (find_special(text, n) != PTX_NONE)
        return find_special(text, n);
    uint32_t number = (uint32_t)strtoul(text + digits, NULL, 10);
    for (uint32_t c = 0; c < r->n_classes; c++)
        if (strlen(r->classes[c].prefix) == digits &&
            memcmp(r->classes[c].prefix, text, digits) == 0 && number < r->classes[c].n) {
            *bits = r->classes[c].bits;
            return r->classes[c].begin + number;
        }
    fail_at(r, "no such register", text);
}

/* A symbol of parameters or of shared memory is the offset in its space. */
static uint64_t parse_constant(const struct reader *r, const char *text, size_t n)
{
    if ((n == 10 && memcmp(text, "0f", 2) == 0) || (n == 18 && memcmp(text, "0d", 2) == 0))
        return strtoull(text + 2, NULL, 16);
    if (isdigit((unsigned char)text[0]))
        return strtoull(text, NULL, 0);
    if (text[0] == '-')
        return (uint64_t)strtoll(text, NULL, 0);
    if (strncmp(text, "psti_shared", 11) != 0 &&
        strncmp(text, r->kernel->name, strlen(r->kernel->name)) != 0)
        fail_at(r, "neither a register nor a number", text);
    return 0;
}

/* Registers and constants share one numbering. */
static uint32_t parse_value(struct reader *r, const char *text, size_t n, uint8_t *bits)
{
    struct ptx_kernel *kernel = r->kernel;
    uint8_t unused;
    if (text[0] == '%')
        return find_register(r, text, n, bits ? bits : &unused);
    uint64_t value = parse_constant(r, text, n);
    for (uint32_t i = 0; i < kernel->n_constants; i++)
        if (kernel->constants[i] == value)
            return kernel->n_registers + i;
    kernel->constants =
        grow(kernel->constants, kernel->n_constants, &r->n_constants_room, sizeof value);
    kernel->constants[kernel->n_constants] = value;
    return kernel->n_registers + kernel->n_constants++;
}

static void parse_address(struct reader *r, const char *text, size_t n, struct ptx_instr *instr)
{
    const char *plus = memchr(text, '+', n);
    instr->o[4] = parse_value(r, text, plus ? (size_t)(plus - text) : n, NULL);
    instr->offset = plus ? (int32_t)strtol(plus + 1, NULL, 0) : 0;
}

/* Length of the operand at `text`: to the comma outside of braces, or the semicolon. */
static size_t operand_length(const struct reader *r, const char *text)
{
    size_t n = 0;
    for (bool inside = false; text[n] && (inside || (text[n] != ',' && text[n] != ';')); n++)
        inside = text[n] == '{' || (inside && text[n] != '}');
    if (!text[n])
        fail_at(r, "no end", text);
    return n;
}

static const char *skip_spaces(const char *text)
{
    while (isspace((unsigned char)*text))
        text++;
    return text;
}

static uint8_t parse_vector(struct reader *r, const char *text, uint32_t *to, uint8_t *bits)
{
    uint8_t n = 0;
    for (text = skip_spaces(text + 1);; text = skip_spaces(text + 1)) {
        size_t length = strcspn(text, ",}");
        if (n == 4)
            fail_at(r, "too many elements", text);
        to[n++] = parse_value(r, text, length, bits);
        text += length;
        if (*text != ',')
            return n;
    }
}

/* Parses elements and address of ld and st. Returns the text after them. */
static void parse_memory_operand(struct reader *r, const char *text, size_t n,
                                 struct ptx_instr *instr)
{
    if (text[0] == '[') {
        parse_address(r, text + 1, n - 2, instr);
    } else if (text[0] == '{') {
        if (parse_vector(r, text, instr->o, &instr->to_bits) != instr->n)
            fail_at(r, "a vector of another length", text);
    } else {
        instr->o[0] = parse_value(r, text, n, &instr->to_bits);
    }
}

static void add_label(struct label **labels, uint32_t *n, uint32_t *room, const char *name,
                      size_t length, uint32_t at)
{
    *labels = grow(*labels, *n, room, sizeof **labels);
    copy_name((*labels)[*n].name, sizeof(*labels)->name, name, length);
    (*labels)[(*n)++].at = at;
}

static void parse_operand(struct reader *r, const char *text, size_t n, uint32_t i,
                          struct ptx_instr *instr)
{
    const char *bar = memchr(text, '|', n); /* shfl: whether the lane was there */
    if (instr->op == PTX_BRA)
        add_label(&r->uses, &r->n_uses, &r->n_uses_room, text, n, r->kernel->n_code - 1);
    else if (instr->op == PTX_LD || instr->op == PTX_ST)
        parse_memory_operand(r, text, n, instr);
    else if (text[0] == '[')
        parse_address(r, text + 1, n - 2, instr);
    else if (text[0] == '{' && instr->op == PTX_MOV && i == 1) {
        instr->op = PTX_PACK;
        instr->n = parse_vector(r, text, &instr->o[1], NULL);
    } else
        instr->o[i] =
            parse_value(r, text, bar ? (size_t)(bar - text) : n, i == 0 ? &instr->to_bits : NULL);
}

/* -- Instructions -- */

/* In ld and st the name has the space and the length of the vector. */
static bool parse_memory_name(const char *name, size_t n, struct ptx_instr *instr)
{
    static const struct {
        const char *name;
        enum ptx_space space;
    } spaces[] = {{".global", PTX_GLOBAL}, {".shared", PTX_SHARED}, {".param", PTX_PARAM}};
    if (n < 2 || (memcmp(name, "ld", 2) != 0 && memcmp(name, "st", 2) != 0))
        return false;
    instr->op = name[0] == 'l' ? PTX_LD : PTX_ST;
    instr->n = 1;
    const char *at = name + 2, *end = name + n;
    for (size_t i = 0; i < sizeof spaces / sizeof spaces[0]; i++) {
        size_t length = strlen(spaces[i].name);
        if ((size_t)(end - at) >= length && memcmp(at, spaces[i].name, length) == 0) {
            instr->space = spaces[i].space;
            at += length;
        }
    }
    if (end - at == 3 && memcmp(at, ".v", 2) == 0 && (at[2] == '2' || at[2] == '4')) {
        instr->n = (uint8_t)(at[2] - '0');
        at += 3;
    }
    return at == end;
}

/* Instructions of floats have a number of their own. */
static uint8_t op_of(const struct reader *r, enum ptx_op op, struct ptx_type type, const char *text)
{
    if (type.kind != 'f' || op > PTX_SETP_GE)
        return (uint8_t)op;
    const bool is_double = type.bits == 64;
    switch (op) {
    case PTX_MOV:
    case PTX_SELP:
        return (uint8_t)op;
    case PTX_ADD:
        return is_double ? PTX_ADD_F64 : PTX_ADD_F32;
    case PTX_SUB:
        return is_double ? PTX_SUB_F64 : PTX_SUB_F32;
    case PTX_MUL:
        return is_double ? PTX_MUL_F64 : PTX_MUL_F32;
    case PTX_DIV:
        return is_double ? PTX_DIV_F64 : PTX_DIV_F32;
    case PTX_NEG:
        return is_double ? PTX_NEG_F64 : PTX_NEG_F32;
    case PTX_SETP_EQ:
        return PTX_SETP_EQ_FLOAT;
    case PTX_SETP_NEU:
        return PTX_SETP_NEU_FLOAT;
    case PTX_SETP_LT:
        return PTX_SETP_LT_FLOAT;
    case PTX_SETP_LE:
        return PTX_SETP_LE_FLOAT;
    case PTX_SETP_GT:
        return PTX_SETP_GT_FLOAT;
    case PTX_SETP_GE:
        return PTX_SETP_GE_FLOAT;
    case PTX_SETP_GTU:
        return PTX_SETP_GTU_FLOAT;
    default:
        break;
    }
    if (op == PTX_RCP && !is_double)
        return PTX_RCP_F32;
    if ((op == PTX_MIN || op == PTX_MAX) && is_double)
        return op == PTX_MIN ? PTX_MIN_F64 : PTX_MAX_F64;
    fail_at(r, "not known for floats", text);
}

/* Parses a mnemonic. Returns how many operands it has. */
static uint32_t parse_name(const struct reader *r, const char *text, size_t n,
                           struct ptx_instr *instr)
{
    struct ptx_type types[3] = {{0}};
    uint32_t n_types;
    size_t length = take_types(text, n, types, &n_types);
    instr->type = types[0];
    instr->second = types[1];
    if (n_types == 1 && parse_memory_name(text, length, instr))
        return 2;
    for (size_t i = 0; i < sizeof mnemonics / sizeof mnemonics[0]; i++) {
        if (strlen(mnemonics[i].name) != length || memcmp(mnemonics[i].name, text, length) != 0)
            continue;
        instr->op = op_of(r, mnemonics[i].op, types[0], text);
        instr->space = strstr(mnemonics[i].name, ".shared") ? PTX_SHARED : PTX_GLOBAL;
        /* These have a third type, and pairs of halves have a second source. */
        bool packs_bytes = instr->op == PTX_CVT_PACK && types[0].bits == 8;
        if (n_types != mnemonics[i].n_types + (packs_bytes ? 1u : 0u))
            fail_at(r, "types", text);
        return mnemonics[i].n_operands + (packs_bytes || instr->type.pair);
    }
    fail_at(r, "not known", text);
}

static void add_instruction(struct reader *r, const char *text)
{
    struct ptx_kernel *kernel = r->kernel;
    uint32_t room[2] = {r->n_room, r->n_room};
    kernel->texts = grow(kernel->texts, kernel->n_code, &room[0], sizeof *kernel->texts);
    kernel->lines = grow(kernel->lines, kernel->n_code, &room[1], sizeof *kernel->lines);
    kernel->code = grow(kernel->code, kernel->n_code, &r->n_room, sizeof *kernel->code);
    kernel->texts[kernel->n_code] = text;
    kernel->lines[kernel->n_code++] = r->line;
}

static void parse_instruction(struct reader *r, const char *text)
{
    struct ptx_kernel *kernel = r->kernel;
    struct ptx_instr instr = {.guard = PTX_NONE};
    const char *const whole = text;
    if (*text == '@') {
        instr.guard_inverted = text[1] == '!';
        text += instr.guard_inverted ? 2 : 1;
        size_t n = strcspn(text, " \t");
        instr.guard = parse_value(r, text, n, NULL);
        text = skip_spaces(text + n);
    }
    size_t n = strcspn(text, " \t;");
    uint32_t n_operands = parse_name(r, text, n, &instr), i = 0;
    if (instr.op >= PTX_SHFL_IDX && instr.guard != PTX_NONE)
        fail_at(r, "lanes that meet under a condition", text);
    add_instruction(r, whole);
    text = skip_spaces(text + n);
    while (*text != ';') {
        size_t length = operand_length(r, text);
        if (i == MOST_OPERANDS)
            fail_at(r, "too many operands", text);
        parse_operand(r, text, length, i++, &instr);
        text = skip_spaces(text + length + (text[length] == ','));
    }
    if (i != n_operands)
        fail_at(r, "operands", whole);
    kernel->code[kernel->n_code - 1] = instr;
}

/* -- Kernels -- */

static void declare(struct reader *r, const char *text)
{
    char type[16], name[16];
    uint32_t n;
    if (sscanf(text, ".reg .%15s %15[%a-z]<%u>", type, name, &n) != 3 || r->n_classes == N_CLASSES)
        fail_at(r, "declaration", text);
    struct ptx_type parsed;
    if (!parse_type(type, strlen(type), &parsed))
        fail_at(r, "type", text);
    copy_name(r->classes[r->n_classes].prefix, sizeof r->classes[0].prefix, name, strlen(name));
    r->classes[r->n_classes].begin = r->kernel->n_registers;
    r->classes[r->n_classes].n = n;
    r->classes[r->n_classes].bits = parsed.bits;
    r->n_classes++;
    r->kernel->n_registers += n;
}

static void end_kernel(struct reader *r)
{
    for (uint32_t i = 0; i < r->n_uses; i++) {
        uint32_t l = 0;
        while (l < r->n_labels && strcmp(r->labels[l].name, r->uses[i].name) != 0)
            l++;
        if (l == r->n_labels)
            ptx_fail("%s: no label %s", r->path, r->uses[i].name);
        r->kernel->code[r->uses[i].at].target = r->labels[l].at;
    }
    free(r->labels);
    free(r->uses);
    *r = (struct reader){.path = r->path, .line = r->line};
}

static void begin_kernel(struct reader *r, struct ptx_module *module, const char *name)
{
    module->kernels = realloc(module->kernels, (module->n_kernels + 1) * sizeof *module->kernels);
    if (!module->kernels)
        ptx_fail("no memory");
    r->kernel = &module->kernels[module->n_kernels++];
    *r->kernel = (struct ptx_kernel){.n_registers = N_SPECIAL};
    copy_name(r->kernel->name, sizeof r->kernel->name, name, strcspn(name, "("));
}

/* Parses a line without leading spaces and trailing comments. */
static void parse_line(struct reader *r, struct ptx_module *module, char *text)
{
    static const char entry[] = ".visible .entry ";
    size_t n = strlen(text);
    if (strncmp(text, entry, sizeof entry - 1) == 0)
        begin_kernel(r, module, text + sizeof entry - 1);
    if (!r->kernel || n == 0)
        return;
    const char *bracket = strchr(text, '[');
    if (text[0] == '}')
        end_kernel(r);
    else if (strncmp(text, ".param", 6) == 0 && bracket)
        r->kernel->param_nbytes = (uint32_t)strtoul(bracket + 1, NULL, 10);
    else if (strncmp(text, ".maxntid ", 9) == 0)
        r->kernel->most_threads = (uint32_t)strtoul(text + 9, NULL, 10);
    else if (strncmp(text, ".reg", 4) == 0)
        declare(r, text);
    else if (text[n - 1] == ':')
        add_label(&r->labels, &r->n_labels, &r->n_labels_room, text, n - 1, r->kernel->n_code);
    else if (text[0] == '@' || isalpha((unsigned char)text[0]))
        parse_instruction(r, text);
}

static char *read_text(const char *path)
{
    FILE *file = fopen(path, "rb");
    if (!file || fseek(file, 0, SEEK_END) != 0)
        ptx_fail("%s cannot be read", path);
    long size = ftell(file);
    char *text = size >= 0 ? malloc((size_t)size + 1) : NULL;
    rewind(file);
    if (!text || fread(text, 1, (size_t)size, file) != (size_t)size)
        ptx_fail("%s cannot be read", path);
    fclose(file);
    text[size] = 0;
    return text;
}

void ptx_open(const char *path, struct ptx_module *module)
{
    struct reader reader = {.path = path};
    *module = (struct ptx_module){.text = read_text(path)};
    for (char *line = module->text, *next; line; line = next) {
        reader.line++;
        next = strchr(line, '\n');
        if (next)
            *next++ = 0;
        char *comment = strstr(line, "//");
        if (comment)
            *comment = 0;
        for (size_t n = strlen(line); n > 0 && isspace((unsigned char)line[n - 1]);)
            line[--n] = 0;
        parse_line(&reader, module, line + strspn(line, " \t"));
    }
    if (reader.kernel)
        ptx_fail("%s: a kernel does not end", path);
}

void ptx_close(struct ptx_module *module)
{
    for (uint32_t i = 0; i < module->n_kernels; i++) {
        free(module->kernels[i].code);
        free(module->kernels[i].texts);
        free(module->kernels[i].lines);
        free(module->kernels[i].constants);
    }
    free(module->kernels);
    free(module->text);
    *module = (struct ptx_module){0};
}
