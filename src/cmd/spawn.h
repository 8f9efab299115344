/*
 * spawn.h - how hutchctl speaks with hutch-spawn, on RUN/NAME.ctl (a stream socket, mode 0600): one line each way.
 *   "\n"   how are things          "N\n"   let there be N processes
 * Both are answered "WANTED RUNNING ENDING\n": ENDING finish what they have in hand.
 */
#ifndef HUTCH_CMD_SPAWN_H
#define HUTCH_CMD_SPAWN_H

#define SPAWN_MAX 64            /* processes of one kind */
#define SPAWN_SUFFIX ".ctl"

#endif
