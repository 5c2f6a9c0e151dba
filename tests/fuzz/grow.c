/* grow.c - grows a corpus with a target's own mutator where gcc is installed but libFuzzer is
 * not.
 *
 *     gcc -O1 -no-pie -D_GNU_SOURCE -Iinclude -Isrc -Itests -fsanitize-coverage=trace-pc -c \
 *         tests/fuzz/fuzz_<what>.c tests/fuzz/forge_dataset.c src/{base,format,dataset}/[a-z]*.c
 *     gcc -O1 -no-pie -c tests/fuzz/grow.c
 *     gcc -no-pie *.o -lxxhash -lm -lpthread -o grow && ./grow ROUNDS INTO SEED...
 *
 * Changes an input of the corpus with LLVMFuzzerCustomMutator, runs LLVMFuzzerTestOneInput on
 * it, and writes it to INTO/forged-NNN if it goes from one place of the code to another in a way
 * that no earlier input did. The same seeds give the same files. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t nbytes);
size_t LLVMFuzzerCustomMutator(uint8_t *bytes, size_t nbytes, size_t max_nbytes, unsigned seed);
void __sanitizer_cov_trace_pc(void);

enum { MAX_INPUTS = 4096, MAX_NBYTES = 1 << 16, MAP_BITS = 18 };

struct input {
    uint8_t *bytes;
    size_t nbytes;
};

static struct input inputs[MAX_INPUTS];
static size_t n_inputs;
static uint8_t seen[1 << MAP_BITS];
static uintptr_t last;
static unsigned n_new;

/* The compiler's instrumentation calls this at each step from block to block. */
void __sanitizer_cov_trace_pc(void)
{
    uintptr_t here = (uintptr_t)__builtin_return_address(0);
    size_t step = ((here * 0x9E3779B97F4A7C15u) ^ (last >> 1)) & ((1 << MAP_BITS) - 1);
    n_new += seen[step] == 0;
    seen[step] = 1;
    last = here * 0x9E3779B97F4A7C15u;
}

static unsigned run(const uint8_t *bytes, size_t nbytes)
{
    n_new = 0;
    last = 0;
    LLVMFuzzerTestOneInput(bytes, nbytes);
    return n_new;
}

static void keep(const uint8_t *bytes, size_t nbytes)
{
    struct input *input = &inputs[n_inputs++];
    input->bytes = malloc(nbytes + 1);
    input->nbytes = nbytes;
    if (input->bytes == NULL)
        abort();
    memcpy(input->bytes, bytes, nbytes);
}

static void save(const char *into, unsigned number, const uint8_t *bytes, size_t nbytes)
{
    char path[4096];
    snprintf(path, sizeof path, "%s/forged-%03u", into, number);
    FILE *file = fopen(path, "wb");
    if (file == NULL || fwrite(bytes, 1, nbytes, file) != nbytes || fclose(file) != 0)
        abort();
}

int main(int argc, char **argv)
{
    static uint8_t bytes[MAX_NBYTES];
    unsigned n_rounds = argc > 3 ? (unsigned)atoi(argv[1]) : 0, n_saved = 0, random = 1;
    for (int i = 3; i < argc; i++) {
        FILE *file = fopen(argv[i], "rb");
        if (file == NULL)
            abort();
        size_t nbytes = fread(bytes, 1, sizeof bytes, file);
        fclose(file);
        run(bytes, nbytes);
        keep(bytes, nbytes);
    }
    for (unsigned round = 0; round < n_rounds && n_inputs < MAX_INPUTS; round++) {
        random = random * 1664525u + 1013904223u;
        const struct input *from = &inputs[(random >> 8) % n_inputs];
        size_t nbytes = from->nbytes;
        memcpy(bytes, from->bytes, nbytes);
        for (unsigned k = 0; k <= round % 3; k++) /* inputs with odd seeds change structures only */
            nbytes = LLVMFuzzerCustomMutator(bytes, nbytes, sizeof bytes, 2 * (3 * round + k) + 1);
        if (run(bytes, nbytes) == 0)
            continue;
        keep(bytes, nbytes);
        save(argv[2], n_saved++, bytes, nbytes);
    }
    printf("%u rounds, %zu inputs, %u of them new\n", n_rounds, n_inputs, n_saved);
    return 0;
}
