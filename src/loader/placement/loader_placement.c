/* loader_placement.c - chooses the placement of a loader's batches. */
#include "loader/placement/loader_placement.h"

#include "loader/loader_handle.h"
#include "loader/placement/loader_gpu.h"
#include "loader/placement/loader_pin.h"

enum pst_status psti_loader_placement_open(pst_loader *loader, struct pst_error *err)
{
    struct psti_loader_pins *pins = NULL;
    if (loader->options.placement == PST_PLACEMENT_DEVICE)
        return psti_loader_gpu_open(loader, err);
    enum pst_status status =
        loader->options.pin_memory ? psti_loader_pins_open(loader, &pins, err) : PST_OK;
    if (status != PST_OK)
        return status;
    loader->placement = psti_placement_host;
    loader->placement.own = pins;
    return PST_OK;
}
