// The scanner under the parser. pm_scan_token gives raw tokens; pm_scan_next inserts the `;` of line ends.
#ifndef PM_FRONTEND_SCAN_H
#define PM_FRONTEND_SCAN_H

#include "frontend/parse.h"

#define PM_NEWLINE (-2)  // known to the two functions below only

union PmSemantic;

bool pm_scan_begin(PmParse *p, const PmSourceFile *file);  // a byte order mark is skipped
void pm_scan_end(PmParse *p);
int pm_scan_token(union PmSemantic *value, PmSpan *span, PmParse *p);
int pm_scan_next(union PmSemantic *value, PmSpan *span, PmParse *p);

#endif
