/* native_lock.c - a lock for one handle of the C library, which only one thread at a time may use.
 *
 * A waiting thread releases the GIL and checks for signals ten times a second, so that Ctrl-C can
 * interrupt the wait. */
#include "native.h"

#define SLICE_US 100000

int native_lock_take(PyThread_type_lock lock)
{
    if (PyThread_acquire_lock(lock, NOWAIT_LOCK))
        return 0;
    for (;;) {
        PyLockStatus got;
        Py_BEGIN_ALLOW_THREADS got = PyThread_acquire_lock_timed(lock, SLICE_US, 0);
        Py_END_ALLOW_THREADS if (got == PY_LOCK_ACQUIRED) return 0;
        if (PyErr_CheckSignals() < 0)
            return -1;
    }
}
