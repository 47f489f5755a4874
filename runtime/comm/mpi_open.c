#include "runtime/comm/mpi_open.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/dl.h"

enum { PLACES = 4, WHY_BYTES = 512 };

// The folder of this program; "." when the system doesn't tell.
static void program_folder(char *out, size_t room) {
  ssize_t n = readlink("/proc/self/exe", out, room - 1);
  out[n > 0 ? n : 0] = '\0';
  char *slash = strrchr(out, '/');
  if (slash) {
    *slash = '\0';
  } else {
    snprintf(out, room, ".");
  }
}

PmStatus *pm_mpi_find(const char *path, PmTransportOpen **out) {
  static const char *const beside[] = {"/", "/../lib/pmodel/", "/../lib/"};
  char folder[PATH_MAX], places[PLACES][PATH_MAX + 64];
  const char *names[PLACES + 1] = {path};
  void *found = NULL;
  *out = NULL;
  if (!path) {
    program_folder(folder, sizeof folder);
    for (int32_t i = 0; i < PLACES - 1; i++) {
      snprintf(places[i], sizeof places[i], "%s%s" PM_MPI_PLUGIN, folder, beside[i]);
      names[i] = places[i];
    }
    names[PLACES - 1] = PM_MPI_PLUGIN;
  }
  PM_TRY(pm_dl_open(names, &(PmDlSymbol){PM_TRANSPORT_OPEN, &found}, 1));
  // ISO C has no conversion from an object to a function pointer; POSIX promises that the bits agree.
  *(void **)out = found;
  return NULL;
}

PmStatus *pm_mpi_open(const char *path, PmTransport **out) {
  PmTransportOpen *open;
  *out = NULL;
  PM_TRY(pm_mpi_find(path, &open));
  char why[WHY_BYTES] = "";
  *out = open(PM_TRANSPORT_VERSION, why, sizeof why);
  return *out ? NULL : PM_STATUS(PM_ERR_ENVIRONMENT, "MPI does not start: %s", why);
}
