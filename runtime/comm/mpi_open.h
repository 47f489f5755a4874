// Finds and opens the plugin that knows MPI.
#ifndef PM_RUNTIME_COMM_MPI_OPEN_H
#define PM_RUNTIME_COMM_MPI_OPEN_H

#include "base/status.h"
#include "runtime/comm/transport.h"

#define PM_MPI_PLUGIN "libpmodel_mpi.so"

// Loads the plugin and starts nothing. path: the file; NULL looks for PM_MPI_PLUGIN beside this program, in lib/pmodel
// and lib beside its folder, and where the system looks. ENVIRONMENT with every place that was tried.
PM_MUST_CHECK PmStatus *pm_mpi_find(const char *path, PmTransportOpen **out);

// Loads the plugin and joins the other processes of the run: MPI_Init. Once in a process.
PM_MUST_CHECK PmStatus *pm_mpi_open(const char *path, PmTransport **out);

#endif
