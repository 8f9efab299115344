/* hook_int.h - what the files of src/hook share. */
#ifndef HUTCH_HOOK_INT_H
#define HUTCH_HOOK_INT_H

#include <curl/curl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "hutch/buf.h"
#include "hutch/hook.h"
#include "hutch/webhook.h"

#define TOTAL_MAX 256                /* attempts at once */
#define LANE_MAX 8                   /* of them to one webhook */
#define LANE_FAILING 1               /* while its last attempt failed */
#define TEAM_MAX 64                  /* and to all webhooks of one team */
#define PASS_MAX 64                  /* entries of one webhook looked at in one pass */
#define ANSWER_KEEP 256              /* bytes of an answer's body that are recorded */
#define ANSWER_MAX 65536             /* more of it is not read */

/* One attempt. */
struct attempt {
	struct settlement s;         /* first: outbox_settle takes these */
	struct hook_sender *sender;
	struct lane *lane;
	CURL *easy;
	struct curl_slist *headers;
	struct buf body, answer;
	char signature[SIGNATURE_LEN];
	size_t answered;             /* bytes of the answer's body */
	int64_t began_us;            /* boot clock */
	bool refused;                /* the address is private */
	char why[CURL_ERROR_SIZE];
	struct attempt *next;        /* of the lane's */
	struct attempt *done_next;   /* of those that ended */
};

/* A webhook that has attempts under way, or whose last one failed. */
struct lane {
	char webhook[UUID_LEN], team[UUID_LEN];
	struct attempt *active;
	int count;
	bool failing;
	struct lane *next;
};

#define LANE_BUCKETS 256

struct hook_sender {
	struct domain *d;
	CURLM *multi;
	pthread_t thread;
	atomic_bool stop, woken;
	int total;                   /* requests under way or ended, until they are settled */
	struct lane *lane[LANE_BUCKETS];
	struct attempt *done, **done_last;   /* ended, not yet settled: they stay in their lanes until then */
	char last[UUID_LEN];         /* webhook that the next pass begins after */
};

/* ---- attempts (attempt.c) ---- */
/* From the entry; hook may be NULL. Nothing is under way yet. NULL: out of memory. */
struct attempt *attempt_new(struct hook_sender *s, const struct outbox_rec *r, const struct webhook_rec *hook);
/* How it ended, into its record. */
void attempt_ended(struct attempt *a, CURLcode rc);
/* It ends without a request. */
void attempt_drop(struct attempt *a, const char *why);
void attempt_free(struct attempt *a);
/* Its body from the stored event; -1 when that is damaged. */
int attempt_body(struct attempt *a, const char *json, size_t n);
/* Its signature from the webhook's secret; -1 when that cannot be read. */
int attempt_sign(struct attempt *a, const struct webhook_rec *hook);
/* Make the request; -1 when memory is short. */
int attempt_begin(struct attempt *a, const struct webhook_rec *hook);

/* ---- lanes (lane.c) ---- */
/* The one that is there or a new one; NULL: out of memory. */
struct lane *lane_get(struct hook_sender *s, const char *webhook, const char *team);
bool lane_has(const struct lane *l, const struct outbox_rec *r);
void lane_add(struct lane *l, struct attempt *a);
void lane_remove(struct lane *l, struct attempt *a);
/* How many more attempts it may begin now. */
int lane_room(const struct hook_sender *s, const struct lane *l);
/* Forget it unless there is something to remember. */
void lane_put(struct hook_sender *s, struct lane *l);
void lanes_free(struct hook_sender *s);

#endif
