/* fake_nvtx.c - replaces libnvToolsExt and counts ranges. For one thread only. */
int nvtxRangePushA(const char *name);
int nvtxRangePop(void);
int fake_nvtx_depth(void);
int fake_nvtx_pushes(void);

static int depth, pushes;

int nvtxRangePushA(const char *name)
{
    (void)name;
    pushes++;
    return depth++;
}

int nvtxRangePop(void) { return --depth; }

int fake_nvtx_depth(void) { return depth; }

int fake_nvtx_pushes(void) { return pushes; }
