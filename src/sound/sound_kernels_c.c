/* sound_kernels_c.c - the inner loops for any CPU, from sound_kernels_template.h. The compiler uses
 * vectors of 4 floats where the CPU has them. Pure functions, any thread. */
#define NAME "c"
#define LEVEL(name) name##_c
#include "sound/sound_kernels_template.h"
