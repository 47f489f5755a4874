// Slots and tags of the messages over a transport. ORDER: ranges of slots are one after the other.
#ifndef PM_RUNTIME_COMM_TAGS_H
#define PM_RUNTIME_COMM_TAGS_H

#include "runtime/comm/transport.h"

enum { PM_TAG_NOTICE, PM_TAG_VOTE, PM_TAG_HEAD, PM_TAG_DATA, PM_TAGS };

#define PM_MAX_WORLDS 1000
_Static_assert(PM_MAX_WORLDS *PM_TAGS <= PM_TRANSPORT_MAX_TAG, "a tag for every world");

static inline int pm_tag(int32_t world, int kind) { return world * PM_TAGS + kind; }

// A collective of n members uses slots [0, 4n); the others have a place for every rank.
static inline int64_t pm_slot_notice(const PmTransport *t, int64_t rank) { return 4 * t->size + rank; }
static inline int64_t pm_slot_vote_in(const PmTransport *t, int64_t rank) { return 5 * t->size + rank; }
static inline int64_t pm_slot_vote_out(const PmTransport *t, int64_t rank) { return 6 * t->size + rank; }
_Static_assert(PM_TRANSPORT_SLOTS == 7, "the ranges above");

#endif
