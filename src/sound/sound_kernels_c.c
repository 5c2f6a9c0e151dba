/* sound_kernels_c.c - the inner loops for any CPU: sound_kernels_template.h. The compiler makes
 * vectors of 4 floats of them where it has such. Pure functions, any thread. */
#define NAME "c"
#define LEVEL(name) name##_c
#include "sound/sound_kernels_template.h"
