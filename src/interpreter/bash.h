/* bash.h - the Bash kernel: `hutch-interpreter --kernel bash`. */
#ifndef HUTCH_INTERPRETER_BASH_H
#define HUTCH_INTERPRETER_BASH_H

/* Takes cells on descriptor 3, one JSON message a line (docs/interpreter.md), until that closes; the status to exit with. */
int bash_kernel_main(void);

#endif
