// The devices of this build, one file each.
#ifndef PM_RUNTIME_DEVICES_DEVICES_H
#define PM_RUNTIME_DEVICES_DEVICES_H

#include "runtime/device.h"

extern const PmDeviceVtbl pm_device_cpu;
extern const PmDeviceVtbl pm_device_interp;
extern const PmDeviceVtbl pm_device_null;

#endif
