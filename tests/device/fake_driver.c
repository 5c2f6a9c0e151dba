/* fake_driver.c - the entry points of the CUDA driver, for tests on machines without a GPU.
 *
 * It detects use that a real driver leaves undefined: a call without the right current context,
 * copies from memory that is not pinned or does not exist, launches that ask for too much, use in a
 * forked child. fake_memory.c has the memory, fake_stream.c the streams. */
#include "fake_inner.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define DECLARE(member, symbol, arguments) unsigned symbol arguments;
PSTI_DRIVER_LIST(DECLARE)
#undef DECLARE

atomic_uint fake_delay_us;
atomic_uint fake_block_ns;
_Atomic uint64_t fake_n_live;
atomic_bool fake_launches_held;
_Atomic uint64_t fake_n_uploaded;

static struct CUctx_st contexts[FAKE_DEVICES_MAX];
static int n_devices, capability = 90;
static uint64_t memory_nbytes;
static pid_t owner;
static pthread_once_t once = PTHREAD_ONCE_INIT;

static _Atomic uint64_t n_calls, n_of[FAKE_KINDS], n_made, n_freed;
static struct {
    _Atomic uint64_t left; /* calls until the one that fails; 0: no call fails */
    atomic_uint result;
} faults[FAKE_KINDS];

static _Thread_local struct CUctx_st *stack[16];
static _Thread_local uint32_t depth;

static uint64_t number_from(const char *name, uint64_t otherwise)
{
    const char *text = getenv(name);
    return text && *text ? strtoull(text, NULL, 10) : otherwise;
}

static void start(void)
{
    n_devices = (int)number_from("PENSTOCK_FAKE_DEVICES", 2);
    memory_nbytes = number_from("PENSTOCK_FAKE_MEMORY", (uint64_t)1 << 30);
    capability = (int)number_from("PENSTOCK_FAKE_CAPABILITY", 90);
    atomic_store(&fake_delay_us, (unsigned)number_from("PENSTOCK_FAKE_DELAY", 0));
    atomic_store(&fake_block_ns, (unsigned)number_from("PENSTOCK_FAKE_BLOCK_NS", 0));
    if (n_devices > FAKE_DEVICES_MAX)
        n_devices = FAKE_DEVICES_MAX;
    for (int i = 0; i < FAKE_DEVICES_MAX; i++) {
        contexts[i].ordinal = i;
        pthread_mutex_init(&contexts[i].lock, NULL);
    }
    owner = getpid();
}

unsigned fake_complain(struct CUctx_st *context, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    fprintf(stderr, "fake driver, GPU %d: ", context->ordinal);
    vfprintf(stderr, format, args);
    fprintf(stderr, "\n");
    va_end(args);
    atomic_store_explicit(&context->broken, FAKE_ILLEGAL_ADDRESS, memory_order_relaxed);
    return FAKE_ILLEGAL_ADDRESS;
}

/* Begins a driver call that needs no context. */
static unsigned begin(void)
{
    atomic_fetch_add_explicit(&n_calls, 1, memory_order_relaxed);
    return owner == getpid() ? PSTI_CU_SUCCESS : PSTI_CU_NOT_INITIALIZED;
}

/* Begins a call in the current context. If `wanted` is not NULL, the current context must be that
 * one. */
static unsigned begin_in(struct CUctx_st **context, const struct CUctx_st *wanted)
{
    unsigned result = begin();
    if (result != PSTI_CU_SUCCESS)
        return result;
    if (depth == 0)
        return FAKE_INVALID_CONTEXT;
    *context = stack[depth - 1];
    if (wanted && *context != wanted)
        return FAKE_INVALID_HANDLE;
    return atomic_load_explicit(&(*context)->broken, memory_order_relaxed);
}

/* Begins a call that frees something. Such calls work on a broken GPU, too. */
static bool may_free(unsigned result)
{
    return result != PSTI_CU_NOT_INITIALIZED && result != FAKE_INVALID_CONTEXT &&
           result != FAKE_INVALID_HANDLE;
}

/* Counts the call, and makes it fail if a test has asked for that. */
static unsigned count(enum fake_what what)
{
    atomic_fetch_add_explicit(&n_of[what], 1, memory_order_relaxed);
    uint64_t left = atomic_load_explicit(&faults[what].left, memory_order_relaxed);
    if (left && atomic_fetch_sub_explicit(&faults[what].left, 1, memory_order_relaxed) == 1)
        return atomic_load_explicit(&faults[what].result, memory_order_relaxed);
    return PSTI_CU_SUCCESS;
}

static void add(_Atomic uint64_t *counter, int64_t n)
{
    atomic_fetch_add_explicit(counter, (uint64_t)n, memory_order_relaxed);
}

/* Functions of the driver
 * --------------------------------------------------------------------------------------- */

unsigned cuInit(unsigned flags)
{
    pthread_once(&once, start);
    if (flags)
        return PSTI_CU_INVALID_VALUE;
    unsigned result = begin();
    return result == PSTI_CU_SUCCESS && n_devices == 0 ? PSTI_CU_NO_DEVICE : result;
}

static const struct {
    unsigned result;
    const char *name, *text;
} errors[] = {
    {PSTI_CU_SUCCESS, "CUDA_SUCCESS", "no error"},
    {PSTI_CU_INVALID_VALUE, "CUDA_ERROR_INVALID_VALUE", "invalid argument"},
    {PSTI_CU_OUT_OF_MEMORY, "CUDA_ERROR_OUT_OF_MEMORY", "out of memory"},
    {PSTI_CU_NOT_INITIALIZED, "CUDA_ERROR_NOT_INITIALIZED", "initialization error"},
    {PSTI_CU_NO_DEVICE, "CUDA_ERROR_NO_DEVICE", "no CUDA-capable device is detected"},
    {PSTI_CU_INVALID_DEVICE, "CUDA_ERROR_INVALID_DEVICE", "invalid device ordinal"},
    {FAKE_INVALID_IMAGE, "CUDA_ERROR_INVALID_IMAGE", "device kernel image is invalid"},
    {FAKE_INVALID_CONTEXT, "CUDA_ERROR_INVALID_CONTEXT", "invalid device context"},
    {PSTI_CU_NO_BINARY_FOR_GPU, "CUDA_ERROR_NO_BINARY_FOR_GPU", "no kernel image is available"},
    {FAKE_INVALID_HANDLE, "CUDA_ERROR_INVALID_HANDLE", "invalid resource handle"},
    {PSTI_CU_NOT_FOUND, "CUDA_ERROR_NOT_FOUND", "named symbol not found"},
    {PSTI_CU_NOT_READY, "CUDA_ERROR_NOT_READY", "device not ready"},
    {FAKE_ILLEGAL_ADDRESS, "CUDA_ERROR_ILLEGAL_ADDRESS", "an illegal memory access"},
    {PSTI_CU_UNKNOWN, "CUDA_ERROR_UNKNOWN", "unknown error"},
};

unsigned cuGetErrorName(unsigned result, const char **name)
{
    for (size_t i = 0; i < sizeof errors / sizeof errors[0]; i++)
        if (errors[i].result == result) {
            *name = errors[i].name;
            return PSTI_CU_SUCCESS;
        }
    *name = NULL;
    return PSTI_CU_INVALID_VALUE;
}

unsigned cuGetErrorString(unsigned result, const char **text)
{
    for (size_t i = 0; i < sizeof errors / sizeof errors[0]; i++)
        if (errors[i].result == result) {
            *text = errors[i].text;
            return PSTI_CU_SUCCESS;
        }
    *text = NULL;
    return PSTI_CU_INVALID_VALUE;
}

unsigned cuDriverGetVersion(int *version)
{
    *version = 13000;
    return PSTI_CU_SUCCESS;
}

unsigned cuDeviceGetCount(int *n)
{
    *n = n_devices;
    return begin();
}

unsigned cuDeviceGet(int *device, int ordinal)
{
    *device = ordinal;
    unsigned result = begin();
    return result || (ordinal >= 0 && ordinal < n_devices) ? result : PSTI_CU_INVALID_DEVICE;
}

unsigned cuDeviceGetName(char *name, int capacity, int device)
{
    snprintf(name, (size_t)capacity, "Fake GPU %d", device);
    return begin();
}

unsigned cuDeviceTotalMem_v2(size_t *nbytes, int device)
{
    (void)device;
    *nbytes = memory_nbytes;
    return begin();
}

unsigned cuDeviceGetAttribute(int *value, unsigned number, int device)
{
    (void)device;
    switch (number) {
    case PSTI_CU_DEVICE_PROCESSORS:
        *value = (int)number_from("PENSTOCK_FAKE_PROCESSORS", 132);
        break;
    case PSTI_CU_DEVICE_CAPABILITY_MAJOR:
        *value = capability / 10;
        break;
    case PSTI_CU_DEVICE_CAPABILITY_MINOR:
        *value = capability % 10;
        break;
    case PSTI_CU_DEVICE_SHARED_OPTIN:
        *value = (int)FAKE_SHARED_NBYTES;
        break;
    default:
        return PSTI_CU_INVALID_VALUE;
    }
    return begin();
}

unsigned cuDevicePrimaryCtxRetain(psti_cu_context *context, int device)
{
    unsigned result = begin();
    if (result != PSTI_CU_SUCCESS)
        return result;
    atomic_fetch_add(&contexts[device].n_retained, 1);
    add(&fake_n_live, 1);
    *context = &contexts[device];
    return PSTI_CU_SUCCESS;
}

unsigned cuDevicePrimaryCtxRelease_v2(int device)
{
    unsigned result = begin();
    if (result != PSTI_CU_SUCCESS)
        return result;
    if (atomic_load(&contexts[device].n_retained) == 0)
        return FAKE_INVALID_CONTEXT;
    add(&fake_n_live, -1);
    if (atomic_fetch_sub(&contexts[device].n_retained, 1) == 1 && contexts[device].legacy) {
        fake_stream_end(contexts[device].legacy);
        contexts[device].legacy = NULL;
    }
    return PSTI_CU_SUCCESS;
}

unsigned cuCtxPushCurrent_v2(psti_cu_context context)
{
    unsigned result = begin();
    if (result != PSTI_CU_SUCCESS)
        return result;
    if (!context || atomic_load(&context->n_retained) == 0 || depth == 16)
        return FAKE_INVALID_CONTEXT;
    stack[depth++] = context;
    return PSTI_CU_SUCCESS;
}

unsigned cuCtxPopCurrent_v2(psti_cu_context *context)
{
    unsigned result = begin();
    if (result != PSTI_CU_SUCCESS)
        return result;
    if (depth == 0)
        return FAKE_INVALID_CONTEXT;
    *context = stack[--depth];
    return PSTI_CU_SUCCESS;
}

unsigned cuCtxGetDevice(int *device)
{
    struct CUctx_st *context;
    unsigned result = begin_in(&context, NULL);
    if (result == PSTI_CU_SUCCESS)
        *device = context->ordinal;
    return result;
}

unsigned cuCtxGetStreamPriorityRange(int *least, int *greatest)
{
    struct CUctx_st *context;
    *least = 0;
    *greatest = -5;
    return begin_in(&context, NULL);
}

unsigned cuStreamCreateWithPriority(psti_cu_stream *stream, unsigned flags, int priority)
{
    struct CUctx_st *context;
    unsigned result = begin_in(&context, NULL);
    if (result != PSTI_CU_SUCCESS)
        return result;
    if (flags != PSTI_CU_STREAM_NON_BLOCKING) /* others would wait for the legacy default stream */
        return PSTI_CU_INVALID_VALUE;
    *stream = fake_stream_make(context, priority);
    if (!*stream)
        return PSTI_CU_OUT_OF_MEMORY;
    add(&fake_n_live, 1);
    add(&n_made, 1);
    return PSTI_CU_SUCCESS;
}

int fake_stream_priority(void *stream) { return ((struct CUstream_st *)stream)->priority; }

unsigned cuStreamDestroy_v2(psti_cu_stream stream)
{
    unsigned result = begin();
    if (result != PSTI_CU_SUCCESS)
        return result;
    fake_stream_end(stream);
    add(&fake_n_live, -1);
    add(&n_freed, 1);
    return PSTI_CU_SUCCESS;
}

/* Both kinds of default stream are the same stream here. */
static struct CUstream_st *resolve(psti_cu_stream stream, struct CUctx_st *context)
{
    if ((uintptr_t)stream > 2)
        return stream;
    pthread_mutex_lock(&context->lock);
    if (!context->legacy)
        context->legacy = fake_stream_make(context, 0);
    stream = context->legacy;
    pthread_mutex_unlock(&context->lock);
    return stream;
}

/* Finds context and stream of a call that submits work. They must belong together. */
static unsigned begin_work(psti_cu_stream *stream, struct CUctx_st **context)
{
    unsigned result = begin_in(context, NULL);
    if (result != PSTI_CU_SUCCESS)
        return result;
    *stream = resolve(*stream, *context);
    return (*stream)->context == *context ? PSTI_CU_SUCCESS : FAKE_INVALID_HANDLE;
}

unsigned cuEventCreate(psti_cu_event *event, unsigned flags)
{
    struct CUctx_st *context;
    unsigned result = begin_in(&context, NULL);
    if (result != PSTI_CU_SUCCESS)
        return result;
    if ((flags | PSTI_CU_EVENT_DISABLE_TIMING) !=
        (PSTI_CU_EVENT_BLOCKING_SYNC | PSTI_CU_EVENT_DISABLE_TIMING))
        return PSTI_CU_INVALID_VALUE;
    struct CUevent_st *made = calloc(1, sizeof *made);
    if (!made)
        return PSTI_CU_OUT_OF_MEMORY;
    made->context = context;
    made->timed = !(flags & PSTI_CU_EVENT_DISABLE_TIMING);
    pthread_mutex_init(&made->lock, NULL);
    *event = made;
    add(&fake_n_live, 1);
    add(&n_made, 1);
    return PSTI_CU_SUCCESS;
}

unsigned cuEventDestroy_v2(psti_cu_event event)
{
    unsigned result = begin();
    if (result != PSTI_CU_SUCCESS)
        return result;
    pthread_mutex_destroy(&event->lock);
    free(event);
    add(&fake_n_live, -1);
    add(&n_freed, 1);
    return PSTI_CU_SUCCESS;
}

unsigned cuEventRecord(psti_cu_event event, psti_cu_stream stream)
{
    struct CUctx_st *context;
    unsigned result = begin_work(&stream, &context);
    if (result != PSTI_CU_SUCCESS)
        return result;
    if (event->context != context)
        return FAKE_INVALID_HANDLE;
    struct fake_op *op = fake_op_make(FAKE_OP_RECORD);
    op->mark = fake_mark_make();
    pthread_mutex_lock(&event->lock);
    event->mark = op->mark;
    pthread_mutex_unlock(&event->lock);
    fake_stream_submit(stream, op);
    return PSTI_CU_SUCCESS;
}

static struct fake_mark *mark_of(struct CUevent_st *event)
{
    pthread_mutex_lock(&event->lock);
    struct fake_mark *mark = event->mark;
    pthread_mutex_unlock(&event->lock);
    return mark;
}

unsigned cuStreamWaitEvent(psti_cu_stream stream, psti_cu_event event, unsigned flags)
{
    struct CUctx_st *context;
    unsigned result = begin_work(&stream, &context);
    if (result != PSTI_CU_SUCCESS || flags)
        return result ? result : PSTI_CU_INVALID_VALUE;
    struct fake_mark *mark = mark_of(event);
    if (mark) {
        struct fake_op *op = fake_op_make(FAKE_OP_WAIT);
        op->mark = mark;
        fake_stream_submit(stream, op);
    }
    return PSTI_CU_SUCCESS;
}

unsigned cuEventQuery(psti_cu_event event)
{
    struct CUctx_st *context;
    unsigned result = begin_in(&context, event->context);
    if (result != PSTI_CU_SUCCESS)
        return result;
    struct fake_mark *mark = mark_of(event);
    return !mark || fake_mark_is_done(mark) ? PSTI_CU_SUCCESS : PSTI_CU_NOT_READY;
}

unsigned cuEventSynchronize(psti_cu_event event)
{
    struct CUctx_st *context;
    unsigned result = begin_in(&context, event->context);
    if (result == PSTI_CU_SUCCESS)
        result = count(FAKE_SYNC);
    if (result != PSTI_CU_SUCCESS)
        return result;
    struct fake_mark *mark = mark_of(event);
    if (mark)
        fake_mark_wait(mark);
    return atomic_load_explicit(&context->broken, memory_order_relaxed);
}

unsigned cuEventElapsedTime(float *ms, psti_cu_event begin_event, psti_cu_event end_event)
{
    struct CUctx_st *context;
    unsigned result = begin_in(&context, begin_event->context);
    if (result != PSTI_CU_SUCCESS)
        return result;
    struct fake_mark *from = mark_of(begin_event), *to = mark_of(end_event);
    if (!begin_event->timed || !end_event->timed || !from || !to)
        return FAKE_INVALID_HANDLE;
    if (!fake_mark_is_done(from) || !fake_mark_is_done(to))
        return PSTI_CU_NOT_READY;
    *ms = (float)((double)(to->at_ns - from->at_ns) * 1e-6);
    return PSTI_CU_SUCCESS;
}

unsigned cuMemAlloc_v2(psti_cu_address *address, size_t nbytes)
{
    struct CUctx_st *context;
    unsigned result = begin_in(&context, NULL);
    if (result == PSTI_CU_SUCCESS)
        result = count(FAKE_ALLOC);
    if (result == PSTI_CU_SUCCESS && nbytes == 0)
        result = PSTI_CU_INVALID_VALUE;
    if (result != PSTI_CU_SUCCESS)
        return result;
    if (atomic_fetch_add(&context->used, nbytes) + nbytes > memory_nbytes) {
        atomic_fetch_sub(&context->used, nbytes);
        return PSTI_CU_OUT_OF_MEMORY;
    }
    void *memory = fake_memory_make(context->ordinal, nbytes);
    *address = (uintptr_t)memory;
    add(&fake_n_live, memory != NULL);
    return memory ? PSTI_CU_SUCCESS : PSTI_CU_OUT_OF_MEMORY;
}

unsigned cuMemFree_v2(psti_cu_address address)
{
    struct CUctx_st *context;
    unsigned result = begin_in(&context, NULL);
    if (!may_free(result))
        return result;
    size_t nbytes = fake_memory_end(context->ordinal, (void *)(uintptr_t)address);
    if (nbytes == 0)
        return fake_complain(context, "%#llx is freed and is no block of this GPU", address);
    atomic_fetch_sub(&context->used, nbytes);
    add(&fake_n_live, -1);
    add(&n_freed, 1);
    return result;
}

unsigned cuMemHostAlloc(void **memory, size_t nbytes, unsigned flags)
{
    struct CUctx_st *context;
    unsigned result = begin_in(&context, NULL);
    if (result == PSTI_CU_SUCCESS)
        result = count(FAKE_HOST_ALLOC);
    if (result == PSTI_CU_SUCCESS && (nbytes == 0 || flags != PSTI_CU_HOST_PORTABLE))
        result = PSTI_CU_INVALID_VALUE;
    if (result != PSTI_CU_SUCCESS)
        return result;
    *memory = fake_memory_make(FAKE_PINNED, nbytes);
    add(&fake_n_live, *memory != NULL);
    return *memory ? PSTI_CU_SUCCESS : PSTI_CU_OUT_OF_MEMORY;
}

unsigned cuMemHostRegister_v2(void *memory, size_t nbytes, unsigned flags)
{
    struct CUctx_st *context;
    unsigned result = begin_in(&context, NULL);
    if (result == PSTI_CU_SUCCESS)
        result = count(FAKE_REGISTER);
    if (result == PSTI_CU_SUCCESS &&
        (nbytes == 0 || (uintptr_t)memory % 4096 || nbytes % 4096 ||
         flags != (PSTI_CU_HOST_REGISTER_PORTABLE | PSTI_CU_HOST_REGISTER_READ_ONLY)))
        result = PSTI_CU_INVALID_VALUE;
    if (result == PSTI_CU_SUCCESS && fake_memory_has(FAKE_PINNED, memory, 1))
        return fake_complain(context, "%p is pinned already", memory);
    if (result != PSTI_CU_SUCCESS)
        return result;
    if (!fake_memory_add(FAKE_PINNED, memory, nbytes))
        return PSTI_CU_OUT_OF_MEMORY;
    add(&fake_n_live, 1);
    return PSTI_CU_SUCCESS;
}

unsigned cuMemHostUnregister(void *memory)
{
    struct CUctx_st *context;
    unsigned result = begin_in(&context, NULL);
    if (!may_free(result))
        return result;
    if (!fake_memory_remove(FAKE_PINNED, memory))
        return fake_complain(context, "%p is unregistered and was not registered", memory);
    add(&fake_n_live, -1);
    add(&n_freed, 1);
    return result;
}

unsigned cuMemFreeHost(void *memory)
{
    struct CUctx_st *context;
    unsigned result = begin_in(&context, NULL);
    if (!may_free(result))
        return result;
    if (fake_memory_end(FAKE_PINNED, memory) == 0)
        return fake_complain(context, "%p is freed and is no pinned block", memory);
    add(&fake_n_live, -1);
    add(&n_freed, 1);
    return result;
}

static unsigned submit_copy(void *to, bool to_host, const void *from, bool from_host, size_t nbytes,
                            psti_cu_stream stream)
{
    struct CUctx_st *context;
    unsigned result = begin_work(&stream, &context);
    if (result == PSTI_CU_SUCCESS)
        result = count(FAKE_COPY);
    if (result != PSTI_CU_SUCCESS)
        return result;
    if (!fake_memory_has(to_host ? FAKE_PINNED : context->ordinal, to, nbytes))
        return fake_complain(context, "a copy of %zu bytes goes to %p, which is not %s memory",
                             nbytes, to, to_host ? "pinned" : "this GPU's");
    if (!fake_memory_has(from_host ? FAKE_PINNED : context->ordinal, from, nbytes))
        return fake_complain(context, "a copy of %zu bytes comes from %p, which is not %s memory",
                             nbytes, from, from_host ? "pinned" : "this GPU's");
    struct fake_op *op = fake_op_make(FAKE_OP_COPY);
    op->to = to;
    op->to_host = to_host;
    op->from = from;
    op->from_host = from_host;
    op->nbytes = nbytes;
    fake_stream_submit(stream, op);
    return PSTI_CU_SUCCESS;
}

unsigned cuMemcpyHtoDAsync_v2(psti_cu_address to, const void *from, size_t nbytes,
                              psti_cu_stream stream)
{
    return submit_copy((void *)(uintptr_t)to, false, from, true, nbytes, stream);
}

unsigned cuMemcpyDtoHAsync_v2(void *to, psti_cu_address from, size_t nbytes, psti_cu_stream stream)
{
    return submit_copy(to, true, (const void *)(uintptr_t)from, false, nbytes, stream);
}

unsigned cuMemcpyDtoDAsync_v2(psti_cu_address to, psti_cu_address from, size_t nbytes,
                              psti_cu_stream stream)
{
    return submit_copy((void *)(uintptr_t)to, false, (const void *)(uintptr_t)from, false, nbytes,
                       stream);
}

unsigned cuMemsetD8Async(psti_cu_address at, unsigned char value, size_t nbytes,
                         psti_cu_stream stream)
{
    struct CUctx_st *context;
    unsigned result = begin_work(&stream, &context);
    if (result == PSTI_CU_SUCCESS)
        result = count(FAKE_COPY);
    if (result != PSTI_CU_SUCCESS)
        return result;
    if (!fake_memory_has(context->ordinal, (void *)(uintptr_t)at, nbytes))
        return fake_complain(context, "%zu bytes at %#llx are cleared, not this GPU's", nbytes, at);
    struct fake_op *op = fake_op_make(FAKE_OP_CLEAR);
    op->to = (void *)(uintptr_t)at;
    op->value = value;
    op->nbytes = nbytes;
    fake_stream_submit(stream, op);
    return PSTI_CU_SUCCESS;
}

unsigned cuModuleLoadData(psti_cu_module *module, const void *image)
{
    const struct fake_image *given = image;
    struct CUctx_st *context;
    unsigned result = begin_in(&context, NULL);
    if (result != PSTI_CU_SUCCESS)
        return result;
    if (given->magic != FAKE_IMAGE_MAGIC)
        return FAKE_INVALID_IMAGE;
    struct CUmod_st *made = calloc(1, sizeof *made);
    if (!made)
        return PSTI_CU_OUT_OF_MEMORY;
    made->context = context;
    made->image = given;
    pthread_mutex_init(&made->lock, NULL);
    *module = made;
    add(&fake_n_live, 1);
    return PSTI_CU_SUCCESS;
}

unsigned cuModuleUnload(psti_cu_module module)
{
    struct CUctx_st *context;
    unsigned result = begin_in(&context, module->context);
    if (!may_free(result))
        return result;
    pthread_mutex_destroy(&module->lock);
    free(module);
    add(&fake_n_live, -1);
    return result;
}

static fake_kernel_fn find_kernel(const struct fake_image *image, const char *name)
{
    for (uint32_t i = 0; i < image->n_kernels; i++)
        if (strcmp(image->kernels[i].name, name) == 0)
            return image->kernels[i].fn;
    return image->find ? image->find(name) : NULL;
}

unsigned cuModuleGetFunction(psti_cu_function *function, psti_cu_module module, const char *name)
{
    struct CUctx_st *context;
    unsigned result = begin_in(&context, module->context);
    if (result != PSTI_CU_SUCCESS)
        return result;
    fake_kernel_fn fn = find_kernel(module->image, name);
    if (!fn)
        return PSTI_CU_NOT_FOUND;
    pthread_mutex_lock(&module->lock);
    if (module->n_functions < FAKE_FUNCTIONS_MAX) {
        *function = &module->functions[module->n_functions++];
        **function = (struct CUfunc_st){module, fn, FAKE_SHARED_DEFAULT};
    } else {
        result = PSTI_CU_OUT_OF_MEMORY;
    }
    pthread_mutex_unlock(&module->lock);
    return result;
}

unsigned cuFuncGetAttribute(int *value, unsigned number, psti_cu_function function)
{
    struct CUctx_st *context;
    *value = FAKE_SHARED_STATIC;
    if (number != PSTI_CU_FUNCTION_SHARED_STATIC)
        return PSTI_CU_INVALID_VALUE;
    return begin_in(&context, function->module->context);
}

unsigned cuFuncSetAttribute(psti_cu_function function, unsigned number, int value)
{
    struct CUctx_st *context;
    unsigned result = begin_in(&context, function->module->context);
    if (result != PSTI_CU_SUCCESS)
        return result;
    if (number != PSTI_CU_FUNCTION_SHARED_DYNAMIC_MAX || value < 0 ||
        (unsigned)value > FAKE_SHARED_NBYTES - FAKE_SHARED_STATIC)
        return PSTI_CU_INVALID_VALUE;
    function->shared_max = (unsigned)value;
    return PSTI_CU_SUCCESS;
}

/* Reads the arguments in cuLaunchKernel's `extra`. */
static bool take_extra(void **extra, const void **args, size_t *nbytes)
{
    *args = NULL;
    *nbytes = 0;
    for (size_t i = 0; extra && (uintptr_t)extra[i] != PSTI_CU_LAUNCH_END; i += 2) {
        if ((uintptr_t)extra[i] == PSTI_CU_LAUNCH_BUFFER)
            *args = extra[i + 1];
        else if ((uintptr_t)extra[i] == PSTI_CU_LAUNCH_NBYTES)
            *nbytes = *(size_t *)extra[i + 1];
        else
            return false;
    }
    return *args && *nbytes && *nbytes <= sizeof((struct fake_op *)0)->args;
}

unsigned cuLaunchKernel(psti_cu_function function, unsigned grid_x, unsigned grid_y,
                        unsigned grid_z, unsigned block_x, unsigned block_y, unsigned block_z,
                        unsigned shared_nbytes, psti_cu_stream stream, void **params, void **extra)
{
    struct CUctx_st *context;
    const void *args;
    size_t nbytes;
    unsigned result = begin_work(&stream, &context);
    if (result == PSTI_CU_SUCCESS)
        result = count(FAKE_LAUNCH);
    if (result != PSTI_CU_SUCCESS)
        return result;
    if (function->module->context != context)
        return FAKE_INVALID_HANDLE;
    if (grid_x == 0 || grid_y != 1 || grid_z != 1 || block_x == 0 || block_x > 1024 ||
        block_x % 32 || block_y != 1 || block_z != 1 || params ||
        shared_nbytes > function->shared_max || !take_extra(extra, &args, &nbytes))
        return PSTI_CU_INVALID_VALUE;
    struct fake_op *op = fake_op_make(FAKE_OP_LAUNCH);
    op->fn = function->fn;
    op->n_blocks = grid_x;
    op->n_warps = block_x / 32;
    op->shared_nbytes = shared_nbytes;
    memcpy(op->args, args, nbytes);
    fake_stream_submit(stream, op);
    return PSTI_CU_SUCCESS;
}

/* Functions that tests call
 * -------------------------------------------------------------------------------------- */

void fake_counts(struct fake_counts *counts)
{
    counts->n_calls = atomic_load(&n_calls);
    for (int i = 0; i < FAKE_KINDS; i++)
        counts->n[i] = atomic_load(&n_of[i]);
    counts->n_made = atomic_load(&n_made);
    counts->n_freed = atomic_load(&n_freed);
    counts->n_uploaded = atomic_load_explicit(&fake_n_uploaded, memory_order_relaxed);
    counts->live_nbytes = fake_memory_nbytes(false);
    counts->live_host_nbytes = fake_memory_nbytes(true);
    counts->n_live = atomic_load(&fake_n_live);
}

void fake_reset_counts(void)
{
    atomic_store(&n_calls, 0);
    for (int i = 0; i < FAKE_KINDS; i++)
        atomic_store(&n_of[i], 0);
    atomic_store(&n_made, 0);
    atomic_store(&n_freed, 0);
    atomic_store_explicit(&fake_n_uploaded, 0, memory_order_relaxed);
}

void fake_fail(enum fake_what what, uint64_t n, unsigned result)
{
    atomic_store(&faults[what].result, result);
    atomic_store(&faults[what].left, n);
}

void fake_break(uint32_t ordinal, unsigned result)
{
    atomic_store(&contexts[ordinal].broken, result);
    fake_streams_stop(&contexts[ordinal]);
}
void fake_repair(uint32_t ordinal) { atomic_store(&contexts[ordinal].broken, 0); }
void fake_hold_launches(bool hold)
{
    atomic_store_explicit(&fake_launches_held, hold, memory_order_relaxed);
}

void fake_set_delay(uint32_t us) { atomic_store(&fake_delay_us, us); }
void fake_set_block_ns(uint32_t ns) { atomic_store(&fake_block_ns, ns); }
uint32_t fake_context_depth(void) { return depth; }
