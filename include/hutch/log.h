/*
 * log.h - one line per event on standard error: time, level, program, text.
 * Tokens and keys are never logged.
 */
#ifndef HUTCH_LOG_H
#define HUTCH_LOG_H

enum log_level { LOG_ERROR, LOG_WARN, LOG_INFO, LOG_DEBUG };

/* name is kept (not copied). The level comes from $HUTCH_LOG (error|warn|info|debug, default info). */
void log_init(const char *name);
void log_at(enum log_level level, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

#define log_error(...) log_at(LOG_ERROR, __VA_ARGS__)
#define log_warn(...)  log_at(LOG_WARN, __VA_ARGS__)
#define log_info(...)  log_at(LOG_INFO, __VA_ARGS__)
#define log_debug(...) log_at(LOG_DEBUG, __VA_ARGS__)

#endif
