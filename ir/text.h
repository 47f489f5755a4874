// Text form of a module: prints and reads back to itself, byte for byte. No addresses, times or hash order.
#ifndef PM_IR_TEXT_H
#define PM_IR_TEXT_H

#include "ir/ir.h"

void pm_module_print(const PmModule *m, PmBuf *out);
void pm_fn_print(const PmModule *m, PmFnId fn, PmBuf *out);
// INPUT with "path:line: text" when the text is not a module, breaks a type rule or a limit. Untrusted input.
PM_MUST_CHECK PmStatus *pm_module_read(PmArena *arena, PmInterner *names, const char *path, const char *text, size_t len,
                                       PmModule **out);
// Checks SSA order, types by pm_infer, callee signatures, bindings, unique names, recursion, placement validity (each
// mesh axis once a value, sizes divide). INTERNAL status naming the function and node when broken.
PM_MUST_CHECK PmStatus *pm_module_verify(const PmModule *m);

#endif
