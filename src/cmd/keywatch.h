/* keywatch.h - keeps the records in step with the key file. */
#ifndef HUTCH_CMD_KEYWATCH_H
#define HUTCH_CMD_KEYWATCH_H

#include <sys/stat.h>
#include "hutch/domain.h"

struct keywatch {
	struct stat was;             /* of the file last imported, or last refused */
};

/* Import the file when it has changed since, or in any case. What is wrong with it is logged, once for each version of the file. */
void keywatch_look(struct keywatch *k, struct domain *d, bool in_any_case);

#endif
