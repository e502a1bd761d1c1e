// The generated side of the contract (contract.inc). Nothing that crosses to the host is freed: an instance lives for one
// batch and its memory goes as a whole, so that results may point into the message, or at constants.
#include <stdlib.h>

static inline void kept(void *memory) { (void)memory; }
#define free(memory) kept(memory)
#include "contract.inc"
